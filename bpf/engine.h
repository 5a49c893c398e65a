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
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum ringbuf_flag {
	BPF_RB_NO_WAKEUP = 1,
};

enum {
	BPF_ANY = 0,
	BPF_F_NO_PREALLOC = 1,
	BPF_F_USER_STACK = 1 << 8,
	BPF_F_MMAPABLE = 1 << 10,
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
#include <bpf/bpf_core_read.h>

#define FUNC __hidden __noinline

#include "abi.h"

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

struct kernfs_node {
	__u64 id;
} __attribute__((preserve_access_index));

struct cgroup {
	struct kernfs_node *kn;
} __attribute__((preserve_access_index));

struct css_set {
	struct cgroup *dfl_cgrp; /* of version 2 */
} __attribute__((preserve_access_index));

struct xol_area {
	unsigned long vaddr;
} __attribute__((preserve_access_index));

struct mm_struct {
	unsigned long env_start;
	unsigned long env_end;
	struct {
		struct xol_area *xol_area;
	} uprobes_state;
} __attribute__((preserve_access_index));

struct return_instance {
	unsigned long func;
	unsigned long stack;
	bool chained;
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
} __attribute__((preserve_access_index));

struct uprobe_task {
	unsigned int depth;
	struct return_instance *return_instances;
} __attribute__((preserve_access_index));

#ifdef __TARGET_ARCH_arm64
struct pt_regs {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
} __attribute__((preserve_access_index));

struct thread_struct {
	struct {
		unsigned long tp_value;
	} uw;
} __attribute__((preserve_access_index));
#else
struct pt_regs {
	unsigned long ip;
	unsigned long sp;
} __attribute__((preserve_access_index));

struct thread_struct {
	unsigned long fsbase;
} __attribute__((preserve_access_index));
#endif

struct task_struct {
	struct task_struct *group_leader;
	struct pid *thread_pid;
	void *stack;
	unsigned int flags;
	int exit_code;
	int pid;
	int tgid;
	struct cred *cred;
	struct css_set *cgroups;
	struct signal_struct *signal;
	struct mm_struct *mm;
	struct uprobe_task *utask;
	__u64 start_boottime;
	struct thread_struct thread;
	char comm[COMM_LEN];
	struct {
		int counter;
	} trace_overrun;
} __attribute__((preserve_access_index));

#endif
