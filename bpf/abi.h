/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the engine and user space share: records, settings that are fixed before loading, and
 * structs in memory that generated code reads and writes. Sessions have theirs in session.h.
 * bpf2go generates the Go side of both: see gen.go, and union abi_only in
 * engine.bpf.c for types that nothing in the engine has.
 */
#ifndef KSNOOP_ABI_H
#define KSNOOP_ABI_H

/* ---- constants ---- */

/* Sizes and numbers. */
enum limit {
	COMM_LEN = 16,
	STACK_BITS = 14,
	STACK_SIZE = 1 << STACK_BITS, /* the kernel's stacks are this large, or a multiple, and aligned to it */
	SITE_LAYER = 48, /* lowest bit of the layer in a key of sites */
	MAX_CPUS = 4096,
	MAX_BRANCHES = 32,
	SNAPSHOTS = 64,	     /* of branches, that are kept */
	SCRATCH_PER_CPU = 4, /* buffers for records with a tail */
	FILTER_IDS = 16,     /* in one list, at most */
	FILTER_PARTS = 16,   /* in all globs of a list, at most */
	FILTER_CGROUPS = 64, /* of containers, at most */
};

/* ---- records ---- */

/* At which end of a call a record was sent. */
enum kind {
	KIND_ENTRY = 0,	 /* a function was called */
	KIND_RETURN = 1, /* it returned */
	KIND_CALL = 2,	 /* both in one record, sent at return */
	KIND_LOST = 3,	 /* records are missing here: struct lost */
};

enum event_flag {
	EVENT_TAIL = 1, /* sections follow the values */
	EVENT_OURS = 2, /* inner_tgid and inner_tid are those of ksnoop's PID namespace */
};

/* What is the same for all records. One word has all: each of several would be loaded. */
enum record_part {
	RECORD_UID = 1,	   /* they have an owner, with the user of the task */
	RECORD_CGROUP = 2, /* they have an owner, with the cgroup of the task */
	RECORD_OURS = 4,   /* EVENT_OURS: pid_namespace has an address */
	RECORD_OWNER = RECORD_UID | RECORD_CGROUP,
};

/* Whose call it was. What is not recorded is 0. */
struct owner {
	__u32 uid;
	__u32 pad;
	__u64 cgroup; /* the ID of a cgroup of version 2 */
};

/*
 * The header of every record. A struct owner follows if RECORD_OWNER says so, then, of some functions of the
 * process, the place of the call, and the values; the plan knows where each is.
 */
struct event {
	__u64 time;	  /* CLOCK_MONOTONIC ns */
	__u64 entry_time; /* the same of the call's entry, 0 if not asked for */
	__u64 faults;	  /* bit i: slot i could not be read */
	__u32 probe;	  /* index into the plan's probes */
	__u32 tgid;
	__u32 tid;
	__u16 cpu;
	__u8 kind; /* enum kind */
	__u8 flags; /* EVENT_TAIL, EVENT_OURS */
	__u32 inner_tgid; /* in a PID namespace other than the initial one, see inner_ids */
	__u32 inner_tid;
	char comm[COMM_LEN];
};

/* ---- losses ---- */

/* What is counted: losses by cause, and calls and sessions that were left out on purpose. */
enum counter {
	LOST_RINGBUF = 0, /* the ring buffer was full */
	LOST_DEPTH = 1,	  /* calls of a session nested deeper than it has room for, open or kept of a failure */
	LOST_STASH = 2,	  /* no frame for another call in flight */
	LOST_FAMILY = 3,  /* the family had no room for a forked process */
	FAULT = 4,	  /* a predicate read memory that cannot be read */
	LOST_SCRATCH = 5, /* all buffers for records with stacks or branches were in use */
	LOST_BRANCHES = 6, /* branches overwritten before they could be sent */
	LOST_VALUES = 7, /* no room for a call's values in its session */
	LOST_RETURN = 8, /* the return of a session's call was not seen */
	LOST_RECURSION = 9, /* a call that a program has made itself */
	RATE_LIMITED = 10, /* calls beyond the rate limit */
	UNREADABLE = 11,	  /* records of which some value could not be read */
	TRUNCATED = 12,	  /* strings and buffers of which only the beginning was captured */
	MISSED = 13,	  /* programs that the kernel did not run; counted by the kernel */
	LOST_SESSION = 14, /* no room for another open session */
	LOST_NMI = 15,	  /* a session that would have begun in a non-maskable interrupt */
	PAUSED_TIME = 16, /* milliseconds in which the programs were paused; counted by user space */
	MISSED_RETURN = 17, /* calls for whose return the kernel had no room */
	/* Sessions that are not reported; left_out counts them. */
	LEFT_FINE = 18,	 /* they did not fail */
	LEFT_ERROR = 19, /* they failed with an error that was not asked for */
	LEFT_SHORT = 20, /* they were shorter than asked for */
	LEFT_UNMET = 21, /* no call met its predicates */
	LOST_CHAIN = 22, /* failing chains given up before it was known whether they were the reason */
	OVERWRITTEN = 23, /* records that made room in a flight recorder; counted by user space */
	LOST_KEY = 24, /* calls not added up: no room for another key */
	LOST_ROW = 25, /* calls not added up: a program below this one was changing the same row */
	LOST_KEPT_STACK = 26, /* keys without their stack: no room for another one */
	LOST_PATH = 27, /* calls whose way was not recorded: no room for another one */
	SHORT_STACK = 28, /* user stacks that are deeper than what was copied of them; counted by user space */
	LOST_INNER = 29, /* calls of entry functions taken for calls within an earlier one whose return was not seen */
	UNSEEN_RETURN = 30, /* returns of functions of the process that the kernel will not show */
	MISSED_TASK = 31, /* execs and ends of tasks for which the kernel did not run the engine; counted by the kernel */
	UNSEEN_CODE = 32, /* what processes mapped, executed or forked and was not seen; counted by user space */
	SWITCHED_OFF = 33, /* switches of ftrace and kprobes that were off at the end; counted by user space */
	COUNTERS = 34,
};

/* A mark in the stream. Its event's probe is the cause, an enum counter. */
struct lost {
	struct event event;
	__u64 count;
};

struct rate_limit {
	__u64 most; /* calls in a window; 0: no limit */
	__u64 window; /* ns */
};

/* ---- what follows the values of a record: tail.h ---- */

enum section_kind {
	SECTION_STACK = 1,	/* addresses in the kernel, innermost first */
	SECTION_USER_STACK = 2, /* the same in user space */
	SECTION_BRANCHES = 3,	/* struct perf_branch_entry, newest first */
	SECTION_PATH = 4,	/* struct path_head, struct path_step: path.h */
	SECTION_USER_COPY = 5,	/* the user's registers, USER_RETURNS times struct user_return, and the stack from its pointer on */
};

enum section_flag {
	SECTION_CUT = 1, /* there may be more than there was room for */
	SECTION_ALL = 2, /* branches of every kind were recorded: none is missing in between */
	SECTION_CALLER = 4, /* only the first caller on the stack is wanted */
	SECTION_UNWOUND = 8, /* user space has made a stack of a SECTION_USER_COPY: bpf/userstack.go */
};

/* What a record's tail is to hold, in the argument of ks_send_tail above the kind. */
enum take {
	TAKE_STACKS = 1,
	TAKE_BRANCHES = 2,
	TAKE_CALLER = 4, /* add the caller from the link register: the stack lacks it */
	TAKE_PATH = 8,
	TAKE_SHIFT = 8,
};

/* The header of a section. */
struct section {
	__u16 kind;
	__u16 flags;
	__s32 size; /* bytes that follow, or a negative error number */
};

struct tail_config {
	__u32 stack; /* bytes at most; 0: not wanted */
	__u32 user_stack;
	__u32 user_copy; /* bytes of the user's stack, at most USER_COPY_MAX; 0: not wanted */
	enum section_flag stack_flags; /* for sections with stacks */
	enum section_flag branch_flags;
	__u32 branches; /* not 0: sessions take them */
	__u64 silent[MAX_CPUS / 64]; /* a bit for each CPU that records no branches */
};

enum user_limit {
	USER_WORDS_AMD64 = 21, /* of struct pt_regs */
	USER_WORDS_ARM64 = 34, /* of struct user_pt_regs */
	USER_COPY_MAX = 60 << 10, /* bytes */
	USER_COPY_STEP = 4 << 10, /* copied at once: no page is smaller */
	USER_RETURNS = 16,
	USER_STACK = 64 << 20, /* bytes; no stack is larger: 8 MiB is the usual limit */
	USER_DEPTH = 64, /* returns of one thread's functions that the kernel waits for, at most: MAX_URETPROBE_DEPTH */
};

/* A call of the process whose return is probed. The return address that its caller has left is not on the stack. */
struct user_return {
	__u64 stack; /* the stack pointer at its entry; 0: there are no more */
	__u64 address;
};

/* As in the kernel's UAPI. */
struct perf_branch_entry {
	__u64 from;
	__u64 to;
	__u64 flags;
};

/* One snapshot of branches. The ticket tells whether a later one has overwritten it. */
struct snapshot {
	__u64 ticket;
	__s64 size; /* bytes of entries, or a negative error number */
	struct perf_branch_entry entries[MAX_BRANCHES];
};

/* The last SNAPSHOTS of them, by ticket modulo SNAPSHOTS. */
struct snapshots {
	__u64 next; /* ticket */
	struct snapshot ring[SNAPSHOTS];
};

/* A buffer for a record with a tail. The map's values are larger than this. */
struct scratch {
	__u64 busy; /* it is in use */
	struct event event;
	struct section tail[];
};

/* ---- ways through functions: path.h ---- */

enum path_limit {
	PATH_STEPS = 256, /* of all calls of a stack that are open, a power of two */
	PATH_DEPTH = 8,   /* such calls, a power of two */
	PATH_UNREADABLE = 1, /* flag: the first value could not be read; shifted by 1, the second */
};

/* A value that a jump depends on: a register or, with memory, what is at an address. */
struct path_operand {
	__u8 base; /* words of pt_regs; 255: none */
	__u8 index;
	__u8 scale;
	__u8 size; /* bytes */
	__u32 memory;
	__s64 disp;
};

/* A probe on the way. */
struct path_site {
	__u32 probe; /* whose function it is in */
	__u32 index; /* among the sites of the function */
	__u32 word;  /* of pt_regs, which decides */
	__u32 pad;
	struct path_operand operand[2];
};

/* What a probe has seen. */
struct path_step {
	__u32 site;
	__u32 flags; /* PATH_UNREADABLE */
	__u64 word;
	__u64 value[2];
};

/* The steps of a call. If there were more than there was room for, the first half of the room
 * has the first, and the other half the last, as a ring. */
struct path_head {
	__u32 count;
	__u32 room;
};

/* A call that is open. */
struct path_mark {
	__u64 sp; /* its stack pointer at entry */
	__u32 probe;
	__u32 first; /* its first step */
	__u32 count;
	__u32 wanted; /* its steps are kept */
};

/* The calls of one stack that are open, and their steps. */
struct path {
	__u64 stack; /* whose it is; 0: free */
	__u32 depth; /* marks */
	__u32 beyond; /* low half of the stack pointer of the outermost call that found no room for a mark; 0: none is open */
	struct path_mark mark[PATH_DEPTH];
	struct path_step step[PATH_STEPS];
};

/* ---- calls in flight: stash.h ---- */

/* What is kept of a call in flight: its name and its record, values included. */
struct frame {
	__u64 sp; /* an address in the call's own stack frame; 0: free */
	__u32 probe;
	__u16 far; /* not 0: taken, and not in the table */
	__u16 jumps; /* further calls of this function of the process, reached by jumps from this one on, that have frames */
	struct event event;
};

/* The head of the table. The frames follow it directly. */
struct stash_head {
	__u32 far; /* how many frames are taken that are not in the table */
	__u32 pad[15];
};

/* ---- all arguments of a call: args.h ---- */

enum arg_limit {
	ARG_WORDS = 12,	   /* words of a call, at most */
	ARG_TARGETS = 6,   /* targets of a call, at most */
	ARG_REACH = 256,   /* bytes copied of a target, at most */
	TARGET_BYTES = 0,  /* kind: size bytes */
	TARGET_TEXT = 1,   /* kind: a string of at most size bytes, NUL included */
	TARGET_FAULT = 1,  /* flag: it could not be read */
	ARGS_MAX = 8 * ARG_WORDS + ARG_TARGETS * (8 + ARG_REACH),
};

/* What a word points to. */
struct arg_target {
	__u8 word;
	__u8 kind;
	__u16 size; /* 8 to ARG_REACH, a multiple of 8 unless kind is TARGET_BYTES */
};

/* Which arguments of a function are captured. */
struct arg_list {
	__u8 words;
	__u8 targets;
	__u8 user; /* a system call: the first word points to the registers of user space, which hold the arguments */
	__u8 pad;
	struct arg_target target[ARG_TARGETS];
	__u16 withheld; /* words that are not captured, as bits */
	__u8 unused[2];
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
	SLOT_LOAD = 1,	/* the number that the word points to */
	SLOT_BYTES = 2, /* size bytes that the word points to */
	SLOT_TEXT = 3,	/* the string that the word points to, of at most size bytes */
};

enum slot_flag {
	SLOT_SIGNED = 1,
	SLOT_USER = 2, /* the word points to user space */
};

/* One value of a record. */
struct slot {
	enum slot_kind kind;
	enum slot_flag flags;
	__u8 word;  /* index of an argument's word, RESULT_WORD or PLACE_WORD */
	__u8 width; /* of a number, in bytes */
	__u16 off;  /* in the record's data */
	__u16 size; /* in bytes there */
	__u16 index; /* of the slot, for event.faults */
};

enum list_limit {
	LIST_SLOTS = 24, /* in a list, at most */
	LIST_DATA = 31 << 10, /* layout.MaxRecord */
	LIST_OBJECT = 8 << 10, /* layout.MaxObject */
	LIST_MASK = 0x7fff, /* keeps sizes and offsets below a bound that the verifier knows */
	RESULT_WORD = ARG_WORDS, /* the result, as a word */
	PLACE_WORD,		 /* the place of the call, see ks_place */
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
	PAUSED = 2, /* calls and sessions that were begun before are finished; no others are begun */
};

/* A place in the guard's table, or one of the other places. */
struct guard {
	__u32 stack;   /* the number of the stack that is held here; 0: free */
	__u32 strays;  /* how many stacks whose home this is are held at other places */
	__u32 home;    /* of another place, the stack held here; 0 at home */
	__u32 pad[13]; /* a cache line in all */
};

enum guard_limit {
	GUARD_TAKEN = 1 << 30, /* set in the number of each stack, so that none is 0 */
	GUARDS = 1024,	       /* places in the table */
	STRAY_GUARDS = 16,     /* other places */
};

/* ---- whose calls are traced: filter.h and pidns.h ---- */

struct ids {
	__u32 count;
	__u32 id[FILTER_IDS];
};

/*
 * What is between two stars of a glob. Names are compared as two words. If the name must end
 * with a part, the part includes the NUL.
 */
struct comm_part {
	__u64 value[2]; /* what the bytes must be */
	__u64 mask[2];	/* which bytes are compared */
	__u64 some[2];	/* which bytes must not be 0, for "?" */
	__u8 size;	/* in bytes */
	__u8 first;	/* the first part of its glob */
	__u8 last;	/* the last part of its glob */
	__u8 anywhere;	/* it follows a star */
	__u8 pad[4];
};

struct comms {
	__u32 count;
	__u16 search; /* some part follows a star */
	__u16 plain;  /* there is one part, at the beginning, without "?" */
	struct comm_part part[FILTER_PARTS];
};

struct task_filter {
	struct ids pids, not_pids, tids, uids;
	__u64 cgroup; /* only tasks in this one or below; 0: all */
	__u32 cgroup_level;
	__u8 by_family; /* only processes in the family map */
	__u8 no_irq;	/* no calls that interrupts make on top of a task */
	__u8 by_cgroups; /* only tasks in one of cgroups or below */
	__u8 pad;
};

/* Cgroups of which user space learns while calls are traced: those of containers. */
struct cgroup_place {
	__u64 id;
	__u32 level;
	__u32 pad;
};

struct cgroup_list {
	__u32 count;
	__u32 pad;
	struct cgroup_place place[FILTER_CGROUPS];
};

/* The PID namespace that ksnoop is in. */
struct pid_namespace_config {
	__u64 addr; /* 0: the initial one */
	__u32 level;
	__u32 pad;
};

/* ---- tables of aggregations: summary.h ---- */

enum table_limit {
	TABLES = 64, /* in a request, at most */
	KEPT_STACK_MAX = 127, /* addresses of a stack */
	KEPT_STACK_BYTES = 1024, /* more than these take, a power of two */
	RAISE_TRIES = 16, /* to set a maximum */
};

/* Where a table is. Offsets and sizes are in bytes. */
struct table {
	__u32 offset; /* of the first shard, in a half */
	__u32 shard;  /* size of a shard */
	__u32 place;  /* size of a place */
	__u32 place_mask; /* number of places in a shard less 1, a power of two less 1 */
	__u32 place_shift; /* 32 less the bits of place_mask */
	__u32 key_words;
	__u32 keys; /* in a shard, at most */
};

/* A place in a shard. The words of the row follow those of the key. */
struct table_place {
	__u32 state; /* 0: free; PLACE_FILLING; the hash of the key */
	__u32 busy;  /* a program is changing the candidates of top(): CANDIDATES_HELD, and the index of the least */
	__u64 words[];
};

struct table_shard {
	__u32 used; /* places */
	__u32 pad;
	struct table_place places[];
};

/* A value in a row of top(): see expr/top.go. */
struct candidate {
	__u64 value;
	__u64 count;
	__u64 error;
};

/* A stack that keys name. */
struct kept_stack {
	__u64 hash;  /* of the addresses and tgid; 0: free */
	__u32 tgid;  /* whose stack it is; 0: of the kernel */
	__u32 count; /* of addresses */
	__u64 address[KEPT_STACK_MAX + 1]; /* innermost first */
	char comm[COMM_LEN]; /* of a process: the thread that had the stack first, */
	__u32 tid;	     /* and its number */
	__u32 pad;
};

/* ---- the engine itself ---- */

struct config {
	__u32 self; /* ksnoop's own process, whose calls are never traced */
	__u32 wake; /* enum ringbuf_flag: BPF_RB_NO_WAKEUP if the reader polls, 0 if it is to be woken */
	__u32 record; /* enum record_part */
};

#endif
