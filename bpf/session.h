/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The layout of sessions, in the kernel and in the records that are sent.
 */
#ifndef KSNOOP_SESSION_H
#define KSNOOP_SESSION_H

enum {
	DEPTH = 128,	   /* calls of one thread that are kept, one within the other */
	STACK_WORDS = 127, /* of a kernel stack */
	ERRNOS = 4096,
	UNWIND = 8,
	KEPT = 3,   /* failing chains that other calls have followed */
	CHAIN = 32, /* calls that are kept of one */
};

/* What a program is told of its function besides the id: bits of the cookie. */
enum func_bit {
	FUNC_ENTRY_BIT = 32,   /* it opens sessions */
	FUNC_CLASS_SHIFT = 33, /* two bits: enum error_class */
	FUNC_ARGS_BIT = 35,    /* it has a list of arguments */
	FUNC_CHECKED_BIT = 36, /* the filters have been asked, if no session was open */
};
#define FUNC_ENTRY (1ULL << FUNC_ENTRY_BIT)
#define FUNC_ARGS (1ULL << FUNC_ARGS_BIT)
#define FUNC_CHECKED (1ULL << FUNC_CHECKED_BIT)

/* Which results mean that a function failed. The plan has the same. */
enum error_class {
	NEVER_FAILS = 0,
	FAILS_INT32 = 1,
	FAILS_INT64 = 2,
	FAILS_POINTER = 3,
};

enum call_flag {
	CALL_FINISHED = 1, /* duration and result are those of the return */
	CALL_FAILED = 2,
	CALL_MISSED = 4, /* its return was not seen */
	CALL_HIDDEN = 8, /* did not meet a predicate on its return */
	CALL_RETURNS = 16, /* of a finished one: sp is where it returned to */
	CALL_JUMPED = 32,  /* of a finished one: its caller ended by a jump to it, and both returned to the same place */
};

/* A call, while it is in flight and, until another takes its place, after. */
struct call {
	__u64 entry;	/* CLOCK_MONOTONIC ns */
	__u64 duration; /* ns */
	__u64 result;
	/* While it is in flight, the low half of the address of its stack frame, which tells it from others.
	   When it has returned, the low half of the address that it returned to; 0: not known. */
	__u32 sp;
	__u32 func;
	__u32 start;  /* length of the log, or the stash, before it */
	__u32 values; /* 1 + offset in the log of all arguments; 0: nothing. With -T, of the values of a SPEC that has returned */
	__u32 item;   /* the same for the values of a SPEC. With -T, in the stash while the call is in flight */
	__u32 flags;  /* enum call_flag */
};

enum session_kind {
	SESSION_END = 1,   /* the entry function has returned */
	SESSION_CHUNK = 2, /* a part of the log of a session that is still open */
	SESSION_CHAIN = 3, /* a failing chain that has given way: its caller went on, or failed for another reason */
	SESSION_DROP = 4,  /* ended, and is not wanted */
	SESSION_HUNG = 5,  /* has been open for long */
	SESSION_EXIT = 6,  /* its thread has ended */
};

/*
 * A record: what follows is the log, then frames, the stack and branches, as many
 * as the header says.
 */
struct session_record {
	__u64 start; /* with tid and cpu: names the session */
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
	__u32 lost_chains; /* failing chains that gave way undecided */
	__u16 cpu;
	__u8 kind; /* enum session_kind */
	__u8 failed;
	__u16 depth;  /* calls in flight */
	__u16 frames; /* number of struct call */
	__u16 stitched; /* index of the first frame that other calls have followed; 0: none */
	__u16 stack;  /* number of addresses */
	__u8 interrupt; /* it was opened by one */
	__u8 branches; /* number of struct perf_branch_entry */
	__u8 no_branches; /* why there are none: an error number */
	__u8 branch_flags; /* enum section_flag */
	__u8 ours; /* EVENT_OURS */
	__u8 pad[3];
	char comm[COMM_LEN];
	char leader[COMM_LEN];
};

enum log_kind {
	LOG_ENTRY = 1,
	LOG_EXIT = 2,
	LOG_ARGS = 3,  /* of the last LOG_ENTRY, or of a frame */
	LOG_ITEM = 4,  /* a struct frame with its values, of the call with that depth */
	LOG_PROBE = 5, /* a struct frame with the values of an injected probe */
};

enum log_bit {
	LOG_FLAGS_SHIFT = 24, /* in log_head.func */
};

/* In front of everything in the log. */
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

/* How the kernel got to a return. */
struct trail {
	__u64 stack_len;    /* bytes */
	__s64 branches_len; /* bytes, or a negative error number */
	__u64 stack[STACK_WORDS];
	struct perf_branch_entry branches[MAX_BRANCHES];
};

/*
 * A failing chain that other calls have followed. It hangs under a call that is in
 * flight: what that returns tells whether this was the reason.
 */
struct chain {
	__u16 from;    /* index of its outermost call, not 0 */
	__u16 size;    /* calls */
	__u32 error;   /* errno of its outermost call, 0: NULL */
	__u32 changes; /* of the session's calls, when it was put here */
	__u32 pad;
	struct trail trail; /* to the return of its innermost call */
	struct call calls[CHAIN];
};

/* The session of a thread, while one is open, or what an interrupt has for its own. */
struct session {
	__u32 busy;   /* a program is at work on it; programs know that this is first */
	__u16 depth;  /* calls in flight; 0: no session is open */
	__u16 top;    /* calls that are valid: those in flight and, behind, the last that returned */
	/* What follows, up to chains, is cleared in a new session: see FRESH_SIZE. */
	__u16 failing;	   /* 1 + index of the outermost call of the failing chain, 0: there is none */
	__u16 stitched;	   /* index of the first call of that chain that others have followed, 0: none */
	__u8 keeps;	   /* bit i: kept[i] is in use */
	__u8 satisfied;	   /* a call has met predicates */
	__u8 sent;	   /* parts of it were sent */
	__u8 chains;	   /* failing chains were sent */
	__u32 error;	   /* errno of the outermost call of the failing chain, 0: NULL */
	__u32 context;	   /* not zero: of an interrupt */
	__u32 log_len;
	__u32 stash_len;
	__u32 changes;	 /* of its calls, ever */
	__u32 success;	 /* changes when a call succeeded last */
	__u32 slot;	 /* 1 + its index in the pool */
	__u32 next;	 /* in the pool: slot of the next one there */
	__u32 hash;	 /* of the task, in the index */
	__u16 cell;	 /* of the bucket there */
	__u16 stray;	 /* it is the other bucket */
	__u32 overrun;	 /* of the task, when the session was opened */
	__u32 jumped;	 /* CALL_JUMPED, if all calls of the failing chain are */
	__u64 hung;	 /* start of the one that was reported as hung */
	__u64 ticket; /* of the branch snapshot of the return at hand */
	struct trail trail; /* to the return of the failing chain's innermost call */
	struct call calls[DEPTH];
	struct chain kept[KEPT];
	struct session_record rec;
	__u8 log[]; /* log_size bytes, stash_size */
};

/* What a new session clears by one store, from failing on. */
enum { FRESH_SIZE = __builtin_offsetof(struct session, error) - __builtin_offsetof(struct session, failing) };
_Static_assert(FRESH_SIZE == 8 && __builtin_offsetof(struct session, failing) % 8 == 0, "one store");

struct session_config {
	__u64 longer;  /* ns */
	__u64 hung;    /* ns */
	__u8 success;  /* report sessions that did not fail, too */
	__u8 interim;  /* report failing chains that have given way */
	__u8 traced;   /* log every call */
	__u8 live;     /* send the log at once */
	__u8 condition; /* report only sessions in which a call has met predicates */
	__u8 by_errno; /* look at errnos */
	__u8 overrun;  /* count calls that fprobes do not see */
	__u8 pad;
	__u64 errnos[ERRNOS / 64]; /* bit set: an error to report; bit 0 is NULL */
};

#endif
