/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Capturing that is driven by data: where a record's values are nothing but
 * arguments, the result and what these point to, a list of them takes the
 * place of a generated ks_capture, and any number of functions share one
 * program. For programs that are given the registers only.
 */
#ifndef KSNOOP_SLOTS_H
#define KSNOOP_SLOTS_H

#include "words.h"

// For each probe: what is captured at entry, and what at return.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct slot_list[2]);
} lists SEC(".maps");

// in_kernel reports whether an address may be read as the kernel's. x86 makes
// the helpers test that; arm64 leaves it to the CPU, and those before Armv8.1
// cannot keep the kernel from user space (PAN).
static __always_inline bool in_kernel(__u64 addr)
{
#if defined(__TARGET_ARCH_arm64)
	return (__s64)addr < 0;
#else
	return true;
#endif
}

// read reads from the address space that flags say.
static __always_inline long read(void *to, __u32 size, __u64 from, __u32 flags)
{
	if (flags & SLOT_USER)
		return bpf_probe_read_user(to, size, (void *)from);
	if (!in_kernel(from))
		return -EFAULT;
	return bpf_probe_read_kernel(to, size, (void *)from);
}

// store stores the value of a slot and reports whether that could not be read.
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

// What ks_store_one works on.
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

// ks_store stores all values of a list and returns the set of those that could
// not be read. It loops by a helper, for which the verifier looks at one turn
// of the loop only (Linux 5.17).
FUNC __u64 ks_store(void *ctx, void *data, const struct slot_list *list)
{
	struct storing s = {.data = data, .list = list};

	ks_words(ctx, s.words, ARG_WORDS);
	s.words[RESULT_WORD] = ks_result(ctx);
	bpf_loop(LIST_SLOTS, ks_store_one, &s, 0);
	return s.faults;
}

// lists_of returns the lists of a probe, and 0 if its data would find no room.
static __always_inline struct slot_list *lists_of(__u32 probe, bool at_return)
{
	struct slot_list *list = bpf_map_lookup_elem(&lists, &probe);

	if (list && at_return)
		list++;
	return list && list->size <= LIST_DATA ? list : 0;
}

// ks_send_list is ks_send_tail for a record whose values are those of a list.
FUNC int ks_send_list(void *ctx, __u32 probe, enum take how, __u64 ticket)
{
	__u64 ids = bpf_get_current_pid_tgid();
	__u32 kind = how & ((1 << TAKE_SHIFT) - 1);
	struct slot_list *list = lists_of(probe, kind != KIND_ENTRY);
	struct scratch *s;

	if (!list || ids >> 32 == settings.self)
		return 0;
	s = claim();
	if (!s)
		return 0;
	fill(&s->event, probe, kind, ids);
	s->event.entry_time = 0;
	s->event.faults = ks_store(ctx, &s->event + 1, list);
	return finish_tail(ctx, s, sizeof(struct event) + (list->size & LIST_MASK), how >> TAKE_SHIFT, ticket);
}

// ks_stash_list puts the values at entry into a frame, which is given back if
// that cannot be.
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
	if (size && bpf_probe_read_kernel(f + 1, size, &s->event + 1)) // it is always there
		ks_count(FAULT);
	__sync_lock_test_and_set(&s->busy, 0);
	return 0;
}

// ks_finish_list is ks_finish_tail for a record whose values are those of a
// list, and, if it is that of the whole call, those in the frame before them.
FUNC int ks_finish_list(void *ctx, struct frame *f, enum take how, __u64 ticket)
{
	__u64 ids = bpf_get_current_pid_tgid();
	__u32 kind = how & ((1 << TAKE_SHIFT) - 1);
	struct slot_list *list = lists_of(f->probe, 1);
	struct scratch *s;

	if (!list || ids >> 32 == settings.self)
		return 0;
	s = claim();
	if (!s)
		return 0;
	fill(&s->event, f->probe, kind, ids);
	s->event.entry_time = f->event.entry_time;
	s->event.faults = 0;
	if (kind == KIND_CALL) {
		s->event.faults = f->event.faults;
		if (bpf_probe_read_kernel(&s->event + 1, list->size & LIST_MASK, f + 1)) // it is always there
			ks_count(FAULT);
	}
	s->event.faults |= ks_store(ctx, &s->event + 1, list);
	return finish_tail(ctx, s, sizeof(struct event) + (list->size & LIST_MASK), how >> TAKE_SHIFT, ticket);
}

#endif
