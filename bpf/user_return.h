/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef KSNOOP_USER_RETURN_H
#define KSNOOP_USER_RETURN_H

/*
 * Calls of functions of the process, as the kernel keeps them whose returns are probed (kernel/events/uprobes.c). When
 * the programs at an entry have run, it replaces the address that the call returns to by that of its trampoline. A
 * function that is jumped to instead of called finds the trampoline there: it shares the stack pointer and the return
 * with the one that has jumped. When the trampoline is reached, the programs of all these run, those of the last one
 * first. Without BTF of the kernel, neither can be known.
 */

// pending returns how many returns of functions of the process the kernel waits for in this thread.
static __always_inline __u32 pending(void)
{
	struct task_struct *task;

	if (untyped)
		return 0;
	task = bpf_get_current_task_btf();
	return bpf_core_field_exists(task->utask) && task->utask ? task->utask->depth : 0;
}

// tail_called reports whether a function of the process, at whose entry the program is, was jumped to from one whose
// return is probed.
static __always_inline bool tail_called(void *ctx, __u64 user_sp)
{
	struct task_struct *task;
	__u64 back = 0, trampoline;

	if (untyped)
		return false;
	task = bpf_get_current_task_btf();
	if (!bpf_core_field_exists(task->mm->uprobes_state.xol_area))
		return false;
	trampoline = task->mm->uprobes_state.xol_area->vaddr;
#if defined(__TARGET_ARCH_arm64)
	back = ((struct pt_regs *)ctx)->regs[30];
#else
	bpf_probe_read_user(&back, sizeof(back), (void *)user_sp);
#endif
	return trampoline && back == trampoline;
}

// return_unseen reports whether the kernel will not show the return of a function of the process, at whose entry the
// program is, because it waits for too many of this thread (prepare_uretprobe).
static __always_inline bool return_unseen(void)
{
	return pending() >= USER_DEPTH;
}

#endif
