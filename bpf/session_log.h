/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The log of a session: the entries and exits of its calls if it is traced, and
 * captured arguments. Pushing and popping a call writes the log, and notes off-CPU times.
 */
#ifndef KSNOOP_SESSION_LOG_H
#define KSNOOP_SESSION_LOG_H

// reserve returns the offset in the log at which size bytes can be put, or -1. A traced
// session sends its log when that is full.
static __always_inline __s64 reserve(struct session *s, __u32 size)
{
	__u32 room = log_size;

	if (size > room)
		return -1;
	if (s->log_len <= room - size)
		return s->log_len;
	if (!wanted.traced) {
		s->rec.lost_values++;
		ks_count(LOST_VALUES);
		return -1;
	}
	send_part(s, SESSION_CHUNK);
	return 0;
}

FUNC __s64 ks_reserve(struct session *s, __u32 size)
{
	return reserve(s, size);
}

// head writes the head of an entry. If its size is constant, one store for kind, depth and size takes
// fewer instructions.
static __always_inline void head(struct log_head *h, __u8 kind, __u32 depth, __u32 size, __u32 func, __u32 flags)
{
	__u32 word = kind | depth << 8 | size << 16;

	if (__builtin_constant_p(size)) {
		__builtin_memcpy(h, &word, sizeof(word));
	} else {
		h->kind = kind;
		h->depth = depth;
		h->size = size;
	}
	h->func = func | flags << LOG_FLAGS_SHIFT;
}

// ks_off_entry is ks_note_entry with NOTE_OFF_CPU. The first call of a session takes away what
// an earlier session has left, which may have ended with its thread while that was off the CPU.
FUNC int ks_off_entry(struct session *s, __u32 depth, __u32 func, __u64 time)
{
	struct off_cpu *o = off_cpu_of(s);
	struct log_entry_off *e;
	__u64 pos, total = off_until(o, time);

	if (!depth) {
		o->since = 0;
		o->total -= total;
		total = 0;
	}
	*off_at(o->calls, depth) = total;
	if (!wanted.traced)
		return 0;
	pos = ks_reserve(s, sizeof(*e));
	if (log_size < sizeof(*e) || pos > log_size - sizeof(*e))
		return 0;
	e = (void *)s->log + pos;
	head(&e->head, LOG_ENTRY, depth, sizeof(*e), func, 0);
	e->time = time;
	e->off_sum = total;
	s->log_len = pos + sizeof(*e);
	return 0;
}

// ks_off_exit is ks_note_exit with NOTE_OFF_CPU.
FUNC int ks_off_exit(struct session *s, __u32 depth, struct call *c)
{
	struct off_cpu *o = off_cpu_of(s);
	__u64 total = off_until(o, c->entry + c->duration), *word = off_at(o->calls, depth), off, pos;
	struct log_exit_off *e;

	off = total > *word ? total - *word : 0;
	*word = off;
	if (!wanted.traced)
		return 0;
	pos = ks_reserve(s, sizeof(*e));
	if (log_size < sizeof(*e) || pos > log_size - sizeof(*e))
		return 0;
	e = (void *)s->log + pos;
	head(&e->head, LOG_EXIT, depth, sizeof(*e), c->func, c->flags);
	e->time = c->entry + c->duration;
	e->duration = c->duration;
	e->result = c->result;
	e->off_sum = total;
	e->off = off;
	s->log_len = pos + sizeof(*e);
	return 0;
}

// ks_note_entry notes that a call has begun: in the log, if the session is traced.
FUNC int ks_note_entry(struct session *s, __u32 depth, __u32 func, __u64 time)
{
	__u64 pos, room;
	struct log_entry *e;

	if (wanted.notes == NOTE_OFF_CPU)
		return ks_off_entry(s, depth, func, time);
	pos = ks_reserve(s, sizeof(*e));
	room = log_size;
	if (room < sizeof(*e) || pos > room - sizeof(*e))
		return 0;
	e = (void *)s->log + pos;
	head(&e->head, LOG_ENTRY, depth, sizeof(*e), func, 0);
	e->time = time;
	s->log_len = pos + sizeof(*e);
	return 0;
}

// ks_note_exit notes that a call has returned.
FUNC int ks_note_exit(struct session *s, __u32 depth, struct call *c)
{
	__u64 pos, room;
	struct log_exit *e;

	if (wanted.notes == NOTE_OFF_CPU)
		return ks_off_exit(s, depth, c);
	pos = ks_reserve(s, sizeof(*e));
	room = log_size;
	if (room < sizeof(*e) || pos > room - sizeof(*e))
		return 0;
	e = (void *)s->log + pos;
	head(&e->head, LOG_EXIT, depth, sizeof(*e), c->func, c->flags);
	e->time = c->entry + c->duration;
	e->duration = c->duration;
	e->result = c->result;
	s->log_len = pos + sizeof(*e);
	return 0;
}

// ks_log_args captures all arguments of the innermost call into the log.
FUNC int ks_log_args(void *ctx, struct session *s, __u32 func)
{
	__u32 depth = s->depth - 1, used, room = sizeof(struct log_head) + ARGS_MAX;
	struct arg_list *list = bpf_map_lookup_elem(&arguments, &func);
	__u64 pos;
	void *words;

	if (!list || depth >= DEPTH)
		return 0;
	pos = ks_reserve(s, room);
	if (log_size < room || pos > log_size - room)
		return 0;
	words = s->log + pos + sizeof(struct log_head);
	ks_words(ctx, words, list->user ? 1 : list->words);
	if (list->user)
		ks_user_words(words);
	used = ks_args(words, list) + sizeof(struct log_head);
	head((void *)s->log + pos, LOG_ARGS, depth, used, func, 0);
	at(s->calls, depth)->values = 1 + s->rec.log_base + pos;
	s->log_len = pos + used;
	return 0;
}

#endif
