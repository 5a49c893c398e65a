/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef KSNOOP_PIDNS_H
#define KSNOOP_PIDNS_H

/*
 * PID namespaces. A task has a PID in its own namespace and in each one around it. Filters and
 * the family use those of the initial namespace. Users know those of the namespace
 * that ksnoop runs in, so records have both. User space reads the program list_pids
 * to find its namespace and to translate PIDs.
 */

struct upid { /* the same since Linux 4.15 */
	__u32 nr;
	void *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1]; /* one for each level */
} __attribute__((preserve_access_index));

// Set before loading.
const volatile struct pid_namespace_config pid_namespace;

// pid_of reads the struct pid of a task; NULL once it has been released.
static __always_inline struct pid *pid_of(struct task_struct *task)
{
	struct pid *pid = 0;

	bpf_probe_read_kernel(&pid, sizeof(pid), &task->thread_pid);
	return pid;
}

static __always_inline struct pid *tgid_of_leader(struct task_struct *task)
{
	struct task_struct *leader = 0;

	bpf_probe_read_kernel(&leader, sizeof(leader), &task->group_leader);
	return pid_of(leader);
}

// level_of reads how far below the initial namespace the one of a task is.
static __always_inline __u32 level_of(struct pid *pid)
{
	__u32 level = 0;

	bpf_probe_read_kernel(&level, sizeof(level), &pid->level);
	return level;
}

// upid_at reads the number and the namespace that a task has at a level; both are 0 if it has
// none.
static __always_inline void upid_at(struct upid *id, struct pid *pid, __u32 level)
{
	*id = (struct upid){};
	if (level <= level_of(pid)) // level_of(NULL) is 0
		bpf_probe_read_kernel(id, sizeof(*id), &pid->numbers[level]);
}

// number_in is the number that a task has in the namespace at addr; 0 if none.
static __always_inline __u32 number_in(struct pid *pid, __u32 level, __u64 addr)
{
	struct upid id;

	upid_at(&id, pid, level);
	return !addr || id.ns == (void *)addr ? id.nr : 0;
}

// ks_inner_ids is bpf_get_current_pid_tgid for another namespace: the one at addr or, if that
// is 0, the task's own.
FUNC __u64 ks_inner_ids(__u32 level, __u64 addr)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 tgid;

	if (!addr)
		level = level_of(pid_of(task));
	tgid = number_in(tgid_of_leader(task), level, addr);
	return tgid << 32 | number_in(pid_of(task), level, addr);
}

// inner_ids returns the numbers that records have besides those of the initial namespace:
// those in ksnoop's namespace or, if that is the initial one, in the task's own. It returns 0
// if there are no others.
static __always_inline __u64 inner_ids(void)
{
	struct task_struct *task;

	if (pid_namespace.addr)
		return ks_inner_ids(pid_namespace.level, pid_namespace.addr);
	if (untyped) // without BTF, this would cost each record two reads by helpers
		return 0;
	task = bpf_get_current_task_btf();
	return task->thread_pid->level ? ks_inner_ids(0, 0) : 0;
}

// ks_ids is for $pid and $tid where ksnoop is not in the initial namespace.
FUNC __u64 ks_ids(void)
{
	return ks_inner_ids(pid_namespace.level, pid_namespace.addr);
}

/* One task, as list_pids sends it. */
struct listed_pid {
	__u64 addr; /* of the namespace of who asks */
	__u32 level;
	__u32 inner; /* its number there */
	__u32 pid; /* the kernel's own */
	__u32 pad;
};

struct bpf_iter_meta {
	void *seq;
} __attribute__((preserve_access_index));

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

static __noinline long ks_write_line(struct bpf_iter__task *ctx, struct listed_pid *line)
{
	return bpf_seq_write(ctx->meta->seq, line, sizeof(*line));
}

// list_pids writes the namespace of the reader and, for each task in that, its numbers in
// both namespaces. The kernel runs the iterator for these tasks only.
SEC("iter/task")
int list_pids(struct bpf_iter__task *ctx)
{
	struct pid *own = pid_of((void *)bpf_get_current_task());
	struct task_struct *task = ctx->task;
	struct listed_pid line = {};
	struct upid id;

	if (!task)
		return 0;
	line.level = level_of(own);
	upid_at(&id, own, line.level);
	line.addr = (__u64)id.ns;
	line.inner = number_in(pid_of(task), line.level, line.addr);
	line.pid = task->pid;
	ks_write_line(ctx, &line); // if there is no room, the kernel runs it again later
	return 0;
}

#endif
