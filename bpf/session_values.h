/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Values and predicates that a SPEC has for calls inside a session. Generated code
 * calls these functions, and fills in the values itself.
 */
#ifndef KSNOOP_SESSION_VALUES_H
#define KSNOOP_SESSION_VALUES_H

// own_stash returns where the values of calls in flight are. In a traced session that is an
// area behind the log, since the log may be sent before a call returns.
static __always_inline void *own_stash(struct session *s)
{
	return wanted.traced ? s->log + log_size : s->log;
}

// values begins an entry with values, of total bytes, at h. It returns the frame in it, of
// which it fills in what is the same for all values of a session.
static __always_inline struct frame *values(struct session *s, struct log_head *h, __u8 kind, __u32 func, __u32 total)
{
	struct frame *f = (void *)(h + 1);

	head(h, kind, kind == LOG_PROBE ? s->depth : s->depth - 1, total, func, 0);
	f->event.faults = 0;
	f->event.tgid = s->rec.tgid;
	f->event.tid = s->rec.tid;
	f->event.cpu = bpf_get_smp_processor_id();
	f->event.flags = 0;
	__builtin_memcpy(f->event.comm, s->rec.comm, COMM_LEN);
	return f;
}

// ks_item makes room for the values of the innermost call.
FUNC struct frame *ks_item(struct session *s, __u32 probe, __u32 size)
{
	__u64 total = sizeof(struct log_head) + sizeof(struct frame) + size, depth = s->depth - 1;
	__u64 pos = wanted.traced ? s->stash_len : s->log_len, limit = wanted.traced ? stash_size : log_size;
	struct frame *f;

	if (depth >= DEPTH)
		return 0;
	if (total > limit || pos > limit - total) {
		s->rec.lost_values++;
		ks_count(LOST_VALUES);
		return 0;
	}
	f = values(s, own_stash(s) + pos, LOG_ITEM, at(s->calls, depth)->func, total);
	f->probe = f->event.probe = probe;
	f->event.time = f->event.entry_time = at(s->calls, depth)->entry;
	f->event.kind = KIND_CALL;
	at(s->calls, depth)->item = 1 + pos;
	if (wanted.traced) {
		s->stash_len = pos + total;
	} else {
		s->log_len = pos + total;
	}
	return f;
}

// ks_hit makes room for the values of an injected probe, in the log. Only traced sessions
// show these.
FUNC struct frame *ks_hit(struct session *s, __u32 probe, enum kind kind, __u32 size)
{
	__u64 total = sizeof(struct log_head) + sizeof(struct frame) + size, pos;
	struct frame *f;

	if (!wanted.traced || s->depth > DEPTH)
		return 0;
	pos = ks_reserve(s, total);
	if (log_size < total || pos > log_size - total) {
		s->rec.lost_values++;
		ks_count(LOST_VALUES);
		return 0;
	}
	f = values(s, (void *)s->log + pos, LOG_PROBE, probe, total);
	f->probe = f->event.probe = probe;
	f->event.time = bpf_ktime_get_ns();
	f->event.entry_time = 0;
	f->event.kind = kind;
	s->log_len = pos + total;
	return f;
}

// ks_item_of returns the frame that ks_item made for the innermost call, NULL if it made none.
FUNC struct frame *ks_item_of(struct session *s, __u32 size)
{
	__u64 total = sizeof(struct log_head) + sizeof(struct frame) + size, depth = s->depth - 1, pos;
	__u64 limit = wanted.traced ? stash_size : log_size;

	if (depth >= DEPTH || !at(s->calls, depth)->item)
		return 0;
	pos = at(s->calls, depth)->item - 1;
	if (total > limit || pos > limit - total)
		return 0;
	return own_stash(s) + pos + sizeof(struct log_head);
}

// ks_log_item copies the values of the innermost call from the stash into the log, if the
// session is traced. Otherwise they are in the log already.
FUNC int ks_log_item(struct session *s, __u32 size)
{
	__u64 total = sizeof(struct log_head) + sizeof(struct frame) + size, depth = s->depth - 1, pos;
	struct frame *f;

	if (!wanted.traced || depth >= DEPTH)
		return 0;
	f = ks_item_of(s, size);
	if (!f)
		return 0;
	pos = ks_reserve(s, total);
	if (log_size < total || pos > log_size - total)
		return 0;
	bpf_probe_read_kernel(s->log + pos, total, (void *)f - sizeof(struct log_head));
	at(s->calls, depth)->values = 1 + s->rec.log_base + pos;
	s->log_len = pos + total;
	return 0;
}

// Values that log_open has copied: of calls from index n on, from offset from of the stash to pos of the log.
struct opened {
	struct session *s;
	__u64 n, from, pos;
};

// It is the body of log_open's loop.
static __noinline long ks_mark_open(__u32 i, struct opened *o)
{
	struct session *s = o->s;
	struct call *c = at(s->calls, i);
	__u64 place = o->pos + c->item - 1 - o->from, most = (__u64)log_size + stash_size - sizeof(struct log_head);

	if (i >= s->depth)
		return 1;
	if (i < o->n || !c->item || place > most)
		return 0;
	((struct log_head *)(s->log + place))->kind = LOG_OPEN;
	c->values = 1 + s->rec.log_base + place;
	return 0;
}

// log_open copies the values of the calls from index n on, which are in flight, from the stash to offset pos of the log, as
// LOG_OPEN. What it copies besides is of calls that have returned: it remains LOG_ITEM, and no return follows.
static __always_inline void log_open(struct session *s, __u32 n, __u64 pos)
{
	struct opened o = { s, n, at(s->calls, n)->start, pos };
	__u64 size = s->stash_len - o.from;

	if (!size || size > stash_size || pos > log_size)
		return;
	asm volatile("if %0 <= %1 goto +1; %0 = 0" : "+r"(size) : "r"((__u64)stash_size)); // as in write_session
	bpf_probe_read_kernel(s->log + pos, size, own_stash(s) + o.from);
	bpf_loop(DEPTH, ks_mark_open, &o, 0);
	s->log_len = pos + size;
}

// ks_log_unseen logs the values of the calls from index n on, whose returns were not seen, if the session is traced. It calls no
// ks_reserve: some programs would nest more than the 8 functions that the verifier allows.
FUNC int ks_log_unseen(struct session *s, __u32 n)
{
	__u64 pos;

	if (!wanted.traced || s->stash_len <= at(s->calls, n)->start)
		return 0;
	pos = reserve(s, stash_size);
	if (log_size >= stash_size && pos <= log_size - stash_size)
		log_open(s, n, pos);
	return 0;
}

// ks_log_unfinished logs the values of all calls of a session that will not go on here. They need no room in the log: it may
// go on where the stash was.
FUNC int ks_log_unfinished(struct session *s)
{
	if (wanted.traced)
		log_open(s, 0, s->log_len);
	return 0;
}

// ks_satisfied notes that a call has met its predicates. unwanted looks at it.
FUNC int ks_satisfied(struct session *s)
{
	s->satisfied = 1;
	return 0;
}

#endif
