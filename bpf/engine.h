/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef KSNOOP_ENGINE_H
#define KSNOOP_ENGINE_H

#include <stdbool.h>

/*
 * What is used of <linux/bpf.h>, which cannot be included without the headers
 * of one architecture.
 */
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
	BPF_F_NO_PREALLOC = 1,
	BPF_F_USER_STACK = 1 << 8,
	BPF_RB_NO_WAKEUP = 1,
	ENOENT = 2,
	ESRCH = 3,
	ENXIO = 6,
	EBADF = 9,
	ENOMEM = 12,
	EFAULT = 14,
	EBUSY = 16,
	ENODEV = 19,
	ENODATA = 61,
	ENOIOCTLCMD = 515,
	ENOPARAM = 519,
};

struct bpf_dynptr {
	__u64 opaque[2];
} __attribute__((aligned(8)));

#include <bpf/bpf_helpers.h>

#define FUNC __hidden __noinline
#define COMM_LEN 16

/* The kernel's stacks are this large, or a multiple, and aligned to it. */
#define STACK_SIZE 16384

#define SITE_LAYER 48

/* What a record says of the moment it was sent at. */
enum kind {
	KIND_ENTRY = 0,	 /* a function was called */
	KIND_RETURN = 1, /* it returned */
	KIND_CALL = 2,	 /* both in one record, sent at return */
	KIND_LOST = 3,	 /* records are missing here: struct lost */
};

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
	/* Sessions that were not wanted: */
	LEFT_FINE = 18,	 /* they did not fail */
	LEFT_ERROR = 19, /* with another error than those asked for */
	LEFT_SHORT = 20, /* they did not take long enough */
	LEFT_UNMET = 21, /* no call met the predicates */
	LOST_CHAIN = 22, // failures of a session that gave way before it was known whether they were the reason
	COUNTERS = 23,
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

#define EVENT_TAIL 1 /* flag of an event: sections follow the values */
#define EVENT_OURS 2 /* the inner numbers are those of ksnoop's namespace */

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

#define MAX_CPUS 4096

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

#define MAX_BRANCHES 32
#define SNAPSHOTS 64

struct snapshot {
	__u64 ticket;
	__s64 size; /* bytes of entries, or a negative error number */
	struct perf_branch_entry entries[MAX_BRANCHES];
};

struct snapshots {
	__u64 next; /* ticket */
	struct snapshot ring[SNAPSHOTS];
};

#define SCRATCH_PER_CPU 4

/* Where a record with a tail is put together. The map's values are larger. */
struct scratch {
	__u64 busy;
	struct event event;
	struct section tail[];
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

/* A call in flight. */
struct frame {
	__u64 sp; /* an address in the call's own stack frame; 0: free */
	__u32 probe;
	__u32 far; /* not 0: taken, and not at home */
	struct event event;
};

struct config {
	__u32 self; /* ksnoop's own process, which is never traced */
	__u32 wake; /* BPF_RB_NO_WAKEUP: the reader looks by itself; 0: it is woken */
};

struct cred {
	struct {
		__u32 val;
	} uid;
} __attribute__((preserve_access_index));

struct signal_struct {
	struct {
		int counter;
	} live; /* threads that have not begun to exit */
} __attribute__((preserve_access_index));

struct task_struct {
	struct task_struct *group_leader;
	struct pid *thread_pid;
	void *stack;
	int pid;
	int tgid;
	struct cred *cred;
	struct signal_struct *signal;
	char comm[COMM_LEN];
	struct {
		int counter;
	} trace_overrun;
} __attribute__((preserve_access_index));

#endif
