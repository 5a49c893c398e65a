/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The span of the traced program that a session belongs to. ks_close looks for it when a session is
 * reported: the thread is still in the call that it made then, so its stack and its memory are those
 * of the entry, and sessions that are not reported cost nothing. Those that execve ends have none: the memory
 * is the new program's.
 *
 * The OpenTelemetry SDK of Go keeps a span in a recordingSpan, which is used as the interface
 * trace.Span: two words, the address of the interface's table for that type and that of the object.
 * Whoever made a span has both on its stack until it ends the span. So the goroutine's stack is searched
 * for the table's address. Of the spans that are found and have not ended, the one that began last
 * is that of the innermost function. User space tells where the table is, and where the object has what.
 *
 * Other SDKs may publish what OTEP 4947 of OpenTelemetry describes: a thread-local pointer to a record with
 * the span that the thread is in. User space finds out how that variable is reached.
 */
#ifndef KSNOOP_SESSION_PARENT_H
#define KSNOOP_SESSION_PARENT_H

// Where processes have their spans, by their number in the initial namespace. User space looks at a process
// when a session of it comes that says so.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct span_place);
} span_places SEC(".maps");

enum {
	SCAN_WORDS = 1024, // of a stack
	SCAN_FOUND = 16,   // spans
	ENVIRON_TEXT = 128, // bytes of a variable that are read at once
	ENVIRON_STEPS = 512,
	TICK = 10000000, // ns, of the times that /proc has
};

// What a search needs. It lies where the session had the chains that it kept: a session that is
// reported keeps none any more. The verifier knows nothing of numbers in it, which saves it from
// following the search for each of them.
struct scan {
	__u64 words[SCAN_WORDS];
	__u64 found[SCAN_FOUND];
	__u64 count;
	__u64 latest; // when the span of the session's parent began
};
_Static_assert(sizeof(struct scan) <= sizeof(((struct session *)0)->kept), "a scan lies in the kept chains");

// go_time is a time.Time without its location.
struct go_time {
	__u64 wall;
	__u64 ext;
};

// ks_weigh takes a span for the parent if it has not ended and began after the one so far.
FUNC int ks_weigh(struct session *s, struct span_place *p, __u64 span)
{
	struct scan *in = (void *)s->kept;
	struct go_time began, ended;
	__u64 id[3];

	if (bpf_probe_read_user(&began, sizeof(began), (void *)(span + p->began)) || bpf_probe_read_user(&ended, sizeof(ended), (void *)(span + p->ended))) {
		s->parent.why = LACK_UNREADABLE; // or what is behind the table's address is none
		return 0;
	}
	// What time.Now() returns has a flag, the seconds and less than a second of ns in wall, and in ext
	// ns since the program began. Hardly anything else looks like that.
	if (ended.wall || ended.ext || !(began.wall >> 63) || (began.wall & ((1 << 30) - 1)) >= 1000000000 || began.ext < in->latest)
		return 0;
	if (bpf_probe_read_user(id, 16, (void *)(span + p->trace)) || bpf_probe_read_user(id + 2, 8, (void *)(span + p->span)))
		return 0;
	if (!(id[0] | id[1]) || !id[2])
		return 0;
	in->latest = began.ext;
	__builtin_memcpy(s->parent.data, id, sizeof(id));
	s->parent.kind = PARENT_SPAN;
	return 0;
}

// goroutine returns the address of what Go has of the goroutine that a thread runs, and sets sp to the
// stack pointer of user space.
static __always_inline __u64 goroutine(struct span_place *p, __u64 *sp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	__u64 g = 0;

	*sp = regs->sp;
#ifdef __TARGET_ARCH_arm64
	g = regs->regs[28];
#else
	if (bpf_probe_read_user(&g, sizeof(g), (void *)(task->thread.fsbase + p->tls)))
		return 0;
#endif
	return g;
}

// ks_parent_go looks for the span of a goroutine.
FUNC int ks_parent_go(struct session *s, struct span_place *p)
{
	struct scan *in = (void *)s->kept;
	__u64 sp, size, stack[2] = {}, table = p->table, g = goroutine(p, &sp);

	in->count = in->latest = 0;
	if (!g || bpf_probe_read_user(stack, sizeof(stack), (void *)g) || sp < stack[0] || sp >= stack[1]) {
		s->parent.why = LACK_UNREADABLE; // or the thread is in code that is not Go's
		return 0;
	}
	size = stack[1] - sp;
	if (size > sizeof(in->words)) {
		size = sizeof(in->words);
		s->parent.why = LACK_DEEP;
	}
	size &= 2 * sizeof(in->words) - 1; // for the verifier
	if (size > sizeof(in->words) || bpf_probe_read_user(in->words, size, (void *)sp)) {
		s->parent.why = LACK_UNREADABLE;
		return 0;
	}
	size /= 8;
	for (__u32 i = 0; i + 1 < SCAN_WORDS; i++) {
		__u64 n;

		if (i + 1 >= size)
			break;
		if (in->words[i] != table)
			continue;
		n = in->count;
		if (n < SCAN_FOUND) {
			in->found[n] = in->words[i + 1];
			in->count = n + 1;
		}
	}
	for (__u32 i = 0; i < SCAN_FOUND; i++) {
		if (i >= in->count)
			break;
		ks_weigh(s, p, in->found[i]);
	}
	return 0;
}

// ks_parent_environ looks for TRACEPARENT in the environment that the process was started with.
FUNC int ks_parent_environ(struct session *s)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mm_struct *mm = task->mm;
	struct scan *in = (void *)s->kept;
	__u64 at, end;
	int whole = 1;

	if (!mm) {
		s->parent.why = LACK_UNREADABLE;
		return 0;
	}
	at = mm->env_start;
	end = mm->env_end;
	for (int i = 0; i < ENVIRON_STEPS; i++) {
		long n;

		if (at >= end)
			return 0;
		n = bpf_probe_read_user_str(in->words, ENVIRON_TEXT, (void *)at);
		if (n <= 0) {
			s->parent.why = LACK_UNREADABLE;
			return 0;
		}
		if (whole && in->words[0] == 0x5241504543415254 /* TRACEPAR */ && (__u32)in->words[1] == 0x3d544e45 /* ENT= */) {
			bpf_probe_read_kernel(s->parent.data, sizeof(s->parent.data), (void *)in->words + 12);
			s->parent.kind = PARENT_TEXT;
			s->parent.size = n - 13; // without the name and the NUL
			return 0;
		}
		whole = n < ENVIRON_TEXT; // else the rest of the variable is read next
		at += whole ? n : n - 1;
	}
	s->parent.why = LACK_DEEP;
	return 0;
}

// thread_pointer returns where the C library has the thread-local storage of this thread. On arm64 the register
// is the user's alone, and is saved when the thread leaves the CPU: until then it is 0 here.
static __always_inline __u64 thread_pointer(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

#ifdef __TARGET_ARCH_arm64
	return task->thread.uw.tp_value;
#else
	return task->thread.fsbase;
#endif
}

// thread_block reads where this thread has the block of a module out of its dynamic thread vector, and returns 0
// or an error number. It may have none yet: the block is made when the thread first needs it.
static __always_inline long thread_block(struct span_place *p, __u64 tp, __u64 *block)
{
	__u64 vector, size, entry = p->access == THREAD_GLIBC ? 16 : 8;
	long err;

	*block = 0;
#ifdef __TARGET_ARCH_arm64
	tp -= p->access == THREAD_GLIBC ? 0 : 8;
#else
	tp += 8;
#endif
	err = bpf_probe_read_user(&vector, sizeof(vector), (void *)tp);
	if (err)
		return err;
	// glibc has the size in front of the vector, and musl in its first entry.
	err = bpf_probe_read_user(&size, sizeof(size), (void *)(p->access == THREAD_GLIBC ? vector - entry : vector));
	if (err || p->module > size)
		return err;
	err = bpf_probe_read_user(block, sizeof(*block), (void *)(vector + p->module * entry));
	if (*block == ~0ULL) // glibc's mark of what is not made yet
		*block = 0;
	return err;
}

// A context_record is what a thread publishes: its first 26 bytes.
struct context_record {
	__u64 id[3]; // of the trace, and of the span
	__u8 valid;
	__u8 flags; // as in traceparent
};

// ks_parent_thread reads the context record of the thread.
FUNC int ks_parent_thread(struct session *s, struct span_place *p)
{
	__u64 block = thread_pointer(), at;
	struct context_record r;

	s->parent.why = LACK_UNREADABLE;
	if (!block)
		return 0;
	if (p->access != THREAD_STATIC) {
		if (thread_block(p, block, &block))
			return 0;
		if (!block) {
			s->parent.why = LACK_SPAN;
			return 0;
		}
	}
	if (bpf_probe_read_user(&at, sizeof(at), (void *)(block + p->thread)))
		return 0;
	if (at && bpf_probe_read_user(&r, sizeof(r), (void *)at))
		return 0;
	s->parent.why = LACK_SPAN;
	if (!at || r.valid != 1 || !(r.id[0] | r.id[1]) || !r.id[2])
		return 0;
	if (!(r.flags & 1)) {
		s->parent.why = LACK_UNSAMPLED;
		return 0;
	}
	__builtin_memcpy(s->parent.data, r.id, sizeof(r.id));
	s->parent.kind = PARENT_SPAN;
	return 0;
}

// places returns where the process of a session has its spans, if that is known.
static __always_inline struct span_place *places(struct session *s)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tgid = s->rec.tgid;
	struct span_place *p = bpf_map_lookup_elem(&span_places, &tgid);

	if (!p || p->started != task->group_leader->start_boottime / TICK || !task->mm || p->environ != task->mm->env_start) {
		s->parent.why = LACK_UNKNOWN;
		s->parent.look = 1;
		return 0;
	}
	if (p->again && bpf_ktime_get_ns() > p->again)
		s->parent.look = 1;
	return p;
}

// ks_parent looks for the span that a session belongs to. What the thread itself publishes comes first: who
// publishes that a trace is not sampled has said all.
FUNC int ks_parent(struct session *s)
{
	struct span_place *p = 0;

	__builtin_memset(&s->parent, 0, sizeof(s->parent));
	s->rec.parent = 1;
	if (s->context) { // what an interrupt does belongs to no program
		s->parent.why = LACK_INTERRUPT;
		return 0;
	}
	if (wanted.parent & (PARENT_GO | PARENT_THREAD))
		p = places(s);
	if (p && wanted.parent & PARENT_THREAD && p->access)
		ks_parent_thread(s, p);
	if (s->parent.kind || s->parent.why == LACK_UNSAMPLED)
		return 0;
	if (p && wanted.parent & PARENT_GO && p->table)
		ks_parent_go(s, p);
	if (wanted.parent & PARENT_ENVIRON && !s->parent.kind)
		ks_parent_environ(s);
	return 0;
}

#endif
