/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What follows the values in a record if it was asked for: stacks and branch
 * records, each a struct section and its data. Their sizes are known only when
 * they have been taken, so such a record is put together in a buffer and what
 * is used of it is sent. Records without a tail have none of that.
 */
#ifndef KSNOOP_TAIL_H
#define KSNOOP_TAIL_H

// Set before loading: what to take and how much of it.
const volatile struct tail_config tail_settings;

// Buffers, SCRATCH_PER_CPU for each CPU: a program can be interrupted by
// another, and where the kernel is preemptible its task can be.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

// The newest branches when return programs began. Generated code takes them without
// a call or a jump of its own, before or then.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct snapshots);
} branches SEC(".maps");

static __always_inline struct scratch *claim(void)
{
	__u32 first = bpf_get_smp_processor_id() * SCRATCH_PER_CPU;

	for (__u32 i = 0; i < SCRATCH_PER_CPU; i++) {
		__u32 key = first + i;
		struct scratch *s = bpf_map_lookup_elem(&scratches, &key);

		if (s && !__sync_lock_test_and_set(&s->busy, 1))
			return s;
	}
	ks_lost(LOST_SCRATCH);
	return 0;
}

// kernel_stack is bpf_get_stack with the caller of the function that a kprobe has
// just been entered of, if that is asked for. On arm64 the kernel walks from frame
// record to frame record, and a function makes its own after the probe; until then the
// link register has where it was called from.
static __always_inline long kernel_stack(void *ctx, __u64 *stack, __u32 size, __u32 caller)
{
#if defined(__TARGET_ARCH_arm64)
	enum { LINK = 30 };
	__u64 *regs = ctx;
	long n;

	if (caller && size > 2 * sizeof(*stack)) {
		n = bpf_get_stack(ctx, stack + 1, size - sizeof(*stack), 0);
		if (n <= 0)
			return n;
		stack[0] = stack[1];
		stack[1] = regs[LINK];
		return n + sizeof(*stack);
	}
#endif
	return bpf_get_stack(ctx, stack, size, 0);
}

// ks_stack adds a stack to what is in the buffer up to at and returns its new end.
FUNC __u32 ks_stack(void *ctx, void *buffer, __u32 at, enum section_kind kind, __u32 caller)
{
	__u32 size = kind == SECTION_STACK ? tail_settings.stack : tail_settings.user_stack;
	struct section *section = buffer + at;
	long n;

	if (kind == SECTION_STACK)
		n = kernel_stack(ctx, (void *)(section + 1), size, caller);
	else
		n = bpf_get_stack(ctx, section + 1, size, BPF_F_USER_STACK);

	section->kind = kind;
	section->flags = n == size ? SECTION_CUT : 0;
	if (kind == SECTION_STACK)
		section->flags |= tail_settings.stack_flags;
	section->size = n;
	if (n > 0)
		at += n;
	return at + sizeof(*section);
}

// take_branches copies the snapshot with that ticket. It returns its size or why
// there is none, as a negative error number.
static __always_inline __s64 take_branches(void *to, __u32 cpu, __u64 ticket)
{
	struct snapshots *all;
	struct snapshot *s;
	__u32 key = 0;
	__s64 n;

	all = bpf_map_lookup_elem(&branches, &key);
	if (!all)
		return 0;
	s = &all->ring[ticket % SNAPSHOTS];
	n = s->size;
	if (n > (__s64)sizeof(s->entries))
		n = sizeof(s->entries);
	if (n > 0 && bpf_probe_read_kernel(to, n, s->entries))
		n = 0;
	if (s->ticket != ticket) { // others have taken so many meanwhile
		ks_count(LOST_BRANCHES);
		n = -EBUSY;
	}
	if (tail_settings.silent[cpu % MAX_CPUS / 64] >> cpu % 64 & 1)
		n = -ENODEV; // whatever there was is old
	return n;
}

static __always_inline __u32 add_branches(void *buffer, __u32 at, __u32 cpu, __u64 ticket)
{
	struct section *section = buffer + at;
	__s64 n = take_branches(section + 1, cpu, ticket);

	section->kind = SECTION_BRANCHES;
	section->flags = tail_settings.branch_flags;
	section->size = n;
	if (n > 0)
		at += n;
	return at + sizeof(*section);
}

// finish_tail adds what is wanted to the record of size bytes in s, sends it
// and gives the buffer back.
static __always_inline int finish_tail(void *ctx, struct scratch *s, __u32 size, __u32 what, __u64 ticket)
{
	__u32 at = size;

	if (what)
		s->event.flags |= EVENT_TAIL;
	if (what & TAKE_STACKS) {
		if (tail_settings.stack)
			at = ks_stack(ctx, &s->event, at, SECTION_STACK, what & TAKE_CALLER);
		if (tail_settings.user_stack)
			at = ks_stack(ctx, &s->event, at, SECTION_USER_STACK, 0);
	}
	if (what & TAKE_BRANCHES)
		at = add_branches(&s->event, at, s->event.cpu, ticket);
	if (s->event.faults)
		ks_count(UNREADABLE);
	if (mark_due)
		ks_mark();
	if (bpf_ringbuf_output(&events, &s->event, at, settings.wake))
		ks_lost(LOST_RINGBUF);
	__sync_lock_test_and_set(&s->busy, 0);
	return 0;
}

// ks_send_tail is ks_send with a tail. how is the kind and, from TAKE_SHIFT on,
// what the tail is to hold; ticket is that of the branch snapshot.
FUNC int ks_send_tail(void *ctx, __u32 probe, enum take how, __u32 size, __u64 ticket)
{
	__u64 ids = bpf_get_current_pid_tgid();
	struct scratch *s;

	if (ids >> 32 == settings.self)
		return 0;
	s = claim();
	if (!s)
		return 0;
	fill(&s->event, probe, how & ((1 << TAKE_SHIFT) - 1), ids);
	s->event.entry_time = 0;
	s->event.faults = ks_capture(ctx, &s->event + 1);
	return finish_tail(ctx, s, size, how >> TAKE_SHIFT, ticket);
}

// ks_finish_tail is ks_finish with a tail.
FUNC int ks_finish_tail(void *ctx, struct frame *f, enum take how, __u32 size, __u64 ticket)
{
	__u64 ids = bpf_get_current_pid_tgid();
	struct scratch *s;

	if (ids >> 32 == settings.self)
		return 0;
	s = claim();
	if (!s)
		return 0;
	fill(&f->event, f->probe, how & ((1 << TAKE_SHIFT) - 1), ids);
	f->event.faults |= ks_capture(ctx, &f->event + 1);
	if (bpf_probe_read_kernel(&s->event, size, &f->event)) // a frame is always there
		ks_count(FAULT);
	return finish_tail(ctx, s, size, how >> TAKE_SHIFT, ticket);
}

#endif
