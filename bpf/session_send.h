/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Sends records of sessions. Everything that reports a session, or a part of one,
 * calls ks_send_session, but for session_hung, whose copy has the slot of a session that goes on.
 */
#ifndef KSNOOP_SESSION_SEND_H
#define KSNOOP_SESSION_SEND_H

// write_record appends size bytes to a record that holds at bytes. It returns how many it
// holds then.
static __always_inline __u32 write_record(struct bpf_dynptr *to, __u32 at, void *from, __u64 size)
{
	bpf_dynptr_write(to, at, from, size, 0);
	return at + size;
}

// user_section returns the size of the section at the beginning of a buffer.
static __always_inline __u64 user_section(struct scratch *u)
{
	struct section *section = (void *)&u->event;
	__u64 most = tail_settings.user_copy ? USER_HEAD + tail_settings.user_copy : tail_settings.user_stack;
	__u64 size = section->size > 0 ? section->size : 0;

	asm volatile("if %0 <= %1 goto +1; %0 = 0" : "+r"(size) : "r"(most)); // as below
	return sizeof(*section) + size;
}

// write_session writes a record of a session into the ring buffer: the header with its owner and parent, the log, the
// first n calls, the calls of the chain c unless it is NULL, and stack and branches of the
// trail; with off_cpu, off-CPU times, and the section in the buffer u unless it is NULL. It returns the error of the
// reservation, 0 if there is room.
static __always_inline long write_session(struct session *s, __u64 n, struct chain *c, struct trail *t, int off_cpu, struct scratch *u)
{
	__u64 user = u ? user_section(u) : 0;
	__u64 log = s->log_len, more = c ? c->size : 0, stack = 8 * s->rec.stack;
	__u64 branches = s->rec.branches * sizeof(t->branches[0]);
	struct bpf_dynptr record;
	__u32 size, head = settings.record & RECORD_OWNER ? sizeof(s->rec) + sizeof(s->owner) : sizeof(s->rec);
	long lost;

	// What the compiler keeps on the stack shall be the value that was tested: Linux 6.1 forgets the test of another.
	asm volatile("if %0 <= %1 goto +1; %0 = 0" : "+r"(log) : "r"((__u64)log_size + stash_size));
	if (n > DEPTH || more > CHAIN || stack > sizeof(t->stack) || branches > sizeof(t->branches))
		return 0; // cannot be; the verifier does not know
	size = head + log + (n + more) * sizeof(struct call) + stack + branches;
	if (wanted.parent && s->rec.parent)
		size += sizeof(s->parent);
	s->rec.more = (off_cpu ? MORE_OFF_CPU : 0) | (u ? MORE_USER : 0);
	if (off_cpu)
		size += (1 + n + more) * sizeof(__u64);
	size += user;
	lost = bpf_ringbuf_reserve_dynptr(&events, size, 0, &record);
	if (lost) {
		bpf_ringbuf_discard_dynptr(&record, 0);
		return lost;
	}
	size = write_record(&record, 0, &s->rec, head);
	if (wanted.parent && s->rec.parent)
		size = write_record(&record, size, &s->parent, sizeof(s->parent));
	size = write_record(&record, size, s->log, log);
	size = write_record(&record, size, s->calls, n * sizeof(struct call));
	if (c)
		size = write_record(&record, size, c->calls, more * sizeof(struct call));
	size = write_record(&record, size, t->stack, stack);
	size = write_record(&record, size, t->branches, branches);
	if (off_cpu) {
		size = write_record(&record, size, &off_cpu_of(s)->total, (1 + n) * sizeof(__u64)); // and calls, behind it
		if (c)
			size = write_record(&record, size, kept_off(s, c), more * sizeof(__u64));
	}
	if (u)
		write_record(&record, size, &u->event, user);
	bpf_ringbuf_submit_dynptr(&record, settings.wake);
	return 0;
}

FUNC long ks_write_record(struct session *s, __u64 n, struct chain *c, struct trail *t)
{
	return write_session(s, n, c, t, 0, 0);
}

// ks_write_off_record writes off-CPU times behind that.
FUNC long ks_write_off_record(struct session *s, __u64 n, struct chain *c, struct trail *t)
{
	return write_session(s, n, c, t, 1, 0);
}

// ks_write_user_record is for a session that has ended, with what is in the buffer u.
FUNC long ks_write_user_record(struct session *s, __u64 n, struct scratch *u)
{
	if (wanted.notes == NOTE_OFF_CPU)
		return write_session(s, n, 0, &s->trail, 1, u);
	return write_session(s, n, 0, &s->trail, 0, u);
}

// send_session sends the log and the first n calls of a session. If c is not NULL, the
// calls of this kept chain follow: it hangs under the last of the n. Without calls (n is 0)
// there is no trail. If u is not NULL, it is a buffer with the stack of the process, and c is NULL. Afterwards the log of
// a traced session is empty.
static __always_inline int send_session(struct session *s, enum session_kind kind, __u64 n, struct chain *c, struct scratch *u)
{
	struct trail *t = c ? &c->trail : &s->trail;
	__u64 stack = t->stack_len;
	__s64 branches = t->branches_len;
	long lost;

	mark_losses();
	if (n > DEPTH)
		n = DEPTH;
	s->rec.no_branches = branches < 0 ? -branches : 0;
	if (!n || stack > sizeof(t->stack))
		stack = 0;
	if (!n || branches > (__s64)sizeof(t->branches) || branches < 0)
		branches = 0;
	s->rec.kind = kind;
	s->rec.log_size = s->log_len;
	s->rec.end = bpf_ktime_get_ns();
	s->rec.branches = branches / sizeof(t->branches[0]);
	s->rec.branch_flags = tail_settings.branch_flags;
	s->rec.frames = c ? n + c->size : n;
	s->rec.stitched = c ? n : s->stitched;
	s->rec.stack = stack / 8;
	s->rec.depth = s->depth;
	s->sent = 1;
	if (u)
		lost = ks_write_user_record(s, n, u);
	else
		lost = wanted.notes == NOTE_OFF_CPU ? ks_write_off_record(s, n, c, t) : ks_write_record(s, n, c, t);
	if (lost) {
		ks_lost(LOST_RINGBUF);
		s->rec.lost_chunks++;
	}
	if (wanted.traced) {
		s->rec.log_base += s->log_len;
		s->log_len = 0;
	}
	return 0;
}

// slot_of returns the slot of a session that is open.
static __always_inline __u32 slot_of(struct session *s)
{
	return s->slot ? s->slot : s->next;
}

// In the place of a chain or a buffer: there is none.
enum { NONE = -1U };

// ks_send_session is send_session with numbers: the slot of the session, the index of a kept chain, and the number of a buffer,
// which it gives back. The verifier checks it by itself (see alone in subprogram.go): to follow it from all places
// where something is sent was most of the work of loading a program of traced sessions.
FUNC int ks_send_session(__u32 slot, __u32 kind, __u64 n, __u32 chain, __u32 buffer)
{
	struct session *s = session_at(slot);
	struct chain *c = 0;
	struct scratch *u = buffer == NONE ? 0 : bpf_map_lookup_elem(&scratches, &buffer);

	if (s && chain < KEPT) {
		asm volatile("" : "+r"(chain)); // this copy of it shall be the one that was tested
		c = &s->kept[chain];
	}
	if (s) // there always is one; the verifier does not know
		send_session(s, kind, n, c, u);
	if (u)
		__sync_lock_test_and_set(&u->busy, 0);
	return 0;
}

// send_part sends a part of a session, without a trail.
static __always_inline void send_part(struct session *s, enum session_kind kind)
{
	ks_send_session(slot_of(s), kind, 0, NONE, NONE);
}

#endif
