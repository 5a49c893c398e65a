/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef KSNOOP_LOSS_H
#define KSNOOP_LOSS_H

/*
 * Nothing is lost in silence. Losses are counted by cause, and marked in the stream: a record
 * of KIND_LOST stands where others are missing. Calls beyond the rate limit are
 * counted likewise.
 */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

// The first MARKED counters can have marks in the stream. The verifier explores loops over them, in
// every program that sends a record: this must be a small number, and the loops do little.
enum { MARKED = LOST_NMI + 1 };

// Always 0, but the verifier does not know that.
volatile __u64 nothing;

// What was lost since the last mark, by cause, and whether that is anything.
__u64 unmarked[MARKED];
__u32 mark_due;

// add adds to a counter of this CPU. An interrupt may do so meanwhile, and other tasks, if the program is preempted.
static __always_inline void add(enum counter which, __u32 many)
{
	__u32 key = which;
	__u64 *n = bpf_map_lookup_elem(&counters, &key);

	if (n)
		__sync_fetch_and_add(n, many);
}

FUNC void ks_count(enum counter which)
{
	add(which, 1);
}

// ks_lost counts a record, or a call, that is missing from the stream. The cause must be one
// of the first MARKED; Marked in Go lists those that are used.
FUNC void ks_lost(enum counter which)
{
	add(which, 1); // not ks_count: the verifier allows 8 nested calls
	__sync_fetch_and_add(&unmarked[which], 1);
	mark_due = 1;
}

// stamp fills an event, except for what a mark does not need.
static __always_inline void stamp(struct event *e, __u32 probe, enum kind kind, __u64 ids)
{
	e->time = bpf_ktime_get_ns();
	e->tgid = ids >> 32;
	e->tid = ids;
	e->probe = probe;
	e->cpu = bpf_get_smp_processor_id();
	e->kind = kind;
	e->flags = 0;
	e->inner_tgid = e->inner_tid = 0;
	bpf_get_current_comm(e->comm, sizeof(e->comm));
}

// set_owner tells whose call it is, as far as record says, which is settings.record. A kernel without BTF is asked by helpers. One without
// cgroups has none of the structs: then the cgroup is 0, as if it was not asked for.
static __always_inline void set_owner(struct owner *o, __u32 record)
{
	struct task_struct *task;
	__u64 cgroup = 0;
	__u32 uid = 0;

	if (untyped) {
		if (record & RECORD_UID)
			uid = bpf_get_current_uid_gid();
		if (record & RECORD_CGROUP)
			cgroup = bpf_get_current_cgroup_id();
	} else {
		task = bpf_get_current_task_btf();
		if (record & RECORD_UID)
			uid = uid_of(task);
		if (record & RECORD_CGROUP && __builtin_preserve_field_info(task->cgroups, 2 /* it exists */))
			cgroup = task->cgroups->dfl_cgrp->kn->id;
	}
	o->uid = uid;
	o->pad = 0;
	o->cgroup = cgroup;
}

// fill fills the event of a call, except for its entry time and faults, and tells whose call it
// is. ids is bpf_get_current_pid_tgid.
static __always_inline void fill(struct event *e, __u32 probe, enum kind kind, __u64 ids)
{
	__u64 inner = inner_ids();
	__u32 record = settings.record;

	stamp(e, probe, kind, ids);
	e->flags = record & RECORD_OURS ? EVENT_OURS : 0;
	e->inner_tgid = inner >> 32;
	e->inner_tid = inner;
	if (record & RECORD_OWNER)
		set_owner((struct owner *)(e + 1), record);
}

// ks_mark sends a mark for the losses of one cause, and returns 1 if there may be others to mark. It
// is one of those functions that the verifier checks by themselves, see alone in subprogram.go.
FUNC int ks_mark(void)
{
	struct lost *l;
	__u64 n, i;

	mark_due = 0;
	for (i = 0; i < MARKED; i++)
		if (unmarked[i])
			break;
	i += nothing; // else the verifier would follow the rest for each cause
	if (i >= MARKED)
		return 0;
	n = __sync_lock_test_and_set(&unmarked[i], 0);
	if (!n)
		return 1;
	l = bpf_ringbuf_reserve(&events, sizeof(*l), 0);
	if (!l) {
		__sync_fetch_and_add(&unmarked[i], n);
		mark_due = 1;
		return 0;
	}
	stamp(&l->event, i, KIND_LOST, bpf_get_current_pid_tgid());
	l->event.entry_time = 0;
	l->event.faults = 0;
	l->count = n;
	bpf_ringbuf_submit(l, settings.wake);
	return 1;
}

// mark_losses sends a mark for each cause of losses since the last marks. Functions that send a
// record call it before.
static __always_inline void mark_losses(void)
{
	if (!mark_due)
		return;
	for (__u32 i = 0; i <= MARKED; i++)
		if (!ks_mark())
			break;
}

// At most rate_limit.most calls are sent in a window, unless it is 0. A window begins with
// the first call after the last window has ended. Calls are numbered, over all windows; window_first is the number of that first call.
const volatile struct rate_limit rate_limit;
__u64 window_start, window_first, window_calls;

// ks_admit admits a call if it is among the first of its window. Until the call that begins a window has set window_first, other calls
// belong to the window before. If that takes long, too few calls are admitted, not too many. Each is either sent or counted.
FUNC int ks_admit(void)
{
	__u64 now = bpf_ktime_get_ns(), start = window_start, first = window_first, number;
	bool begins;

	if (is_own(bpf_get_current_pid_tgid()))
		return 0;
	begins = (__s64)(now - start) >= (__s64)rate_limit.window && __sync_val_compare_and_swap(&window_start, start, now) == start;
	number = __sync_fetch_and_add(&window_calls, 1);
	if (begins) {
		__sync_val_compare_and_swap(&window_first, first, number);
		return 1;
	}
	if (number - first < rate_limit.most)
		return 1;
	ks_lost(RATE_LIMITED);
	return 0;
}

#endif
