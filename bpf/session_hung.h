/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Reports sessions that have been open for long. User space reads an iterator over all
 * tasks from time to time; nothing else calls this.
 */
#ifndef KSNOOP_SESSION_HUNG_H
#define KSNOOP_SESSION_HUNG_H

// session_hung reports the session of a task, once, if it has been open for too long, with
// the stack that the task has now. The thread goes on meanwhile, so a copy is reported, and
// only if the session did not change while it was copied.
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
	if (copy->busy || s->busy || !copy->depth || copy->rec.start != start || copy->changes != n || s->changes != n)
		return 0; // it makes progress
	if (copy->log_len != s->log_len || copy->rec.log_base != s->rec.log_base)
		return 0; // injected probes have logged, or a call was rejected
	s->hung = start;
	n = bpf_get_task_stack(task, copy->trail.stack, sizeof(copy->trail.stack), 0);
	copy->trail.stack_len = n > 0 ? n : 0;
	copy->trail.branches_len = 0;
	copy->stitched = 0;
	bpf_probe_read_kernel(copy->rec.leader, sizeof(copy->rec.leader), task->group_leader->comm);
	ks_log_unfinished(copy);
	send_session(copy, SESSION_HUNG, copy->depth, 0, 0);
	return 0;
}

#endif
