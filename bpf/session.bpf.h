/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Sessions: what a thread does between the call of an entry function and its
 * return. Part of engine.bpf.c.
 *
 * The programs of functions call ks_enter and ks_leave or, if a SPEC asks for
 * values, the functions that these are made of. Functions of which there is an
 * inline one as well, without ks_ in its name, are those: a call costs more
 * than what many of them do.
 */
#include "args.h"
#include "words.h"
#include "session.h"

const volatile struct session_config wanted;
const volatile __u32 log_size;	 // bytes
const volatile __u32 stash_size; // bytes
const volatile __u32 session_size = sizeof(struct session); // with all that

// How many sessions are open. Functions that open none test it first. By itself in its
// section: generated code knows where it is.
__u32 open_sessions SEC(".data.sessions");

#include "pool.h"

// Sessions of what interrupts a thread: two for each CPU, since a hard
// interrupt can come on top of a soft one.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct session);
} interrupts SEC(".maps");

// Where a session of a thread that goes on is copied to, to be reported.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct session);
} copies SEC(".maps");

// The arguments of functions, by id.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct arg_list);
} arguments SEC(".maps");

// at returns calls[i], in a way that the verifier understands: i is known to be
// less than DEPTH.
static __always_inline struct call *at(struct call *calls, __u64 i)
{
	asm volatile("%0 &= %1" : "+r"(i) : "i"(DEPTH - 1));
	return calls + i;
}

/* ---- the log and the record it is sent in ---- */

// write_record writes size bytes to a record, of which at bytes are written, and
// returns how many are now.
static __always_inline __u32 write_record(struct bpf_dynptr *to, __u32 at, void *from, __u64 size)
{
	bpf_dynptr_write(to, at, from, size, 0);
	return at + size;
}

// ks_write_record writes the record of a session into the ring buffer: the log, n
// calls and, if there is a chain c, the calls of that, and a trail.
FUNC long ks_write_record(struct session *s, __u64 n, struct chain *c, struct trail *t)
{
	__u64 log = s->log_len, more = c ? c->size : 0, stack = 8 * s->rec.stack;
	__u64 branches = s->rec.branches * sizeof(t->branches[0]);
	struct bpf_dynptr record;
	long lost;
	__u32 size;

	if (log > log_size || n > DEPTH || more > CHAIN || stack > sizeof(t->stack) || branches > sizeof(t->branches))
		return 0; // none of it can be
	size = sizeof(s->rec) + log + (n + more) * sizeof(struct call) + stack + branches;
	lost = bpf_ringbuf_reserve_dynptr(&events, size, 0, &record);
	if (lost) {
		bpf_ringbuf_discard_dynptr(&record, 0);
		return lost;
	}
	size = write_record(&record, 0, &s->rec, sizeof(s->rec));
	size = write_record(&record, size, s->log, log);
	size = write_record(&record, size, s->calls, n * sizeof(struct call));
	if (c)
		size = write_record(&record, size, c->calls, more * sizeof(struct call));
	size = write_record(&record, size, t->stack, stack);
	write_record(&record, size, t->branches, branches);
	bpf_ringbuf_submit_dynptr(&record, settings.wake);
	return 0;
}

// ks_send_session sends the log and, if there are calls to show, n of them and those
// of a chain c that hangs under the last, if that is not NULL. The log of a traced
// session is empty then.
FUNC int ks_send_session(struct session *s, enum session_kind kind, __u64 n, struct chain *c)
{
	struct trail *t = c ? &c->trail : &s->trail;
	__u64 stack = t->stack_len;
	__s64 branches = t->branches_len;

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
	if (mark_due)
		ks_mark();
	if (ks_write_record(s, n, c, t)) {
		ks_lost(LOST_RINGBUF);
		s->rec.lost_chunks++;
	}
	if (wanted.traced) {
		s->rec.log_base += s->log_len;
		s->log_len = 0;
	}
	return 0;
}

// ks_reserve returns where in the log size bytes can be put, or -1.
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

static __always_inline void head(struct log_head *h, __u8 kind, __u32 depth, __u32 size, __u32 func, __u32 flags)
{
	h->kind = kind;
	h->depth = depth;
	h->size = size;
	h->func = func | flags << 24;
}

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

// ks_log_args captures all arguments of the innermost call.
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

/* ---- values that a SPEC asks for ---- */

// The values of a traced session's calls wait in a stash of their own, since
// the log may be sent before the call returns.
static __always_inline void *own_stash(struct session *s)
{
	return wanted.traced ? s->log + log_size : s->log;
}

// values begins an entry of the log that has values: all of it is total bytes,
// at h.
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

// ks_item makes room for the values of the innermost call: a frame followed by
// size bytes.
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

// ks_hit makes room in the log for the values of an injected probe: a frame
// followed by size bytes.
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

// ks_item_of returns what ks_item has made for the innermost call, if anything.
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

// ks_log_item puts the values of the innermost call into the log.
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

/* ---- sessions ---- */

// context is zero while a thread runs, and not while something that has
// interrupted it does: a non-maskable, hard or soft interrupt.
static __always_inline __u32 context(void)
{
	return ks_preempt_count() & (0x00f00000 | 0x000f0000 | 0x00000100);
}

// context_below is the context that a probe inside a function has interrupted,
// if it was entered through a breakpoint: that counts as a non-maskable interrupt,
// and as a hard one.
static __always_inline __u32 context_below(void)
{
	__u32 in = context();

	return in & 0x00f00000 ? in - NMI_UNIT - HARDIRQ_UNIT : in;
}

// session_of returns the session of the current thread, NULL if it has none, or what
// the interrupt on top of it has for its own. Nothing is done in non-maskable ones.
static __always_inline struct session *session_of(__u32 context)
{
	__u32 key;

	if (!context)
		return session_of_task(bpf_get_current_task());
	if (context & 0x00f00000)
		return 0;
	key = 2 * bpf_get_smp_processor_id() + !!(context & 0x000f0000);
	return bpf_map_lookup_elem(&interrupts, &key);
}

static __always_inline int allowed(void)
{
	return ks_filter(0) && bpf_get_current_pid_tgid() >> 32 != settings.self;
}

// ks_away is asked first of all by entry functions. It returns -1 if the call
// can be left at once: no session is open, and the filters let none be opened.
// Else it returns what is to be added to the cookie.
FUNC __s64 ks_away(void)
{
	if (open_sessions)
		return 0;
	return running == ON && task_wanted(0) ? FUNC_CHECKED : -1;
}

// session_for returns where a call of a function is to be recorded, or NULL. It
// has to be given back with done_with. The filters are asked when a session would
// be opened and not again: what they ask for may change while it is open.
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
		if (!entry || running != ON || (!(cookie & FUNC_CHECKED) && !ks_filter(0)) || bpf_get_current_pid_tgid() >> 32 == settings.self)
			return 0;
		checked = 1;
		in = context();
	}
	if (!s || !s->depth) {
		if (!entry || (!checked && (running != ON || !allowed())))
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
	}
	if (s->busy) { // called by what a program of this thread does
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

// open_session returns the open session of the current thread or, if in is not 0,
// of an interrupt; NULL if there is none.
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

// ks_around returns the open session that a probe is hit in. trap is not 0 if
// the probe is inside a function.
FUNC struct session *ks_around(__u32 trap)
{
	if (!open_sessions)
		return 0;
	return open_session(trap ? context_below() : context());
}

// done_with gives back what session_for or open_session has returned. Nobody may
// use it then: it may be another thread's soon.
static __always_inline int done_with(struct session *s)
{
	if (wanted.live && s->log_len)
		ks_send_session(s, SESSION_CHUNK, 0, 0);
	if (!s->depth && s->slot)
		return ks_release(s);
	s->busy = 0;
	return 0;
}

FUNC int ks_done(struct session *s)
{
	return done_with(s);
}

// overrun returns how many calls of the current task fprobes did not see, ever. Since
// Linux 6.14 what waits for returns is on a stack of 4 KiB for each task. What does not
// fit is counted in the task; the links that miss it do not know.
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

static __always_inline void start(struct session *s, __u32 func, __u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct name *comm = (void *)s->rec.comm;
	__u64 inner = inner_ids();

	__sync_fetch_and_add(&open_sessions, 1);
	s->top = 0;
	__builtin_memset(&s->failing, 0, FRESH_SIZE);
	s->log_len = s->stash_len = s->trail.stack_len = s->trail.branches_len = 0;
	s->rec.start = now;
	s->rec.tgid = task->tgid;
	s->rec.tid = task->pid;
	s->rec.inner_tgid = inner >> 32;
	s->rec.inner_tid = inner;
	s->rec.ours = !!pid_namespace.addr;
	s->rec.func = func;
	s->rec.log_base = 0;
	s->rec.lost_deep = s->rec.lost_values = s->rec.lost_chunks = s->rec.lost_returns = 0;
	s->rec.lost_room = s->rec.lost_chains = 0;
	s->rec.cpu = bpf_get_smp_processor_id();
	s->rec.interrupt = !!s->context;
	s->overrun = overrun();
	*comm = *(struct name *)task->comm;
}

// drop ends a session without a report.
static __always_inline void drop(struct session *s)
{
	s->depth = 0;
	if (s->sent) {
		s->log_len = 0;
		ks_send_session(s, SESSION_DROP, 0, 0);
	}
}

// wanted_error reports whether the error that a session has ended with is one
// to report.
static __always_inline int wanted_error(struct session *s)
{
	__u64 errno = s->error;

	if (!wanted.by_errno)
		return 1;
	errno &= ERRNOS - 1;
	return wanted.errnos[errno / 64] >> errno % 64 & 1;
}

// Sessions that were not wanted, by cause. Most sessions are not, so counting one must be
// cheap: nothing is looked up.
__u64 left_out[LEFT_UNMET - LEFT_FINE + 1];

static __always_inline void leave_out(enum counter why)
{
	__sync_fetch_and_add(&left_out[why - LEFT_FINE], 1);
}

// unwanted returns why a session is not to be reported; 0: it is.
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

// ks_take_stack keeps the stack of the return at hand.
FUNC int ks_take_stack(void *ctx, struct session *s)
{
	long n = bpf_get_stack(ctx, s->trail.stack, sizeof(s->trail.stack), 0);

	s->trail.stack_len = n > 0 ? n : 0;
	return 0;
}

// take_trail keeps how the kernel got to the return at hand.
static __always_inline void take_trail(void *ctx, struct session *s)
{
	struct trail *t = &s->trail;

	ks_take_stack(ctx, s);
	if (tail_settings.branches)
		t->branches_len = take_branches(t->branches, bpf_get_smp_processor_id(), s->ticket);
}

// ks_close ends a session, after its last call has been taken off, and reports
// it if it is one to report.
FUNC int ks_close(void *ctx, struct session *s, enum session_kind kind)
{
	struct task_struct *task;
	__u32 unseen = overrun() - s->overrun;
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
	if (!s->rec.failed) // what is there is of a failure that did not matter
		s->trail.stack_len = s->trail.branches_len = s->stitched = 0;
	if (!s->trail.stack_len && kind == SESSION_END)
		take_trail(ctx, s);
	task = bpf_get_current_task_btf();
	bpf_probe_read_kernel(s->rec.leader, sizeof(s->rec.leader), task->group_leader->comm);
	ks_send_session(s, kind, s->top, 0);
	s->depth = 0;
	return 0;
}

/* ---- calls ---- */

// forget takes calls off whose return was not seen, down to n.
static __always_inline void forget(struct session *s, __u32 n)
{
	s->rec.lost_returns += s->depth - n;
	ks_count(LOST_RETURN);
	s->depth = n;
	s->failing = s->keeps = 0;
	if (!n) {
		__sync_fetch_and_add(&open_sessions, -1);
		drop(s);
	}
}

// ks_unwind takes off calls that cannot be in flight any more now that one of func
// is, or was, at sp: UNWIND of them at most, the next call does the rest. It returns
// whether there is such a call; it is the innermost one then, or was, if another one
// begins in the same place.
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
		} else if (c->func == func) { // others were jumped from or to
			found = 1;
			keep = again ? n - 1 : n;
			break;
		}
		n--;
	}
	if (keep < s->depth)
		forget(s, keep);
	return found;
}

/* ---- failing chains ---- */

// send_chain sends a failing chain that has given way: one that is kept and hangs under
// the first n calls or, if c is NULL, the one that these end with.
static __always_inline void send_chain(struct session *s, __u64 n, struct chain *c)
{
	if (!wanted.interim)
		return;
	s->chains = 1;
	ks_send_session(s, SESSION_CHAIN, n, c);
}

// room_for returns which of those that are kept is to make room for a chain that ended
// with an error: one that hangs under the same call and ended likewise or, if all are in
// use, the oldest, first of those under the same call.
static __always_inline __u32 room_for(struct session *s, __u32 from, __u32 error)
{
	__u64 least = -1ULL;
	__u32 chosen = 0;

	for (__u32 i = 0; i < KEPT; i++) {
		struct chain *c = &s->kept[i];
		__u64 worth = 1;

		if (s->keeps >> i & 1) {
			worth = (c->from == from ? 2ULL : 3ULL) << 32 | c->changes;
			if (c->from == from && c->error == error)
				worth = 0;
		}
		if (worth < least) {
			least = worth;
			chosen = i;
		}
	}
	return chosen;
}

// ks_keep keeps the failing chain, which the innermost call is about to overwrite by
// calling something else.
FUNC int ks_keep(struct session *s)
{
	__u64 from = s->depth, n = s->top - from;
	__u32 i = room_for(s, from, s->error);
	struct chain *c;

	if (!from || from >= DEPTH || n > DEPTH - from || i >= KEPT)
		return 0;
	if (n > CHAIN) {
		s->rec.lost_deep += n - CHAIN;
		ks_count(LOST_DEPTH);
		n = CHAIN;
	}
	c = &s->kept[i];
	if (s->keeps >> i & 1) {
		if (c->from != from || c->error != s->error) { // else the later one stands for both
			s->rec.lost_chains++;
			ks_count(LOST_CHAIN);
		}
		send_chain(s, c->from, c);
	}
	s->keeps |= 1 << i;
	c->from = from;
	c->size = n;
	c->error = s->error;
	c->changes = s->changes;
	bpf_probe_read_kernel(&c->trail, sizeof(c->trail), &s->trail);
	bpf_probe_read_kernel(c->calls, n * sizeof(struct call), at(s->calls, from));
	return 0;
}

// What ks_give_up is not to give up, besides one that is kept.
enum { IN_PLACE = KEPT, NOTHING };

// ks_give_up gives up the failing chains below call d, except for one.
FUNC int ks_give_up(struct session *s, __u64 d, __u32 except)
{
	if (except != IN_PLACE && s->failing == d + 2)
		send_chain(s, s->top, 0);
	for (__u32 i = 0; i < KEPT; i++) {
		struct chain *c = &s->kept[i];

		if (!(s->keeps >> i & 1) || c->from != d + 1)
			continue;
		s->keeps &= ~(1 << i);
		if (i != except)
			send_chain(s, d + 1, c);
	}
	return 0;
}

// An error that is not known: that of a function that does not return any.
#define UNKNOWN (-1U)

// absence reports whether an error says that something is not there.
static __always_inline int absence(__u32 error)
{
	const __u64 errors = 1ULL << ENOENT | 1ULL << ESRCH | 1ULL << ENXIO | 1ULL << EBADF | 1ULL << ENODEV | 1ULL << ENODATA;

	return error < 64 && errors >> error & 1;
}

// declined reports whether a call says, by its error, that others are to be asked: it is
// not one that knows the option, or the command. Who asks returns another error if none does.
static __always_inline int declined(__u32 error)
{
	return error == ENOPARAM || error == ENOIOCTLCMD;
}

// explains returns how likely it is that a failure which ended with one error is the
// reason of another one; 0 if it is not. Whether a call has succeeded since then does not
// matter much, since they clean up; but a NULL often just says that there is nothing, which
// is a reason for those errors that say so.
static __always_inline __u64 explains(__u32 cause, __u32 error, int recovered)
{
	if (cause == error || (!cause && error == ENOMEM))
		return 2;
	if (error == UNKNOWN)
		return !recovered;
	if (!cause)
		return !recovered && absence(error);
	return !declined(cause);
}

// ks_resolve is for call d, which has returned and has not succeeded: of the failing
// chains below it the most likely reason becomes a part of its own, the last of several.
// It returns whether there is one.
FUNC int ks_resolve(struct session *s, __u64 d, __u32 error)
{
	__u32 chosen = NOTHING;
	__u64 best = 0, n;
	struct chain *c;

	if (s->failing == d + 2) {
		best = explains(s->error, error, 0) << 32;
		if (best) {
			best |= -1U;
			chosen = IN_PLACE;
		}
	}
	for (__u32 i = 0; i < KEPT; i++) {
		__u64 likely;

		c = &s->kept[i];
		if (!(s->keeps >> i & 1) || c->from != d + 1)
			continue;
		likely = explains(c->error, error, s->success > c->changes);
		if (likely && (likely << 32 | c->changes) > best) {
			best = likely << 32 | c->changes;
			chosen = i;
		}
	}
	ks_give_up(s, d, chosen);
	if (chosen >= KEPT)
		return chosen == IN_PLACE;
	c = &s->kept[chosen];
	n = c->size;
	if (n > CHAIN || d + 1 + n > DEPTH)
		return 0; // it cannot be
	bpf_probe_read_kernel(&s->trail, sizeof(s->trail), &c->trail);
	bpf_probe_read_kernel(at(s->calls, d + 1), n * sizeof(struct call), c->calls);
	s->top = d + 1 + n;
	s->stitched = d + 1;
	s->jumped = 0;
	s->error = c->error;
	return 1;
}

// push puts a call on top of those in flight. It returns 0 if that is not
// possible.
static __always_inline int push(struct session *s, __u64 cookie, __u32 sp)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 func = cookie, d = s->depth;
	struct call *c;

	if (d) {
		// On another stack, it is an interrupt that does not count as one yet.
		if (!s->context && (s->calls[0].sp ^ sp) >= STACK_SIZE)
			return 0;
		if (d <= DEPTH && at(s->calls, d - 1)->sp <= sp)
			ks_unwind(s, sp, func, 1);
		d = s->depth;
	}
	if (!d) {
		if (!(cookie & FUNC_ENTRY))
			return 0;
		start(s, func, now);
	}
	if (d >= DEPTH) {
		s->rec.lost_deep++;
		ks_count(LOST_DEPTH);
		return 0;
	}
	c = at(s->calls, d);
	if (!d) {
		// Nothing is left behind in a new session.
	} else if (s->failing) {
		ks_keep(s);
	} else if (s->top > d && !s->keeps) {
		// What the last call in this place has captured is not needed any more.
		if (wanted.traced)
			s->stash_len = c->start;
		else
			s->log_len = c->start;
	}
	s->failing = 0;
	c->entry = now;
	c->duration = 0;
	c->result = 0;
	c->sp = sp;
	c->func = func;
	c->start = wanted.traced ? s->stash_len : s->log_len;
	c->values = 0;
	c->item = 0;
	c->flags = 0;
	s->depth = s->top = d + 1;
	s->changes++;
	if (wanted.traced)
		ks_log_entry(s, d, func, now);
	return 1;
}

FUNC int ks_push(struct session *s, __u64 cookie, __u32 sp)
{
	return push(s, cookie, sp);
}

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

// joins makes the innermost call, d, the outermost one of the failing chain.
static __always_inline void joins(void *ctx, struct session *s, __u32 d)
{
	struct call *c = at(s->calls, d);

	s->jumped &= c->flags;
	s->failing = d + 1;
	c->sp = ks_return_address(ctx);
	c->flags |= CALL_RETURNS;
}

// retake takes the stack anew if the innermost call has ended by a jump to all that the
// failing chain consists of so far. From Linux 6.14 on, an fprobe sees that return to
// return_to_handler, which sees to the return of the innermost call next: the unwinder
// knows no way from there.
static __always_inline void retake(void *ctx, struct session *s)
{
	if (s->jumped)
		ks_take_stack(ctx, s);
}

// failed makes the innermost call, d, a part of the failing chain: of one that calls
// of its own have left behind, or of a new one that begins with it.
static __always_inline void failed(void *ctx, struct session *s, __u32 d, __u64 result)
{
	__u32 error = -(__u32)result;

	if (ks_resolve(s, d, error)) {
		retake(ctx, s);
	} else {
		take_trail(ctx, s);
		s->top = d + 1;
		s->stitched = 0;
		s->jumped = CALL_JUMPED; // if it has
	}
	s->error = error;
	joins(ctx, s, d);
}

// passed is for a call that can neither fail nor succeed.
static __always_inline void passed(void *ctx, struct session *s, __u32 d)
{
	if ((s->failing == d + 2 || s->keeps) && ks_resolve(s, d, UNKNOWN)) {
		retake(ctx, s);
		joins(ctx, s, d);
	}
}

// succeeded ends the failing chains that hang under the innermost call.
static __always_inline void succeeded(struct session *s, __u32 d)
{
	if (s->failing == d + 2 || s->keeps)
		ks_give_up(s, d, NOTHING);
	s->success = s->changes;
	s->failing = 0;
}

// pop takes off the innermost call, which has returned.
static __always_inline int pop(void *ctx, struct session *s, __u64 cookie, __u64 result, __u32 hidden)
{
	__u32 d = s->depth - 1;
	struct call *c;

	if (d >= DEPTH)
		return 0;
	c = at(s->calls, d);
	c->duration = bpf_ktime_get_ns() - c->entry;
	c->result = result;
	c->flags = CALL_FINISHED | hidden;
	if (d && at(s->calls, d - 1)->sp == c->sp)
		c->flags |= CALL_JUMPED;
	s->changes++;
	if (!hidden && fails(cookie, result))
		c->flags |= CALL_FAILED;
	if (wanted.traced)
		ks_log_exit(s, d, c);
	if (c->flags & CALL_FAILED)
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
	return pop(ctx, s, cookie, result, hidden);
}

// ks_satisfied notes that a call has met its predicates.
FUNC int ks_satisfied(struct session *s)
{
	s->satisfied = 1;
	return 0;
}

/* ---- the programs of plain functions ---- */

// ks_enter records that a function was called. It returns whether its return
// is of no interest, which is what programs that run at both ends return.
FUNC int ks_enter(void *ctx, __u64 cookie, __u32 sp)
{
	struct session *s;
	int pushed;

	if (!(cookie & FUNC_ENTRY) && !open_sessions)
		return 1;
	s = session_for(cookie);
	if (!s)
		return 1;
	pushed = push(s, cookie, sp);
	if (pushed && (cookie & FUNC_ARGS))
		ks_log_args(ctx, s, cookie);
	done_with(s);
	return !pushed;
}

// innermost reports whether the innermost call is the one of a function
// that returns at sp, after taking off what was called by it.
static __always_inline int innermost(struct session *s, __u32 func, __u32 sp)
{
	__u32 d = s->depth - 1;
	struct call *c;

	if (d >= DEPTH)
		return 0;
	if (!s->context && (s->calls[0].sp ^ sp) >= STACK_SIZE)
		return 0;
	c = at(s->calls, d);
	if (c->sp == sp && c->func == func)
		return 1;
	return ks_unwind(s, sp, func, 0);
}

FUNC int ks_innermost(struct session *s, __u32 func, __u32 sp)
{
	return innermost(s, func, sp);
}

// ks_leave records that a function has returned.
FUNC int ks_leave(void *ctx, __u64 cookie, __u32 sp, __u64 result, __u64 ticket)
{
	struct session *s;

	if (!open_sessions)
		return 0;
	s = open_session(context());
	if (!s)
		return 0;
	s->ticket = ticket;
	if (innermost(s, cookie, sp))
		pop(ctx, s, cookie, result, 0);
	done_with(s);
	return 0;
}

// The linker takes the functions out of this program.
SEC("fentry")
int session_library(void *ctx)
{
	struct session *s = ks_session(1);

	if (s) {
		if (ks_push(s, 1, 2))
			ks_item(s, 1, 8);
		if (ks_innermost(s, 1, 2) && ks_item_of(s, 8))
			ks_log_item(s, 8);
		ks_satisfied(s);
		ks_pop(ctx, s, 1, 2, 3);
		ks_done(s);
	}
	s = ks_open_session();
	if (s)
		ks_done(s);
	s = ks_around(1);
	if (s) {
		ks_hit(s, 1, 0, 8);
		ks_done(s);
	}
	return ks_away() + ks_enter(ctx, 1, 2) + ks_leave(ctx, 1, 2, 3, 4);
}

// A thread that ends in a session takes it with it.
SEC("tp_btf/sched_process_exit")
int session_exit(__u64 *ctx)
{
	struct session *s = session_of_task(bpf_get_current_task());

	if (s && s->depth) {
		s->busy = 1;
		s->top = s->depth;
		ks_close(ctx, s, SESSION_EXIT);
		ks_done(s);
	}
	return 0;
}

// A session that was opened after that ends with the thread.
SEC("tp_btf/sched_process_free")
int session_free(__u64 *ctx)
{
	struct session *s = session_of_task(ctx[0]);

	if (!s)
		return 0;
	if (s->depth)
		__sync_fetch_and_add(&open_sessions, -1);
	s->depth = 0;
	return ks_release(s);
}

// session_hung is run for every thread now and then: one whose session has been
// open for long is reported, once, with where the thread is.
SEC("iter/task")
int session_hung(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct session *s, *copy;
	__u32 zero = 0, size = session_size;
	__u64 start;
	long n;

	if (!task)
		return 0;
	s = session_of_task((__u64)task);
	if (!s || !s->depth)
		return 0;
	start = s->rec.start;
	if (bpf_ktime_get_ns() - start < wanted.hung || s->hung == start || (wanted.condition && !s->satisfied))
		return 0;
	copy = bpf_map_lookup_elem(&copies, &zero);
	if (!copy)
		return 0;
	n = s->changes;
	if (bpf_probe_read_kernel(copy, size, s))
		return 0;
	if (!copy->depth || copy->rec.start != start || copy->changes != n || s->changes != n)
		return 0; // it is not hung but busy
	s->hung = start;
	n = bpf_get_task_stack(task, copy->trail.stack, sizeof(copy->trail.stack), 0);
	copy->trail.stack_len = n > 0 ? n : 0;
	copy->trail.branches_len = 0;
	copy->stitched = 0;
	bpf_probe_read_kernel(copy->rec.leader, sizeof(copy->rec.leader), task->group_leader->comm);
	ks_send_session(copy, SESSION_HUNG, copy->depth, 0);
	return 0;
}
