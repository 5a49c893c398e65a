/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef KSNOOP_USER_RETURN_H
#define KSNOOP_USER_RETURN_H

/*
 * Calls of functions of the process, as the kernel keeps them whose returns are probed (kernel/events/uprobes.c). When
 * the programs at an entry have run, it replaces the address that the call returns to by that of its trampoline. A
 * function that is jumped to instead of called finds the trampoline there: it shares the stack pointer and the return
 * with the one that has jumped. When the trampoline is reached, the programs of all these run, those of the last one
 * first.
 */

// tail_called reports whether a function of the process, at whose entry the program is, was jumped to from one whose
// return is probed. Without BTF of the kernel, a return address at the beginning of a page is taken for the trampoline's. If
// the return address cannot be read, the call has not put it there.
static __always_inline bool tail_called(void *ctx, __u64 user_sp)
{
	struct task_struct *task;
	__u64 back = 0, trampoline;

#if defined(__TARGET_ARCH_arm64)
	back = ((struct pt_regs *)ctx)->regs[30];
#else
	if (bpf_probe_read_user(&back, sizeof(back), (void *)user_sp))
		return true;
#endif
	if (untyped)
		return back && !(back % 4096);
	task = bpf_get_current_task_btf();
	if (!bpf_core_field_exists(task->mm->uprobes_state.xol_area))
		return false;
	trampoline = task->mm->uprobes_state.xol_area->vaddr;
	return trampoline && back == trampoline;
}

// ks_waiting reports whether the kernel waits for a return of a function of the process at this stack pointer. Without BTF
// of the kernel, it is taken to do so.
FUNC int ks_waiting(__u64 func, __u64 user_sp)
{
	struct return_instance *r;
	struct task_struct *task;

	if (untyped)
		return 1;
	task = bpf_get_current_task_btf();
	if (!bpf_core_field_exists(task->utask))
		return 0;
	r = task->utask->return_instances;
	for (int i = 0; i < USER_DEPTH; i++) {
		__u64 stack = r->stack; // 0 if there is none

		if (!stack || stack > user_sp)
			break;
		if (stack == user_sp) { // else longjmp has ended it
			if (r->func == func)
				return 1;
			if (!r->chained)
				break;
		}
		r = r->next;
	}
	return 0;
}

// jumped_from reports whether a call of a function of the process, at whose entry the program is, is not over and has led to
// this one by jumps.
static __always_inline int jumped_from(void *ctx, __u64 user_sp)
{
	struct pt_regs *regs = ctx;

	if (!tail_called(ctx, user_sp))
		return 0;
#if defined(__TARGET_ARCH_arm64)
	return ks_waiting(regs->pc, user_sp);
#else
	return ks_waiting(regs->ip, user_sp);
#endif
}

// return_unseen reports whether the kernel will not show the return of a function of the process, at whose entry the
// program is, because it waits for too many of this thread (prepare_uretprobe).
static __always_inline bool return_unseen(void)
{
	struct task_struct *task;

	if (untyped)
		return false;
	task = bpf_get_current_task_btf();
	return bpf_core_field_exists(task->utask) && task->utask && task->utask->depth >= USER_DEPTH;
}

#endif
