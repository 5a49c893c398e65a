/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Captures that a list describes. If the values of a record are only arguments, the result
 * and what these point to, a list in a map takes the place of a generated ks_capture, and
 * any number of functions can share one program. Shared programs call this.
 */
#ifndef KSNOOP_SLOTS_H
#define KSNOOP_SLOTS_H

#include "words.h"

// For each probe, what is captured at entry and at return.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct slot_list[2]);
} lists SEC(".maps");

// in_kernel reports whether bpf_probe_read_kernel may read an address. On x86 the helper
// itself refuses those of user space. On arm64 it relies on the CPU, and before Armv8.1 no
// CPU can refuse them (PAN).
static __always_inline bool in_kernel(__u64 addr)
{
#if defined(__TARGET_ARCH_arm64)
	return kernel_half(addr);
#else
	return true;
#endif
}

// read copies from user space if flags say so, else from the kernel.
static __always_inline long read(void *to, __u32 size, __u64 from, __u32 flags)
{
	if (flags & SLOT_USER)
		return bpf_probe_read_user(to, size, (void *)from);
	if (!in_kernel(from))
		return -EFAULT;
	return bpf_probe_read_kernel(to, size, (void *)from);
}

// store stores the value of a slot. It returns true if the value could not be read.
static __always_inline bool store(void *data, const struct slot *slot, __u64 word)
{
	__u32 flags = slot->flags, size = slot->size, width = slot->width;
	__u32 off = slot->off & LIST_MASK;
	void *to = data + off;
	__u64 v = 0;

	if (size > LIST_OBJECT)
		size = LIST_OBJECT;
	switch (slot->kind) {
	case SLOT_BYTES:
		return read(to, size, word, flags);
	case SLOT_TEXT:
		if (flags & SLOT_USER)
			return bpf_probe_read_user_str(to, size, (void *)word) < 0;
		return !in_kernel(word) || bpf_probe_read_kernel_str(to, size, (void *)word) < 0;
	case SLOT_LOAD:
		if (width > 8 || read(&v, width, word, flags))
			return 1;
		word = v;
		break;
	case SLOT_WORD:
		break;
	}
	width = (64 - 8 * width) & 63;
	word <<= width;
	*(__u64 *)(data + (off & ~7U)) = flags & SLOT_SIGNED ? (__s64)word >> width : word >> width;
	return 0;
}

// What ks_store hands to ks_store_one.
struct storing {
	void *data;
	const struct slot_list *list;
	__u64 faults;
	__u64 words[16];
};

static __noinline long ks_store_one(__u32 i, struct storing *s)
{
	const struct slot *slot;

	if (i >= LIST_SLOTS || i >= s->list->count)
		return 1;
	slot = &s->list->slot[i];
	if (store(s->data, slot, s->words[slot->word & 15]))
		s->faults |= 1ULL << (slot->index & 63);
	return 0;
}

// ks_store stores all values of a list. It returns which could not be read, bit i for slot i.
// bpf_loop (Linux 5.17) lets the verifier explore the body of the loop once.
FUNC __u64 ks_store(void *ctx, void *data, const struct slot_list *list)
{
	struct storing s = {.data = data, .list = list};

	ks_words(ctx, s.words, ARG_WORDS);
	s.words[RESULT_WORD] = ks_result(ctx);
	s.words[PLACE_WORD] = ks_place(ctx);
	bpf_loop(LIST_SLOTS, ks_store_one, &s, 0);
	return s.faults;
}

// lists_of returns the list of a probe for one end of its calls; NULL if its data are too large.
static __always_inline struct slot_list *lists_of(__u32 probe, bool at_return)
{
	struct slot_list *list = bpf_map_lookup_elem(&lists, &probe);

	if (list && at_return)
		list++;
	return list && list->size <= LIST_DATA ? list : 0;
}

// ks_send_list puts the record together in a buffer, like ks_send_tail.
FUNC int ks_send_list(void *ctx, __u32 probe, enum take how, __u64 ticket)
{
	__u64 ids = bpf_get_current_pid_tgid();
	__u32 kind = how & ((1 << TAKE_SHIFT) - 1);
	struct slot_list *list = lists_of(probe, kind != KIND_ENTRY);
	struct scratch *s;

	if (!list || is_own(ids))
		return 0;
	s = claim();
	if (!s)
		return 0;
	fill(&s->event, probe, kind, ids);
	s->event.entry_time = 0;
	s->event.faults = ks_store(ctx, &s->event + 1, list);
	return finish_tail(ctx, s, sizeof(struct event) + (list->size & LIST_MASK), how >> TAKE_SHIFT, ticket);
}

// ks_stash_list captures into a buffer and copies to the frame: as far as the verifier knows,
// a slot may be anywhere up to LIST_MASK, and a frame is not as large.
FUNC int ks_stash_list(void *ctx, struct frame *f)
{
	struct slot_list *list = lists_of(f->probe, 0);
	__u32 room = frame_size - sizeof(*f), size = list ? list->size : ~0;
	struct scratch *s = size <= room ? claim() : 0;

	if (!s) {
		ks_free(f);
		return 0;
	}
	f->event.faults = ks_store(ctx, &s->event + 1, list);
	if (size && bpf_probe_read_kernel(f + 1, size, &s->event + 1)) // never fails: it is our own memory
		ks_count(FAULT);
	__sync_lock_test_and_set(&s->busy, 0);
	return 0;
}

// ks_finish_list puts the record together in a buffer, like ks_finish_tail.
FUNC int ks_finish_list(void *ctx, struct frame *f, enum take how, __u64 ticket)
{
	__u64 ids = bpf_get_current_pid_tgid();
	__u32 kind = how & ((1 << TAKE_SHIFT) - 1);
	struct slot_list *list = lists_of(f->probe, 1);
	struct scratch *s;

	if (!list || is_own(ids))
		return 0;
	s = claim();
	if (!s)
		return 0;
	s->event.entry_time = f->event.entry_time;
	s->event.faults = 0;
	if (kind == KIND_CALL) {
		s->event.faults = f->event.faults;
		if (bpf_probe_read_kernel(&s->event + 1, list->size & LIST_MASK, f + 1)) // never fails
			ks_count(FAULT);
	}
	fill(&s->event, f->probe, kind, ids); // and the owner, which lies in what was copied
	s->event.faults |= ks_store(ctx, &s->event + 1, list);
	return finish_tail(ctx, s, sizeof(struct event) + (list->size & LIST_MASK), how >> TAKE_SHIFT, ticket);
}

#endif
