/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The stack of a session's calls: ks_enter and push put a call on top, ks_leave and pop
 * take it off. Calls whose return was not seen are taken off when a later call shows
 * that they are over.
 */
#ifndef KSNOOP_SESSION_CALLS_H
#define KSNOOP_SESSION_CALLS_H

// give_up_inside gives up the kept chains that hang under calls from index n on, whose results will not be known. It has no branches, since
// the verifier would follow what comes then once for each way.
static __always_inline void give_up_inside(struct session *s, __u64 n)
{
	__u64 given_up = 0;

#pragma unroll
	for (__u32 i = 0; i < KEPT; i++)
		given_up |= (n - s->kept[i].from) >> 63 << i;
	s->keeps &= ~given_up;
}

// end_unseen counts a session as over, of whose calls no return was seen.
static __always_inline void end_unseen(struct session *s)
{
	__sync_fetch_and_add(&open_sessions, -1);
	if (!s->calls[0].result) // of a function of the kernel
		add(LOST_INNER, s->inner);
}

// forget takes off the calls from index n on, whose returns were not seen, with the failing chains that hang under them. The session
// ends if none is left. Of functions of the kernel, the calls of entry functions within it were most likely
// no such calls: since each system call begins at another random offset in the stack, a call can be at
// a lower address than an earlier one that is over. They should have opened sessions.
static __always_inline void forget(struct session *s, __u32 n)
{
	s->rec.lost_returns += s->depth - n;
	add(LOST_RETURN, s->depth - n);
	if (n)
		ks_log_unseen(s, n);
	s->depth = n;
	s->failing = 0; // the chain in place hangs under the innermost call
	give_up_inside(s, n);
	if (!n) {
		end_unseen(s);
		drop(s);
	}
}

// ks_unwind takes off calls that must be over because func is at sp now: those with a lower
// stack pointer. It looks at UNWIND calls at most; the next call goes on. It returns whether
// it found a call of func with this stack pointer. If again is set, func has just been
// called, so that one is over as well and is taken off, too.
FUNC int ks_unwind(struct session *s, __u32 sp, __u32 func, int again)
{
	__u32 n = s->depth, keep = n, found = 0;

	for (int i = 0; i < UNWIND; i++) {
		struct call *c;

		if (!n || n > DEPTH)
			break;
		c = at(s->calls, n - 1);
		if (c->sp > sp)
			break;
		if (c->sp < sp) {
			keep = n - 1;
		} else if (c->func == func) { // else a tail call: several functions have this stack pointer
			found = 1;
			keep = again ? n - 1 : n;
			break;
		}
		n += nothing - 1; // else the verifier would follow each turn, and then the rest, for each number
	}
	keep += nothing;
	if (keep < s->depth)
		forget(s, keep);
	return found;
}

// A system call begins at a random offset in the stack (CONFIG_RANDOMIZE_KSTACK_OFFSET), at most so many bytes.
enum { RANDOM_OFFSET = 1024 };

// Where a function that is called through a trampoline returns to, counted in words from behind the arguments in the
// context: past the result and the trampoline's frame pointer. If the function called its trampoline, its own address comes
// first. From Linux 6.19 on it may have jumped there (arch_prepare_bpf_trampoline).
enum {
	JUMPED = 2,
#if defined(__TARGET_ARCH_arm64)
	CALLED = 4,
#else
	CALLED = 3,
#endif
};

// A session is passed to the body of seek_frames' loop on the stack.
static __noinline long ks_seek_frame(__u32 i, struct session **holder)
{
	struct sought *f = &(*holder)->sought;

	if (i >= FRAMES || i >= f->count)
		return 1;
#pragma unroll
	for (int k = 0; k < 2; k++) {
		f->found[k] += f->frames[i] == f->now[k];
		f->live[k] += f->frames[i] == f->then[k];
	}
	return 0;
}

// seek_frames looks for s->sought.now and then in the kernel's stack. It returns 0 if it cannot see the whole of it: another task
// of this CPU may have been preempted with the kernel's buffer in use.
static __always_inline int seek_frames(struct session *s, struct task_struct *task)
{
	struct sought *f = &s->sought;
	long n = bpf_get_task_stack(task, f->frames, sizeof(f->frames), 0);

	if (n <= 0)
		return 0;
	f->count = n / sizeof(*f->frames);
	f->found[0] = f->found[1] = f->live[0] = f->live[1] = 0;
	bpf_loop(FRAMES, ks_seek_frame, &s, 0);
	return f->count < FRAMES;
}

// ks_recurs reports whether the first call of a session can still be running, whose function is called again with the
// context at sp. If it is, the kernel's unwinder finds where both calls return to. What cannot be found out counts as running.
FUNC int ks_recurs(struct session *s, __u32 sp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 half = (__u64)task->stack >> 32 << 32, at = half | sp, before = half | s->calls[0].sp, words;
	__u64 now[CALLED - JUMPED + 1], then[CALLED - JUMPED + 1];
	struct sought *f = &s->sought;

	if (bpf_probe_read_kernel(&words, sizeof(words), (void *)(at - 8)))
		return 1;
	words = 8 * ((words & 0xff) + JUMPED); // the upper bits are flags of fsession
	if (bpf_probe_read_kernel(now, sizeof(now), (void *)(at + words)) || bpf_probe_read_kernel(then, sizeof(then), (void *)(before + words)))
		return 1;
	f->now[0] = now[0];
	f->now[1] = now[CALLED - JUMPED];
	f->then[0] = then[0];
	f->then[1] = then[CALLED - JUMPED];
	if (!seek_frames(s, task))
		return 1;
	if (f->found[1])
		return f->live[1] > (f->now[1] == f->then[1]);
	return !f->found[0] || f->live[0] > (f->now[0] == f->then[0]);
}

// ks_over reports whether the first call of a session, whose entry function was called through a trampoline, is over: nothing
// in the kernel's stack returns to where it does, and something else may stand in its place. What cannot be found out counts as
// running.
FUNC int ks_over(struct session *s)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 before = (__u64)task->stack >> 32 << 32 | s->calls[0].sp, words, then[CALLED - JUMPED + 1];
	struct sought *f = &s->sought;

	if (bpf_probe_read_kernel(&words, sizeof(words), (void *)(before - 8)))
		return 0;
	if (words << 1 >> 17) // the number of arguments, and flags
		return 1;
	words = 8 * ((words & 0xff) + JUMPED);
	if (bpf_probe_read_kernel(then, sizeof(then), (void *)(before + words)))
		return 0;
	f->now[0] = f->then[0] = then[0];
	f->now[1] = f->then[1] = then[CALLED - JUMPED];
	return seek_frames(s, task) && !f->live[0] && !f->live[1];
}

// ks_end_unseen ends a session of which no return was seen, if its entry function, called through a trampoline, is called again, at
// sp, and the first call is over. A lower address alone does not say that the function calls itself: this may be another system call, with
// another random offset.
FUNC int ks_end_unseen(struct session *s, __u32 func, __u32 sp)
{
	if (s->calls[0].func == func && s->calls[0].sp - sp <= RANDOM_OFFSET && !s->context && !ks_recurs(s, sp))
		forget(s, 0);
	return 0;
}

// push puts a call on top of the stack, and starts the session if it is the first one. It
// returns 0 if the call is not recorded: it is made by an interrupt, there are DEPTH calls
// already, or no session is open any more and its function opens none. user_sp is 0 for a
// function of the kernel.
static __always_inline int push(struct session *s, __u64 cookie, __u32 sp, __u64 user_sp)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 func = cookie, d = s->depth;
	struct call *c;

	if (d) {
		// Another stack: an interrupt runs that the preemption count does not show yet.
		if (!s->context && (s->calls[0].sp ^ sp) >= STACK_SIZE)
			return 0;
		if (!user_sp && d <= DEPTH && at(s->calls, d - 1)->sp <= sp) // ks_push_user has done the same
			ks_unwind(s, sp, func, 1);
		else if (!user_sp && wanted.trampolines && (cookie & FUNC_TRAMPOLINE))
			ks_end_unseen(s, func, sp);
		d = s->depth;
		if (!d && !may_open()) // session_for has not asked: a session was open; of an interrupt, it was for another task
			return 0;
	}
	if (!d) {
		if (!(cookie & FUNC_ENTRY))
			return 0;
		start(s, func, now); // a new session has nothing to keep
		s->trampoline = cookie >> FUNC_TRAMPOLINE_BIT & 1;
		c = s->calls;
	} else {
		if (cookie & FUNC_ENTRY)
			s->inner++;
		if (d >= DEPTH) {
			s->rec.lost_deep++;
			ks_count(LOST_DEPTH);
			return 0;
		}
		c = at(s->calls, d);
		if (s->failing) {
			ks_keep(s);
			s->failing = 0;
		} else if (s->top > d && !s->keeps) {
			// The last call in this place has not failed: drop the values that it captured.
			if (wanted.traced)
				s->stash_len = c->start;
			else
				s->log_len = c->start;
		}
	}
	c->entry = now;
	c->duration = 0;
	c->result = user_sp;
	c->sp = sp;
	c->func = func;
	c->start = wanted.traced ? s->stash_len : s->log_len;
	c->values = 0;
	c->item = 0;
	c->flags = 0;
	s->depth = s->top = d + 1;
	s->changes++;
	if (wanted.notes)
		ks_note_entry(s, d, func, now);
	return 1;
}

FUNC int ks_push(struct session *s, __u64 cookie, __u32 sp)
{
	return push(s, cookie, sp, 0);
}

// Functions of the process are called with the thread's saved registers at regs, all at the same address. Of the kernel's
// functions only those run then that led to the probe (handle_swbp and its callers), so those of the process come first
// among the calls in flight. In the place of a stack pointer
// they have numbers between regs and the end of the stack, which is more than DEPTH bytes: regs + DEPTH for the outermost,
// and so on downwards. Their stack pointers in user space are kept in the place of their results. A call of the kernel
// that is still there has 0 in it: it is over, and its return was not seen, or it is one that led to the probe.
//
// user_calls returns how many calls in flight are outside of one with this stack pointer in user space. It has no
// branches, or the verifier would go on with each number.
static __always_inline __u32 user_calls(struct session *s, __u64 user_sp)
{
	__u64 n = 0;

#pragma unroll
	for (__u32 step = DEPTH; step; step /= 2) {
		__u64 i = n + step - 1, open = (i - s->depth) >> 63, above = (user_sp - at(s->calls, i)->result) >> 63;

		n += step * (open & above);
	}
	return n;
}

// end_user takes off the calls that are over since a function of the process is called with this stack pointer. Calls with
// a lower one are over: the kernel gives up their returns (arch_uretprobe_is_alive). Calls with the same one are over, too,
// unless this one was jumped to. Then they have led here, as have those that ks_push_user has put one byte below. end_user
// returns whether it has ended the session.
static __always_inline bool end_user(struct session *s, void *ctx, __u64 user_sp)
{
	__u32 n = user_calls(s, tail_called(ctx, user_sp) ? user_sp - 2 : user_sp);

	if (n >= s->depth)
		return false;
	forget(s, n);
	return !n;
}

// pass_by has the next return at this stack pointer left alone: that of a call that is not recorded. Its function was
// jumped to by the innermost call, if that has the same stack pointer, or else no call is at it.
static __always_inline void pass_by(struct session *s, __u64 user_sp)
{
	__u32 d = s->depth - 1;

	if (d < DEPTH && at(s->calls, d)->result == user_sp && !return_unseen())
		at(s->calls, d)->duration++;
}

// ks_push_user is ks_push for a function of the process. A call whose return will not be seen is put one byte inside of
// the others with its stack pointer, so that their returns are not taken for its own.
FUNC int ks_push_user(struct session *s, __u64 cookie, __u64 user_sp, void *ctx)
{
	__u32 sp = low_half((__u64)ctx) + DEPTH, outside;
	__u64 place;

	if (end_user(s, ctx, user_sp) && !may_open())
		return 0;
	place = user_sp - return_unseen();
	outside = user_calls(s, place);
	if (outside < s->depth && outside < DEPTH)
		sp = at(s->calls, outside)->sp; // it was jumped to
	else if (outside)
		sp = at(s->calls, outside - 1)->sp - 1;
	if (push(s, cookie, sp, place))
		return 1;
	pass_by(s, user_sp);
	return 0;
}

// ks_reject_user notes a call of a function of the process that is not recorded.
FUNC int ks_reject_user(struct session *s, void *ctx, __u64 user_sp)
{
	end_user(s, ctx, user_sp);
	pass_by(s, user_sp);
	return 0;
}

// fails reports whether a result is an error, by the function's error class.
static __always_inline int fails(__u64 cookie, __u64 result)
{
	switch (cookie >> FUNC_CLASS_SHIFT & 3) {
	case FAILS_INT32:
		return (__u32)result >= (__u32)-4095;
	case FAILS_INT64:
		return result >= -4095ULL;
	case FAILS_POINTER:
		return !result || result >= -4095ULL;
	}
	return 0;
}

// pop takes off the innermost call, c at index d, which has returned. hidden is CALL_HIDDEN for a
// call that did not meet its predicates, else 0.
static __always_inline int pop(void *ctx, struct session *s, __u32 d, struct call *c, __u64 cookie, __u64 result, __u32 hidden)
{
	__u32 flags = CALL_FINISHED | hidden;

	c->duration = bpf_ktime_get_ns() - c->entry;
	c->result = result;
	if (d && at(s->calls, d - 1)->sp == c->sp)
		flags |= CALL_JUMPED;
	s->changes++;
	if (!hidden && fails(cookie, result))
		flags |= CALL_FAILED;
	c->flags = flags;
	if (wanted.notes)
		ks_note_exit(s, d, c);
	if (flags & CALL_FAILED)
		failed(ctx, s, d, result);
	else if (hidden || !(cookie >> FUNC_CLASS_SHIFT & 3))
		passed(ctx, s, d);
	else
		succeeded(s, d);
	s->depth = d;
	if (!d)
		ks_close(ctx, s, SESSION_END);
	return 0;
}

FUNC int ks_pop(void *ctx, struct session *s, __u64 cookie, __u64 result, __u32 hidden)
{
	__u32 d = s->depth - 1;

	return d < DEPTH ? pop(ctx, s, d, at(s->calls, d), cookie, result, hidden) : 0;
}

// ks_enter is the whole entry program of a function without values or predicates.
FUNC int ks_enter(void *ctx, __u64 cookie, __u32 sp)
{
	struct session *s;
	int pushed;

	if (!(cookie & FUNC_ENTRY) && !open_sessions)
		return 1;
	s = session_for(cookie);
	if (!s)
		return 1;
	pushed = push(s, cookie, sp, 0);
	if (pushed && (cookie & FUNC_ARGS))
		ks_log_args(ctx, s, cookie);
	done_with(s);
	return !pushed;
}

// ks_enter_user is ks_enter for a function of the process.
FUNC int ks_enter_user(void *ctx, __u64 cookie, __u64 user_sp)
{
	struct session *s;
	int pushed;

	if (!(cookie & FUNC_ENTRY) && !open_sessions)
		return 1;
	s = ks_session(cookie);
	if (!s)
		return 1;
	pushed = ks_push_user(s, cookie, user_sp, ctx);
	if (pushed && (cookie & FUNC_ARGS))
		ks_log_args(ctx, s, cookie);
	ks_done(s);
	return !pushed;
}

// innermost returns the innermost call, at index *d, if it is that of func at sp, which is returning,
// else NULL. Calls inside it whose return was not seen are taken off first.
static __always_inline struct call *innermost(struct session *s, __u32 func, __u32 sp, __u32 *d)
{
	struct call *c;

	*d = s->depth - 1;
	if (*d >= DEPTH)
		return 0;
	if (!s->context && (s->calls[0].sp ^ sp) >= STACK_SIZE)
		return 0;
	c = at(s->calls, *d);
	if (c->sp == sp && c->func == func)
		return c;
	if (!ks_unwind(s, sp, func, 0))
		return 0;
	*d = s->depth - 1;
	return *d < DEPTH ? at(s->calls, *d) : 0;
}

// ks_innermost returns when that call began, 0 if it is another.
FUNC __u64 ks_innermost(struct session *s, __u32 func, __u32 sp)
{
	__u32 d;
	struct call *c = innermost(s, func, sp, &d);

	return c ? c->entry : 0;
}

// ks_innermost_user is ks_innermost for a function of the process, with the stack pointer that it had when it was called.
FUNC __u64 ks_innermost_user(struct session *s, __u32 func, __u64 user_sp)
{
	__u32 outside = user_calls(s, user_sp), n = user_calls(s, user_sp - 1);
	struct call *c;

	if (outside >= n || outside >= DEPTH || n > DEPTH)
		return 0;
	if (n < s->depth)
		forget(s, n);
	c = at(s->calls, n - 1);
	if (c->duration) {
		c->duration--;
		return 0;
	}
	return ks_innermost(s, func, c->sp);
}

// ks_leave is the whole return program of a function without values or predicates.
FUNC int ks_leave(void *ctx, __u64 cookie, __u32 sp, __u64 result, __u64 ticket)
{
	struct session *s;
	struct call *c;
	__u32 d;

	if (!open_sessions)
		return 0;
	s = open_session(context());
	if (!s)
		return 0;
	s->ticket = ticket;
	c = innermost(s, cookie, sp, &d);
	if (c)
		pop(ctx, s, d, c, cookie, result, 0);
	done_with(s);
	return 0;
}

// ks_leave_user is ks_leave for a function of the process.
FUNC int ks_leave_user(void *ctx, __u64 cookie, __u64 user_sp, __u64 result, __u64 ticket)
{
	struct session *s = ks_open_session();

	if (!s)
		return 0;
	s->ticket = ticket;
	if (ks_innermost_user(s, cookie, user_sp))
		ks_pop(ctx, s, cookie, result, 0);
	ks_done(s);
	return 0;
}

#endif
