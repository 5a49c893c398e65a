/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef KSNOOP_STASH_H
#define KSNOOP_STASH_H

/*
 * The stash: calls in flight of which return programs will want to know. Each
 * thread has frame_count frames of frame_size bytes in the table below, in a
 * row that it takes when it first needs one and has until it ends. If another
 * thread has that row, or all of its frames are taken, there are as many again
 * in the task's storage, which costs a helper where the table costs a handful
 * of instructions.
 */

// Set before loading. The verifier sees their values and drops what they
// switch off.
const volatile __u32 frame_size;  // bytes, of struct frame and the record in it
const volatile __u32 frame_count; // calls in flight kept in one place for a thread
const volatile __u32 row_shift;	  // 64 minus the binary logarithm of the number of rows

// A row: the owner's struct task_struct, which tells rows apart, and frames.
struct row {
	__u64 owner; /* 0: free */
	__u64 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct row);
} rows SEC(".maps");

// The frames that did not fit into the table. The kernel frees them with the
// task.
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct frame);
} threads SEC(".maps");

// Whether any thread has frames in its task's storage.
__u32 overflowed;

static __always_inline struct row *row_of(__u64 task)
{
	__u32 i = (task * 0x9E3779B97F4A7C15ULL) >> row_shift;

	return bpf_map_lookup_elem(&rows, &i);
}

// same_stack compares the low halves only: sp may be the address of the context,
// and the verifier lets nothing else be computed from that.
static __always_inline bool same_stack(__u32 a, __u32 b)
{
	asm volatile("" : "+r"(a), "+r"(b));
	return (a ^ b) < STACK_SIZE;
}

// Always 0, which the verifier does not know.
__u64 nothing;

// frame_at returns the frame of that number. What follows is the same for each:
// the verifier, which has the number of a turn of a loop, is made to forget it,
// and looks at all that follows once instead of once for each turn.
static __always_inline struct frame *frame_at(void *frames, __u32 i)
{
	__u64 n = i + nothing;

	return n < frame_count ? frames + n * frame_size : 0;
}

// take returns a frame of those at frames for a probe's call whose stack pointer
// is sp. A frame is free when its sp is 0. One that lies deeper on the same
// stack, or just there and is the same probe's, belongs to a call that has
// returned unseen or never will. An interrupt between finding a frame and
// taking it does no harm: its own calls end before we go on.
static __always_inline struct frame *take(void *frames, __u64 sp, __u32 probe)
{
	__u32 size = frame_size, count = frame_count, i;
	struct frame *f;

	for (i = 0; i < count; i++) {
		f = frames + i * size;
		if (f->sp && !(f->sp <= sp && same_stack(f->sp, sp)))
			continue;
		if (f->sp != sp || f->probe == probe)
			break; // no other probe's, of the same call
	}
	f = frame_at(frames, i);
	if (!f)
		return 0;
	f->sp = sp;
	f->probe = probe;
	return f;
}

static __always_inline struct frame *find(void *frames, __u64 sp, __u32 probe)
{
	__u32 size = frame_size, count = frame_count, i;

	for (i = 0; i < count; i++) {
		struct frame *f = frames + i * size;

		if (f->sp == sp && f->probe == probe)
			break;
	}
	return frame_at(frames, i);
}

// ks_take_stored takes a frame in the task's storage.
FUNC struct frame *ks_take_stored(__u64 sp, __u32 probe)
{
	void *thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct frame *f;

	if (!thread) {
		ks_lost(LOST_THREAD);
		return 0;
	}
	overflowed = 1;
	f = take(thread, sp, probe);
	if (!f)
		ks_lost(LOST_DEPTH);
	return f;
}

FUNC struct frame *ks_find_stored(__u64 sp, __u32 probe)
{
	void *thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);

	return thread ? find(thread, sp, probe) : 0;
}

// ks_open takes a frame for the call whose stack pointer is sp.
FUNC struct frame *ks_open(__u64 sp, __u32 probe, __u32 timed)
{
	__u64 task = bpf_get_current_task();
	struct row *row = row_of(task);
	struct frame *f = 0;

	if (row && (row->owner == task || (!row->owner && !__sync_val_compare_and_swap(&row->owner, 0, task))))
		f = take(row + 1, sp, probe);
	if (!f)
		f = ks_take_stored(sp, probe);
	if (!f)
		return 0;
	f->event.faults = 0;
	f->event.entry_time = timed ? bpf_ktime_get_ns() : 0;
	return f;
}

// ks_find returns the frame that ks_open took for this call, if any.
FUNC struct frame *ks_find(__u64 sp, __u32 probe)
{
	__u64 task = bpf_get_current_task();
	struct row *row = row_of(task);
	struct frame *f = 0;

	if (row && row->owner == task)
		f = find(row + 1, sp, probe);
	if (!f && overflowed)
		f = ks_find_stored(sp, probe);
	return f;
}

// A task that is freed gives back its row: what is left in it are calls that
// never returned. It is a raw tracepoint's because there a task is a number.
SEC("raw_tp/sched_process_free")
int process_free(__u64 *ctx)
{
	struct row *row = row_of(ctx[0]);
	__u32 size = frame_size, count = frame_count;

	if (!row || row->owner != ctx[0])
		return 0;
	for (__u32 i = 0; i < count; i++) {
		struct frame *f = (void *)(row + 1) + i * size;

		f->sp = 0;
	}
	row->owner = 0;
	return 0;
}

#endif
