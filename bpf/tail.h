/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Records with a tail: stacks and branch records behind the values, each a struct section and
 * its data. Their sizes are known only when they have been taken, so a record with a tail
 * is put together in a buffer, and the used part is sent. Programs of calls that
 * were asked for stacks or branches call this; sessions take branches by it.
 */
#ifndef KSNOOP_TAIL_H
#define KSNOOP_TAIL_H

// Set before loading: what to take and how much of it.
const volatile struct tail_config tail_settings;

// The buffers, SCRATCH_PER_CPU for each CPU: an interrupt can run another program, and in a
// preemptible kernel another task can.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

// Snapshots of the newest branches. Programs take them by AppendSnapshot before anything
// else, since each call and jump of their own would push out the oldest branch.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct snapshots);
} branches SEC(".maps");

// The number of the buffer behind those of all CPUs, which nobody claims. Set before loading.
const volatile __u32 no_buffer;

// unused takes a buffer of this CPU, whose number is then *key; NULL if all are in use.
static __always_inline struct scratch *unused(__u32 *key)
{
	__u32 first = bpf_get_smp_processor_id() * SCRATCH_PER_CPU;

	for (__u32 i = 0; i < SCRATCH_PER_CPU; i++) {
		struct scratch *s;

		*key = first + i;
		s = bpf_map_lookup_elem(&scratches, key);
		if (s && !__sync_lock_test_and_set(&s->busy, 1))
			return s;
	}
	return 0;
}

// claim is unused, and counts a record that is lost.
static __always_inline struct scratch *claim(void)
{
	__u32 key;
	struct scratch *s = unused(&key);

	if (!s)
		ks_lost(LOST_SCRATCH);
	return s;
}

// kernel_stack is bpf_get_stack. If caller is set, it adds the caller of the function whose
// entry a kprobe was hit at. On arm64 the kernel walks along frame records, and at the entry
// the function has not made its own yet: the return address is still in the link register.
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

// ks_stack appends a section with a stack at offset at of the buffer. It returns the new end.
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

#if defined(__TARGET_ARCH_arm64)
#define USER_WORDS USER_WORDS_ARM64
#else
#define USER_WORDS USER_WORDS_AMD64
#endif

#define USER_HEAD (USER_WORDS * 8 + USER_RETURNS * sizeof(struct user_return))

// ks_user_returns copies where the newest calls of the thread whose returns are probed, by whomever, will return to.
FUNC int ks_user_returns(struct task_struct *task, struct user_return *to)
{
	struct return_instance *call = 0;

	if (bpf_core_field_exists(task->utask) && task->utask)
		call = task->utask->return_instances;
	for (__u32 i = 0; i < USER_RETURNS; i++) {
		to[i].stack = call ? call->stack : 0;
		if (!to[i].stack)
			break;
		to[i].address = call->orig_ret_vaddr;
		call = call->next;
	}
	return 0;
}

// ks_user_copy appends a section with the registers that the thread has in user space, and its
// stack from there on, to offset at of the buffer. It returns the new end. A page that is not
// in memory ends the copy, and so does the end of the stack.
FUNC __u32 ks_user_copy(void *buffer, __u32 at)
{
	struct section *section = buffer + at;
	void *to = (void *)(section + 1) + USER_HEAD;
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	__u32 limit = tail_settings.user_copy, done = 0;
	__u64 sp;

	section->kind = SECTION_USER_COPY;
	section->flags = 0;
	section->size = 0;
	if (!task->mm) // a thread of the kernel, which has no user space
		return at + sizeof(*section);
	if (bpf_probe_read_kernel(section + 1, USER_WORDS * 8, regs)) {
		section->size = -EFAULT;
		return at + sizeof(*section);
	}
	ks_user_returns(task, (void *)(section + 1) + USER_WORDS * 8);
	sp = regs->sp & ~7ULL;
	for (__u32 i = 0; i < USER_COPY_MAX / USER_COPY_STEP + 1; i++) {
		__u32 n = USER_COPY_STEP - ((sp + done) & (USER_COPY_STEP - 1));

		if (done >= limit || done >= USER_COPY_MAX)
			break;
		if (n > limit - done)
			n = limit - done;
		asm volatile("" : "+r"(n)); // else the compiler leaves out the next test, without which Linux 6.1 knows no bound
		if (n > USER_COPY_STEP || bpf_probe_read_user(to + done, n, (void *)(sp + done)))
			break;
		done += n;
	}
	section->size = USER_HEAD + done;
	return at + sizeof(*section) + USER_HEAD + done;
}

// take_branches copies the snapshot with a ticket. It returns the size in bytes, or a
// negative error number that says why there is none.
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
	if (s->ticket != ticket) { // overwritten: SNAPSHOTS others were taken meanwhile
		ks_count(LOST_BRANCHES);
		n = -EBUSY;
	}
	if (tail_settings.silent[cpu % MAX_CPUS / 64] >> cpu % 64 & 1)
		n = -ENODEV; // what the CPU returned is old
	return n;
}

// add_branches appends a section with branches, like ks_stack.
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

// finish_tail appends the tail, which is what (enum take), to the record of size bytes in s,
// sends the record and frees the buffer.
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
		if (tail_settings.user_copy)
			at = ks_user_copy(&s->event, at);
	}
	if (what & TAKE_BRANCHES)
		at = add_branches(&s->event, at, s->event.cpu, ticket);
	if (path_mask && what & TAKE_PATH)
		at = add_path(ctx, &s->event, at);
	if (s->event.faults)
		ks_count(UNREADABLE);
	mark_losses();
	if (bpf_ringbuf_output(&events, &s->event, at, settings.wake))
		ks_lost(LOST_RINGBUF);
	__sync_lock_test_and_set(&s->busy, 0);
	return 0;
}

// ks_send_tail captures into a buffer. how is the kind of the record and, from TAKE_SHIFT on,
// what the tail is to hold.
FUNC int ks_send_tail(void *ctx, __u32 probe, enum take how, __u32 size, __u64 ticket)
{
	__u64 ids = bpf_get_current_pid_tgid();
	struct scratch *s;

	if (is_own(ids))
		return 0;
	s = claim();
	if (!s)
		return 0;
	fill(&s->event, probe, how & ((1 << TAKE_SHIFT) - 1), ids);
	s->event.entry_time = 0;
	s->event.faults = ks_capture(ctx, &s->event + 1);
	return finish_tail(ctx, s, size, how >> TAKE_SHIFT, ticket);
}

// ks_finish_tail captures into the frame, and copies the record into a buffer.
FUNC int ks_finish_tail(void *ctx, struct frame *f, enum take how, __u32 size, __u64 ticket)
{
	__u64 ids = bpf_get_current_pid_tgid();
	struct scratch *s;

	if (is_own(ids))
		return 0;
	s = claim();
	if (!s)
		return 0;
	fill(&f->event, f->probe, how & ((1 << TAKE_SHIFT) - 1), ids);
	f->event.faults |= ks_capture(ctx, &f->event + 1);
	if (bpf_probe_read_kernel(&s->event, size, &f->event)) // never fails: it is our own memory
		ks_count(FAULT);
	return finish_tail(ctx, s, size, how >> TAKE_SHIFT, ticket);
}

#endif
