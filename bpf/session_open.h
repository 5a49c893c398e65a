/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Finds the session of the current thread or interrupt, opens a new one, and gives it
 * back when a program is done with it. Every program of a session's functions begins
 * and ends here.
 */
#ifndef KSNOOP_SESSION_OPEN_H
#define KSNOOP_SESSION_OPEN_H

// context returns which interrupts are being served, as bits of the preemption count:
// non-maskable, hard and soft ones. It is 0 while a thread runs.
static __always_inline __u32 context(void)
{
	return ks_preempt_count() & (NMI_MASK | HARDIRQ_MASK | SERVING_SOFTIRQ);
}

// context_below returns the context that a probe inside a function is hit in. A breakpoint
// may have led to the probe: the kernel counts that as a non-maskable interrupt and a hard
// one, which are subtracted.
static __always_inline __u32 context_below(void)
{
	__u32 in = context();

	return in & NMI_MASK ? in - NMI_UNIT - HARDIRQ_UNIT : in;
}

// interrupt_slot returns the slot behind the pool that the soft or the hard interrupts of this CPU have.
static __always_inline __u32 interrupt_slot(__u32 context)
{
	return 1 + session_count + 2 * bpf_get_smp_processor_id() + !!(context & HARDIRQ_MASK);
}

// session_of returns the session of a context: that of the current thread, NULL if it has
// none, or the one that soft or hard interrupts of this CPU have. Non-maskable interrupts
// have none.
static __always_inline struct session *session_of(__u32 context)
{
	if (!context)
		return session_of_task(bpf_get_current_task());
	return context & NMI_MASK ? 0 : session_at(interrupt_slot(context));
}

// allowed reports whether the filters let the current task open a session.
static __always_inline int allowed(void)
{
	return ks_filter(0) && !is_own(bpf_get_current_pid_tgid());
}

// may_open reports whether the current task may open a session now.
static __always_inline int may_open(void)
{
	return running == ON && allowed();
}

// ks_away asks the filters first of all, while no session is open: most calls of most entry
// functions end here. While one is open, it may be that of the caller, whatever the filters
// say now.
FUNC __s64 ks_away(void)
{
	if (open_sessions)
		return 0;
	return running == ON && task_wanted(0) ? FUNC_CHECKED : -1;
}

// session_for returns the session that a call belongs to, or a new one if its function opens
// sessions, or NULL. The session is busy until done_with. Only opening a session asks the
// filters: their answer may change while it is open.
static __always_inline struct session *session_for(__u64 cookie)
{
	int entry = !!(cookie & FUNC_ENTRY), checked = 0;
	struct session *s = 0;
	__u32 in;

	if (running == OFF)
		return 0;
	if (open_sessions) {
		in = context();
		s = session_of(in);
	} else {
		if (!entry || running != ON || (!(cookie & FUNC_CHECKED) && !ks_filter(0)) || is_own(bpf_get_current_pid_tgid()))
			return 0;
		checked = 1;
		in = context();
	}
	if (!s || !s->depth) {
		if (!entry || (!checked && !may_open()))
			return 0;
		if (!s && !in)
			return ks_new_session();
		if (!s)
			s = session_of(in); // of an interrupt
		if (!s) {
			ks_lost(LOST_NMI);
			return 0;
		}
		s->context = in;
		if (in)
			s->next = interrupt_slot(in);
	}
	if (s->busy) { // a program at work on it has made this call
		ks_count(LOST_RECURSION);
		return 0;
	}
	s->busy = 1;
	return s;
}

FUNC struct session *ks_session(__u64 cookie)
{
	return session_for(cookie);
}

// open_session returns the open session of a context, NULL if there is none. The session is
// busy until done_with.
static __always_inline struct session *open_session(__u32 in)
{
	struct session *s = running != OFF ? session_of(in) : 0;

	if (!s || !s->depth)
		return 0;
	if (s->busy) {
		ks_count(LOST_RECURSION);
		return 0;
	}
	s->busy = 1;
	return s;
}

FUNC struct session *ks_open_session(void)
{
	return open_sessions ? open_session(context()) : 0;
}

// ks_around is ks_open_session for an injected probe.
FUNC struct session *ks_around(__u32 trap)
{
	if (!open_sessions)
		return 0;
	return open_session(trap ? context_below() : context());
}

// done_with gives back what session_for or open_session has returned. It returns a session
// that has ended to the pool, where another thread may take it at once: the caller must not
// touch it again.
static __always_inline int done_with(struct session *s)
{
	if (wanted.live && s->log_len)
		send_part(s, SESSION_CHUNK);
	if (!s->depth && s->slot)
		return ks_release(s);
	s->busy = 0;
	return 0;
}

FUNC int ks_done(struct session *s)
{
	return done_with(s);
}

// overrun returns how many returns of the current task fprobes have missed, ever. Since Linux
// 6.14 pending returns are kept on a stack of 4 KiB for each task. The task counts those that
// do not fit; the links that miss them are not told.
static __always_inline __u32 overrun(void)
{
	struct task_struct *task;

	if (!wanted.overrun)
		return 0;
	task = bpf_get_current_task_btf();
	if (!__builtin_preserve_field_info(task->trace_overrun, 2 /* it exists */))
		return 0;
	return task->trace_overrun.counter;
}

// ks_own tells whose session it is. It is not inlined: start is for sessions without an owner,
// too, and would take more instructions.
FUNC int ks_own(struct session *s)
{
	s->rec.owner = 1;
	set_owner(&s->owner, settings.record);
	return 0;
}

// start opens a session with the call of an entry function.
static __always_inline void start(struct session *s, __u32 func, __u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct name *comm = (void *)s->rec.comm;
	__u64 inner = inner_ids();
	__u32 record = settings.record;

	__sync_fetch_and_add(&open_sessions, 1);
	s->top = s->inner = 0;
	__builtin_memset(&s->failing, 0, FRESH_SIZE);
	s->log_len = s->stash_len = s->trail.stack_len = s->trail.branches_len = 0;
	s->rec.start = now;
	s->rec.tgid = task->tgid;
	s->rec.tid = task->pid;
	s->rec.inner_tgid = inner >> 32;
	s->rec.inner_tid = inner;
	s->rec.ours = record & RECORD_OURS;
	s->rec.func = func;
	s->rec.log_base = 0;
	s->rec.lost_deep = 0;
	__builtin_memset(&s->rec.lost_values, 0, LOST_SIZE);
	s->rec.cpu = bpf_get_smp_processor_id();
	s->rec.interrupt = !!s->context + !!(s->context & HARDIRQ_MASK);
	if (record & RECORD_OWNER)
		ks_own(s);
	s->overrun = overrun();
	*comm = *(struct name *)task->comm;
}

#endif
