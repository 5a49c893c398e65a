/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Sessions: their records, which user space reads, and their state in the kernel. bpf2go
 * generates the Go side of both; see gen.go.
 */
#ifndef KSNOOP_SESSION_H
#define KSNOOP_SESSION_H

enum {
	DEPTH = 128,	   /* calls of a session in flight, one within the other */
	STACK_WORDS = 127, /* of a kernel stack */
	ERRNOS = 4096,
	UNWIND = 8, /* calls that ks_unwind looks at */
	FRAMES = 64, /* of a kernel stack, in which ks_recurs and ks_over look for callers */
	KEPT = 3,   /* failing chains besides the one in place; see session_chain.h */
	CHAIN = 32, /* calls of one of these */
};

/* Bits of a cookie. The low 32 bits are the id of the function. */
enum func_bit {
	FUNC_ENTRY_BIT = 32,   /* it opens sessions */
	FUNC_CLASS_SHIFT = 33, /* two bits: enum error_class */
	FUNC_ARGS_BIT = 35,    /* all its arguments are captured */
	FUNC_CHECKED_BIT = 36, /* set by ks_away: the filters let the task pass, while no session was open */
	FUNC_TRAMPOLINE_BIT = 37, /* of one that opens sessions: it is called through a trampoline */
};
#define FUNC_ENTRY (1ULL << FUNC_ENTRY_BIT)
#define FUNC_ARGS (1ULL << FUNC_ARGS_BIT)
#define FUNC_CHECKED (1ULL << FUNC_CHECKED_BIT)
#define FUNC_TRAMPOLINE (1ULL << FUNC_TRAMPOLINE_BIT)

/* Which results mean that a function failed: layout.ErrorClass. */
enum error_class {
	NEVER_FAILS = 0,
	FAILS_INT32 = 1,
	FAILS_INT64 = 2,
	FAILS_POINTER = 3,
};

enum call_flag {
	CALL_FINISHED = 1, /* it has returned: duration and result are set */
	CALL_FAILED = 2,
	CALL_HIDDEN = 8,   /* it did not meet a predicate at its return */
	CALL_RETURNS = 16, /* it has returned: sp is where to */
	CALL_JUMPED = 32,  /* it has returned, and was tail-called: its caller jumped to it and returns to the same place */
};

/* A call. It remains here after its return, until another call takes its place. */
struct call {
	__u64 entry;	/* CLOCK_MONOTONIC ns */
	__u64 duration; /* ns; in flight, 0 or what pass_by counts */
	__u64 result; /* in flight, the stack pointer in user space if it is the process's function, else 0 */
	/* In flight, the low half of the address of its stack frame, or what ks_push_user has in its place. After its
	   return, the low half of the address that it returned to, 0 if not known. */
	__u32 sp;
	__u32 func;
	__u32 start;  /* length of the log, or of a traced session's stash, before it */
	/* Offsets plus 1, 0 for none. Of a session that is not traced, values is that of all arguments, and item
	   that of the values of a SPEC, both in the log. Of a traced session, values is that of what was
	   logged last, and item that of the values in the stash while the call is in flight. */
	__u32 values;
	__u32 item;
	__u32 flags;  /* enum call_flag */
};

enum session_kind {
	SESSION_END = 1,   /* the entry function has returned */
	SESSION_CHUNK = 2, /* a part of the log of an open session */
	SESSION_CHAIN = 3, /* a failing chain that was not the reason of its caller's result */
	SESSION_DROP = 4,  /* it has ended and is not wanted; parts of it were sent */
	SESSION_HUNG = 5,  /* it has been open for long */
	SESSION_EXIT = 6,  /* its thread has ended */
	SESSION_EXEC = 7,  /* its thread runs another program */
};

/*
 * The header of a record. The owner, the log, calls, the stack and branches follow, as many as it
 * says, and what more says.
 */
struct session_record {
	__u64 start; /* with tid and cpu, the name of the session */
	__u64 end;
	__u32 tgid;
	__u32 tid;
	__u32 inner_tgid; /* as in struct event */
	__u32 inner_tid;
	__u32 func;
	__u32 log_base; /* how much of the log was sent before */
	__u32 log_size;
	__u32 lost_deep;
	__u32 lost_values; /* calls whose values found no room */
	__u32 lost_chunks;
	__u32 lost_returns;
	__u32 lost_room;   /* calls for whose return the kernel had no room */
	__u32 lost_chains; /* failing chains given up before it was known whether they were the reason */
	__u16 cpu;
	__u8 kind; /* enum session_kind */
	__u8 failed;
	__u16 depth;  /* calls in flight */
	__u16 frames; /* number of struct call */
	__u16 stitched; /* index of the first call of a chain that was kept while others were made; 0: none */
	__u16 stack;  /* number of addresses */
	__u8 interrupt; /* 1: a soft one has opened it; 2: a hard one */
	__u8 branches; /* number of struct perf_branch_entry */
	__u8 no_branches; /* why there are none: an error number */
	__u8 branch_flags; /* enum section_flag */
	__u8 ours; /* not 0: EVENT_OURS */
	__u8 more; /* enum session_more: what follows the branches, in this order */
	__u8 owner; /* a struct owner follows this header: whose thread it was when it began */
	__u8 parent; /* a struct parent follows that */
	char comm[COMM_LEN];
	char leader[COMM_LEN];
};

enum session_more {
	MORE_OFF_CPU = 1, /* words of struct off_cpu: total and, for each of the calls, its own */
	MORE_USER = 2,    /* a section with the stack of the process, or a copy of it */
};

_Static_assert(sizeof(struct session_record) % 8 == 0, "nothing is between a record and its owner");

/* Where the span of the traced program is looked for that a session belongs to, as bits. */
enum parent_place {
	PARENT_GO = 1,	    /* the stack of a goroutine */
	PARENT_ENVIRON = 2, /* TRACEPARENT in the environment */
	PARENT_THREAD = 4,  /* the thread's context record */
};

enum parent_kind {
	PARENT_NONE = 0,
	PARENT_SPAN = 1, /* 16 bytes of a trace's number, 8 of a span's */
	PARENT_TEXT = 2, /* a traceparent */
};

/* Why no span was found. */
enum parent_lack {
	LACK_SPAN = 0,	     /* there is none */
	LACK_UNKNOWN = 1,    /* user space has not looked at the process yet */
	LACK_UNREADABLE = 2, /* memory of the process could not be read */
	LACK_DEEP = 3,	     /* there is more to search than is searched */
	LACK_INTERRUPT = 4,
	LACK_UNSAMPLED = 5,  /* there is one that its program does not export */
};

/* The span that a session belongs to. */
struct parent {
	__u8 kind; /* enum parent_kind */
	__u8 why;  /* enum parent_lack, of PARENT_NONE */
	__u8 size; /* of a text, which may be longer than data */
	__u8 look; /* user space is to look at the process */
	__u8 pad[4];
	__u8 data[56];
};

/* How the thread's pointer to its context record is reached. */
enum thread_access {
	THREAD_NONE = 0,   /* the program has none */
	THREAD_STATIC = 1, /* it is at a fixed distance from the thread pointer */
	THREAD_GLIBC = 2,  /* it is in a block that is found by glibc's dynamic thread vector */
	THREAD_MUSL = 3,   /* by that of musl */
};

/* Where the spans of a process are. */
struct span_place {
	__u64 started; /* when the process was, in 1/100 s since the machine was */
	__u64 environ; /* where its environment is, which every execve changes */
	__u64 table;   /* address of the table by which a span is an interface; 0: it has none */
	__s64 tls;     /* where the thread's goroutine is, from the thread pointer; not used on arm64 */
	__u32 began;   /* offsets in a span: of two times, and of its numbers */
	__u32 ended;
	__u32 trace;
	__u32 span;
	__u64 again;  /* CLOCK_MONOTONIC in ns, after which user space is to look at the process again; 0: never */
	__s64 thread; /* where the pointer to the context record is, from the thread pointer or in the block */
	__u64 module; /* the number of that block */
	__u8 access;  /* enum thread_access */
	__u8 pad[7];
};

enum log_kind {
	LOG_ENTRY = 1,
	LOG_EXIT = 2,
	LOG_ARGS = 3,  /* all arguments of the last LOG_ENTRY or, in a session that is not traced, of a call */
	LOG_ITEM = 4,  /* a struct frame with its values, of the call at that depth */
	LOG_PROBE = 5, /* a struct frame with the values of an injected probe */
	LOG_OPEN = 6,  /* as LOG_ITEM, of a call whose return is not in the log, or not yet */
};

enum log_bit {
	LOG_FLAGS_SHIFT = 24, /* in log_head.func */
};

/* The head of each entry of the log. */
struct log_head {
	__u8 kind;
	__u8 depth;
	__u16 size;   /* all of it, a multiple of 8 */
	__u32 func; /* and, from LOG_FLAGS_SHIFT on, enum call_flag */
};

struct log_entry {
	struct log_head head;
	__u64 time;
};

struct log_exit {
	struct log_head head;
	__u64 time;
	__u64 duration;
	__u64 result;
};

/* A log_entry and a log_exit with off-CPU times in ns: of the session so far, and of the call. */
struct log_entry_off {
	struct log_head head;
	__u64 time;
	__u64 off_sum;
};

struct log_exit_off {
	struct log_head head;
	__u64 time;
	__u64 duration;
	__u64 result;
	__u64 off_sum;
	__u64 off;
};

/* How the kernel got to a return: stack and branches at that moment. */
struct trail {
	__u64 stack_len;    /* bytes */
	__s64 branches_len; /* bytes, or a negative error number */
	__u64 stack[STACK_WORDS];
	struct perf_branch_entry branches[MAX_BRANCHES];
};

/* A failing chain that is kept while its caller makes other calls; see session_chain.h. */
struct chain {
	__u16 from;    /* index of its outermost call, not 0 */
	__u16 size;    /* calls */
	__u32 error;   /* errno of its outermost call, 0: NULL */
	__u32 changes; /* of the session's calls, when it was put here */
	__u32 pad;
	struct trail trail; /* to the return of its innermost call */
	struct call calls[CHAIN];
};

/* What ks_recurs and ks_over look for in the kernel's stack: where a call returns to that is being made, and where an
   earlier one does, if their function jumped to its trampoline, and if it called it. */
struct sought {
	__u64 frames[FRAMES];
	__u64 count;
	__u64 now[2], then[2];
	__u64 found[2], live[2]; /* how often now, and then, are in frames */
};

/* The session of a thread, or that of an interrupt. */
struct session {
	__u16 busy;   /* a program is at work on it */
	__u16 depth;  /* calls in flight; 0: no session is open */
	__u16 top;    /* valid calls: those in flight and the failing chain, or the last call, behind them */
	__u16 inner;  /* calls of entry functions within its first call */
	/* From here to chains, a new session clears everything: see FRESH_SIZE. */
	__u16 failing;	   /* 1 + index of the outermost call of the failing chain in place, 0: there is none */
	__u16 stitched;	   /* as in the record, for that chain */
	__u8 keeps;	   /* bit i: kept[i] is in use */
	__u8 satisfied;	   /* a call has met its predicates */
	__u8 sent;	   /* parts of it were sent */
	__u8 chains;	   /* failing chains were sent */
	__u32 error;	   /* errno of the outermost call of the failing chain, 0: NULL */
	__u32 context;	   /* not 0: it is an interrupt's */
	__u32 log_len;
	__u32 stash_len;
	__u32 changes;	 /* calls and returns, over all sessions here */
	__u32 success;	 /* changes at the last return without an error */
	__u32 slot;	 /* 1 + its index in the pool; 0: it is an interrupt's */
	__u32 next;	 /* slot of the next free one in the pool; of an interrupt's session, its own */
	__u32 hash;	 /* of the task, for the index */
	__u16 cell;	 /* of the bucket there */
	__u8 stray;	 /* that is the task's other bucket */
	__u8 trampoline; /* its first call is one through a trampoline */
	__u32 overrun;	 /* overrun() when the session was opened */
	__u32 jumped;	 /* CALL_JUMPED, if all calls of the failing chain are tail calls */
	__u64 hung;	 /* start of the last session here that was reported as hung */
	__u64 ticket; /* of the branch snapshot at the current return */
	struct trail trail; /* at the return of the failing chain's innermost call */
	struct call calls[DEPTH];
	struct chain kept[KEPT];
	struct sought sought;
	struct session_record rec;
	struct owner owner; /* behind its record, with which it is sent */
	struct parent parent; /* sent behind that, if its record says so */
	__u8 log[]; /* log_size bytes, stash_size, with NOTE_OFF_CPU a struct off_cpu; see ks_log_unfinished */
};

_Static_assert(__builtin_offsetof(struct session, owner) == __builtin_offsetof(struct session, rec) + sizeof(struct session_record) &&
	       __builtin_offsetof(struct session, parent) == __builtin_offsetof(struct session, owner) + sizeof(struct owner),
	       "they are sent together");

/* When the thread of a session was off the CPU, in ns. */
struct off_cpu {
	__u64 since; /* CLOCK_MONOTONIC; 0: it runs */
	__u64 left;  /* when it was off the CPU last */
	__u64 away;  /* for how long */
	__u64 total; /* of the session so far */
	__u64 calls[DEPTH]; /* of calls in flight, total when they began; of those that have returned, their own */
	__u64 kept[KEPT][CHAIN]; /* of the calls of kept chains */
};

/* What a new session clears with one store of 8 bytes, from failing on. */
enum { FRESH_SIZE = __builtin_offsetof(struct session, error) - __builtin_offsetof(struct session, failing) };
/* And in its record, from lost_values to lost_chains. */
enum { LOST_SIZE = __builtin_offsetof(struct session_record, cpu) - __builtin_offsetof(struct session_record, lost_values) };
_Static_assert(LOST_SIZE == 20 && (__builtin_offsetof(struct session, rec) + __builtin_offsetof(struct session_record, lost_values)) % 8 == 0, "two stores and a half");
_Static_assert(FRESH_SIZE == 8 && __builtin_offsetof(struct session, failing) % 8 == 0, "one store");

/* What is noted of each call when it begins and when it returns. */
enum notes {
	NOTE_NOTHING = 0,
	NOTE_LOG = 1,     /* it is logged: the session is traced */
	NOTE_OFF_CPU = 2, /* its off-CPU time and, in a traced session, the log */
};

struct session_config {
	__u64 longer;  /* ns */
	__u64 hung;    /* ns */
	__u8 success;  /* report sessions that did not fail, too */
	__u8 interim;  /* report failing chains that were given up */
	__u8 traced;   /* log every call */
	__u8 live;     /* send the log at once */
	__u8 condition; /* report only sessions in which a call has met its predicates */
	__u8 by_errno; /* report only the errors in errnos */
	__u8 overrun;  /* count calls whose returns fprobes miss */
	__u8 notes;    /* enum notes */
	__u8 parent;   /* enum parent_place */
	__u8 trampolines; /* entry functions are called through trampolines: a return may be missed, and ks_recurs can tell */
	__u8 pad[6];
	__u64 errnos[ERRNOS / 64]; /* bit set: an error to report; bit 0 is NULL */
};

#endif
