/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Closes the sessions that a thread leaves open when it ends or begins another program.
 */
#ifndef KSNOOP_SESSION_EXIT_H
#define KSNOOP_SESSION_EXIT_H

// end_open ends a session whose entry function will not return.
static __always_inline void end_open(void *ctx, struct session *s, enum session_kind kind)
{
	s->busy = 1;
	s->top = s->depth;
	ks_log_unfinished(s);
	ks_close(ctx, s, kind);
	ks_done(s);
}

// A thread that a signal has ended has the signal in its exit code and this flag. After an oops it mostly has the signal only, as it
// has if seccomp has ended it.
enum { SIGNAL_MASK = 0x7f, PF_SIGNALED = 0x400 };

static __always_inline int oopsed(struct task_struct *task)
{
	return (task->exit_code & SIGNAL_MASK) && !(task->flags & PF_SIGNALED);
}

// session_exit ends the session of a thread that ends: in a call of its entry function, or after one of which no return
// was seen. An oops leaves nothing of the stack (rewind_stack_and_make_dead), so that there the call counts as not over.
SEC("tp_btf/sched_process_exit")
int session_exit(__u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct session *s = session_of_task((__u64)task);

	if (!s || !s->depth || s->busy) // what runs inside of another program is left to session_free
		return 0;
	s->busy = 1;
	if (!s->trampoline || oopsed(task) || !ks_over(s)) {
		end_open(ctx, s, SESSION_EXIT);
		return 0;
	}
	forget(s, 0);
	ks_done(s);
	return 0;
}

// session_exec ends a session that has begun in a function of the process, when its thread has replaced the program. Only
// calls of these functions have a result in flight.
SEC("tp_btf/sched_process_exec")
int session_exec(__u64 *ctx)
{
	struct session *s = session_of_task(bpf_get_current_task());

	if (s && s->depth && s->calls[0].result)
		end_open(ctx, s, SESSION_EXEC);
	return 0;
}

// session_free ends a session that the thread opened after session_exit, or for which the kernel skipped session_exit since
// another task was preempted in it, before its task struct is freed and may become another thread's. That session is not
// reported, but counted.
SEC("tp_btf/sched_process_free")
int session_free(__u64 *ctx)
{
	struct session *s = session_of_task(ctx[0]);

	if (!s)
		return 0;
	if (s->depth) {
		add(LOST_RETURN, s->depth);
		end_unseen(s);
	}
	drop(s);
	return ks_release(s);
}

#endif
