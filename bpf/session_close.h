/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Closes sessions and judges them: which are reported, and why the others are not.
 * pop closes a session when its entry function returns; for what a thread leaves open see
 * session_exit.h.
 */
#ifndef KSNOOP_SESSION_CLOSE_H
#define KSNOOP_SESSION_CLOSE_H

// drop ends a session that is not reported. If parts of it were sent, user space is told.
static __always_inline void drop(struct session *s)
{
	s->depth = 0;
	if (s->sent) {
		s->log_len = 0;
		send_part(s, SESSION_DROP);
	}
}

// wanted_error reports whether the user asked for the error that a session ended with.
static __always_inline int wanted_error(struct session *s)
{
	__u64 errno = s->error;

	if (!wanted.by_errno)
		return 1;
	errno &= ERRNOS - 1;
	return wanted.errnos[errno / 64] >> errno % 64 & 1;
}

// How many sessions were not wanted, by cause. Most sessions are not, so counting one must be
// cheap: there is no map to look up.
__u64 left_out[LEFT_UNMET - LEFT_FINE + 1];

// leave_out counts a session that is not wanted.
static __always_inline void leave_out(enum counter why)
{
	__sync_fetch_and_add(&left_out[why - LEFT_FINE], 1);
}

// unwanted returns why a session is not reported, 0 if it is.
static __always_inline enum counter unwanted(struct session *s, enum session_kind kind)
{
	if (wanted.condition && !s->satisfied)
		return LEFT_UNMET;
	if (wanted.longer && bpf_ktime_get_ns() - s->rec.start < wanted.longer)
		return LEFT_SHORT;
	if (kind == SESSION_END && s->rec.failed)
		return wanted_error(s) ? 0 : LEFT_ERROR;
	return wanted.success || (kind == SESSION_END && s->chains) ? 0 : LEFT_FINE;
}

// no_stack has no_buffer say that there was no buffer for a stack. Whoever does, all write the same.
static __always_inline __u32 no_stack(void)
{
	__u32 key = no_buffer;
	struct scratch *u = bpf_map_lookup_elem(&scratches, &key);
	struct section *section;

	if (!u)
		return NONE;
	section = (void *)&u->event;
	section->kind = SECTION_USER_STACK;
	section->flags = 0;
	section->size = -EBUSY;
	return key;
}

// ks_user puts the stack of the process into a buffer, whose number it returns; NONE if no stack is wanted. It is where the
// thread has entered the kernel: the same when a session ends as when it began. Only execve and rt_sigreturn, if they
// succeed, replace the registers by those with which the thread will leave the kernel.
FUNC __u32 ks_user(void *ctx)
{
	struct scratch *u;
	__u32 key;

	if (!tail_settings.user_stack && !tail_settings.user_copy)
		return NONE;
	u = unused(&key);
	if (!u)
		return no_stack();
	if (tail_settings.user_copy)
		ks_user_copy(&u->event, 0);
	else
		ks_stack(ctx, &u->event, 0, SECTION_USER_STACK, 0);
	return key;
}

// ks_close ends a session whose last call has returned, or whose thread ends, and reports it
// if it is wanted.
FUNC int ks_close(void *ctx, struct session *s, enum session_kind kind)
{
	struct task_struct *task;
	__u32 unseen = overrun() - s->overrun, user = NONE;
	enum counter why;

	__sync_fetch_and_add(&open_sessions, -1);
	if (unseen) {
		s->rec.lost_room += unseen;
		add(MISSED_RETURN, unseen);
	}
	s->rec.failed = s->failing == 1;
	why = unwanted(s, kind);
	if (why) {
		leave_out(why);
		drop(s);
		return 0;
	}
	if (!s->rec.failed) // the trail is that of a failure that did not matter
		s->trail.stack_len = s->trail.branches_len = s->stitched = 0;
	if (!s->trail.stack_len && kind == SESSION_END)
		take_trail(ctx, s);
	task = bpf_get_current_task_btf();
	if (kind == SESSION_EXEC) {
		s->rec.leader[0] = 0; // its name and memory are those of the new program
	} else {
		bpf_probe_read_kernel(s->rec.leader, sizeof(s->rec.leader), task->group_leader->comm);
		if (wanted.parent)
			ks_parent(s);
	}
	if (kind == SESSION_END && !s->context)
		user = ks_user(ctx);
	ks_send_session(slot_of(s), kind, s->top, NONE, user);
	if (wanted.parent)
		s->rec.parent = 0;
	s->depth = 0;
	return 0;
}

#endif
