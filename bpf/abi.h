/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the engine and user space share, but for sessions, which are in session.h:
 * what is sent, what is set before loading, and where generated code finds what.
 * Go has it from here: see gen.go.
 */
#ifndef KSNOOP_ABI_H
#define KSNOOP_ABI_H

/* ---- constants ---- */

/* What user space counts with as well. */
enum limit {
	COMM_LEN = 16,
	STACK_BITS = 14,
	STACK_SIZE = 1 << STACK_BITS, /* the kernel's stacks are this large, or a multiple, and aligned to it */
	SITE_LAYER = 48,
	MAX_CPUS = 4096,
	MAX_BRANCHES = 32,
	SNAPSHOTS = 64,
	SCRATCH_PER_CPU = 4,
	FILTER_IDS = 16,   /* of one kind, at most */
	FILTER_PARTS = 16, /* of all globs for names together */
};

/* ---- records ---- */

/* What a record says of the moment it was sent at. */
enum kind {
	KIND_ENTRY = 0,	 /* a function was called */
	KIND_RETURN = 1, /* it returned */
	KIND_CALL = 2,	 /* both in one record, sent at return */
	KIND_LOST = 3,	 /* records are missing here: struct lost */
};

enum event_flag {
	EVENT_TAIL = 1, /* sections follow the values */
	EVENT_OURS = 2, /* the inner numbers are those of ksnoop's namespace */
};

/* The header of every record; the values follow, as the plan lays them out. */
struct event {
	__u64 time;	  /* CLOCK_MONOTONIC ns */
	__u64 entry_time; /* the same for the call's entry, 0 if not asked for */
	__u64 faults;	  /* bit i: slot i could not be read */
	__u32 probe;	  /* index into the plan's probes */
	__u32 tgid;
	__u32 tid;
	__u16 cpu;
	__u8 kind; /* enum kind */
	__u8 flags; /* EVENT_TAIL, EVENT_OURS */
	__u32 inner_tgid; /* in another PID namespace than the initial one, see inner_ids */
	__u32 inner_tid;
	char comm[COMM_LEN];
};

/* ---- losses ---- */

/* Why a record, or a frame, was lost. */
enum counter {
	LOST_RINGBUF = 0, /* the ring buffer was full */
	LOST_DEPTH = 1,	  /* more calls of one session open than it has room for */
	LOST_STASH = 2,	  /* no room for the frame of another call in flight */
	LOST_FAMILY = 3,  /* a forked process could not be remembered */
	FAULT = 4,	  /* a predicate could not be decided: unreadable memory */
	LOST_SCRATCH = 5, /* all buffers for records with stacks or branches were in use */
	LOST_BRANCHES = 6, /* branches overwritten before they could be sent */
	LOST_VALUES = 7, /* no room for a call's values in its session */
	LOST_RETURN = 8, /* a call of a session ended unseen */
	LOST_RECURSION = 9, /* a call that a program itself has caused */
	RATE_LIMITED = 10, /* calls beyond the rate that was asked for */
	UNREADABLE = 11,	  /* records of which some value could not be read */
	TRUNCATED = 12,	  /* strings and buffers of which only the beginning was captured */
	MISSED = 13,	  /* programs that the kernel did not run; counted by the kernel */
	LOST_SESSION = 14, /* no room for another open session */
	LOST_NMI = 15,	  /* a session that would begin in a non-maskable interrupt */
	PAUSED_TIME = 16, // milliseconds in which the programs were paused; counted by user space
	MISSED_RETURN = 17, // calls for whose return the kernel had no room; counted by the kernel
	/* Sessions that were not wanted; see left_out: */
	LEFT_FINE = 18,	 /* they did not fail */
	LEFT_ERROR = 19, /* with another error than those asked for */
	LEFT_SHORT = 20, /* they did not take long enough */
	LEFT_UNMET = 21, /* no call met the predicates */
	LOST_CHAIN = 22, // failures of a session that gave way before it was known whether they were the reason
	COUNTERS = 23,
};

/* A mark in the stream. Its event's probe is the cause, an enum counter. */
struct lost {
	struct event event;
	__u64 count;
};

struct rate_limit {
	__u64 most;
	__u64 window; /* ns */
};

/* ---- what follows the values of a record: tail.h ---- */

enum section_kind {
	SECTION_STACK = 1,	/* addresses in the kernel, innermost first */
	SECTION_USER_STACK = 2, /* the same in user space */
	SECTION_BRANCHES = 3,	/* struct perf_branch_entry, newest first */
};

enum section_flag {
	SECTION_CUT = 1, /* there may be more than was taken */
	SECTION_ALL = 2, /* branches of every kind were recorded: none is missing in between */
	SECTION_CALLER = 4, /* of the stack only the first caller is wanted */
};

/* What of a record's tail is taken, in the argument of ks_send_tail. */
enum take {
	TAKE_STACKS = 1,
	TAKE_BRANCHES = 2,
	TAKE_CALLER = 4, /* the stack lacks the caller, which is in the link register */
	TAKE_SHIFT = 8,
};

struct section {
	__u16 kind;
	__u16 flags;
	__s32 size; /* bytes that follow, or a negative error number */
};

struct tail_config {
	__u32 stack; /* bytes at most; 0: not wanted */
	__u32 user_stack;
	enum section_flag stack_flags; /* of their sections */
	enum section_flag branch_flags;
	__u32 branches; /* wanted in sessions */
	__u64 silent[MAX_CPUS / 64]; /* a bit for each CPU that records no branches */
};

/* As in the kernel's UAPI. */
struct perf_branch_entry {
	__u64 from;
	__u64 to;
	__u64 flags;
};

struct snapshot {
	__u64 ticket;
	__s64 size; /* bytes of entries, or a negative error number */
	struct perf_branch_entry entries[MAX_BRANCHES];
};

struct snapshots {
	__u64 next; /* ticket */
	struct snapshot ring[SNAPSHOTS];
};

/* Where a record with a tail is put together. The map's values are larger. */
struct scratch {
	__u64 busy;
	struct event event;
	struct section tail[];
};

/* ---- calls in flight: stash.h ---- */

/* A call in flight. */
struct frame {
	__u64 sp; /* an address in the call's own stack frame; 0: free */
	__u32 probe;
	__u32 far; /* not 0: taken, and not at home */
	struct event event;
};

// The table. Frames follow; generated code knows where they begin.
struct stash_head {
	__u32 far; // frames that are taken far away
	__u32 pad[15];
};

/* ---- all arguments of a call: args.h ---- */

enum arg_limit {
	ARG_WORDS = 12,	   /* of a call, at most */
	ARG_TARGETS = 6,   /* that are followed */
	ARG_REACH = 256,   /* bytes copied of a target, at most */
	TARGET_BYTES = 0,  /* size bytes */
	TARGET_TEXT = 1,   /* a string of at most size bytes, NUL included */
	TARGET_FAULT = 1,  /* flag: could not be read */
	ARGS_MAX = 8 * ARG_WORDS + ARG_TARGETS * (8 + ARG_REACH),
};

/* What a word points to. */
struct arg_target {
	__u8 word;
	__u8 kind;
	__u16 size; /* 8 to ARG_REACH, a multiple of 8 unless kind is TARGET_BYTES */
};

/* The arguments of one function, as the plan describes them. */
struct arg_list {
	__u8 words;
	__u8 targets;
	__u8 user; /* of a system call: they are in the registers of user space, to which the first word points */
	__u8 pad;
	struct arg_target target[ARG_TARGETS];
	__u8 unused[4];
};

/* In front of the bytes of a target, which are padded to a multiple of 8. */
struct arg_bytes {
	__u16 size;
	__u8 flags;
	__u8 target; /* index in the list */
	__u32 pad;
};

/* ---- values that a list describes: slots.h ---- */

enum slot_kind {
	SLOT_WORD = 0,	/* the word itself, a number */
	SLOT_LOAD = 1,	/* the number that it points to */
	SLOT_BYTES = 2, /* size bytes that it points to */
	SLOT_TEXT = 3,	/* the string that it points to, of at most size bytes */
};

enum slot_flag {
	SLOT_SIGNED = 1,
	SLOT_USER = 2, /* what it points to is in user space */
};

/* One value of a record. */
struct slot {
	enum slot_kind kind;
	enum slot_flag flags;
	__u8 word;  /* what it is of: index of an argument's word, or RESULT_WORD */
	__u8 width; /* of a number, in bytes */
	__u16 off;  /* where it lies in the data */
	__u16 size; /* there, in bytes */
	__u16 index; /* of the record's slots */
};

enum list_limit {
	LIST_SLOTS = 24,
	LIST_DATA = 31 << 10, /* layout.MaxRecord */
	LIST_OBJECT = 8 << 10, /* layout.MaxObject */
	LIST_MASK = 0x7fff, /* of sizes and offsets in the data, which tells the verifier a bound */
	RESULT_WORD = ARG_WORDS, /* what of words is the result */
};

/* The values of one end of a call. */
struct slot_list {
	__u32 size; /* of the data */
	__u32 count;
	struct slot slot[LIST_SLOTS];
};

/* ---- whether programs run: control.h ---- */

enum position {
	OFF = 0,
	ON = 1,
	PAUSED = 2, // no new calls are taken up; those taken up before are followed to their end
};

struct guard {
	__u32 stack; // that holds it; 0: free
	__u32 strays; // stacks that belong here and hold another place
	__u32 home;   // of another place: the stack that holds it, for strays
	__u32 pad[13]; // places do not share a cache line
};

enum guard_limit {
	GUARD_TAKEN = 1 << 30, // in the number of any stack
	GUARDS = 1024,
	STRAY_GUARDS = 16,
};

/* ---- whose calls are looked at: filter.h and pidns.h ---- */

struct ids {
	__u32 count;
	__u32 id[FILTER_IDS];
};

/*
 * What is between two stars of a glob, as the two words that a task's name is
 * compared as. The end of a name is a byte of 0 in the last part of its glob.
 */
struct comm_part {
	__u64 value[2]; /* what the bytes must be */
	__u64 mask[2];	/* which bytes are compared */
	__u64 some[2];	/* which bytes must not be 0, for "?" */
	__u8 size;	/* in bytes */
	__u8 first;	/* of its glob */
	__u8 last;	/* of its glob */
	__u8 anywhere;	/* behind the part before it, rather than right there */
	__u8 pad[4];
};

struct comms {
	__u32 count;
	__u16 search; /* some part can be anywhere */
	__u16 plain;  /* the only part is all of a name, or how it begins, without "?" */
	struct comm_part part[FILTER_PARTS];
};

struct task_filter {
	struct ids pids, not_pids, tids, uids;
	__u64 cgroup; /* only tasks in it or below it, if not 0 */
	__u32 cgroup_level;
	__u8 by_family; /* only processes in the family map */
	__u8 no_irq;	/* no calls that an interrupt makes on a task's back */
	__u8 pad[2];
};

/* The namespace that ksnoop is in. */
struct pid_namespace_config {
	__u64 addr; /* 0: the initial one */
	__u32 level;
	__u32 pad;
};

/* ---- the engine itself ---- */

struct config {
	__u32 self; /* ksnoop's own process, which is never traced */
	__u32 wake; /* BPF_RB_NO_WAKEUP: the reader looks by itself; 0: it is woken */
};

#endif
