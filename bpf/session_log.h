/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The log of a session: the entries and exits of its calls if it is traced, and
 * captured arguments. Pushing and popping a call writes the log.
 */
#ifndef KSNOOP_SESSION_LOG_H
#define KSNOOP_SESSION_LOG_H

// ks_reserve returns the offset in the log at which size bytes can be put, or -1. A traced
// session sends its log when that is full.
FUNC __s64 ks_reserve(struct session *s, __u32 size)
{
	if (size > log_size)
		return -1;
	if (s->log_len <= log_size - size)
		return s->log_len;
	if (!wanted.traced) {
		s->rec.lost_values++;
		ks_count(LOST_VALUES);
		return -1;
	}
	ks_send_session(s, SESSION_CHUNK, 0, 0);
	return 0;
}

// head writes the head of an entry.
static __always_inline void head(struct log_head *h, __u8 kind, __u32 depth, __u32 size, __u32 func, __u32 flags)
{
	h->kind = kind;
	h->depth = depth;
	h->size = size;
	h->func = func | flags << LOG_FLAGS_SHIFT;
}

// ks_log_entry logs that a call of a traced session has begun.
FUNC int ks_log_entry(struct session *s, __u32 depth, __u32 func, __u64 time)
{
	__u64 pos = ks_reserve(s, sizeof(struct log_entry));
	struct log_entry *e;

	if (log_size < sizeof(*e) || pos > log_size - sizeof(*e))
		return 0;
	e = (void *)s->log + pos;
	head(&e->head, LOG_ENTRY, depth, sizeof(*e), func, 0);
	e->time = time;
	s->log_len = pos + sizeof(*e);
	return 0;
}

// ks_log_exit logs that a call of a traced session has returned.
FUNC int ks_log_exit(struct session *s, __u32 depth, struct call *c)
{
	__u64 pos = ks_reserve(s, sizeof(struct log_exit));
	struct log_exit *e;

	if (log_size < sizeof(*e) || pos > log_size - sizeof(*e))
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
