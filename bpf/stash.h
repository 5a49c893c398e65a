/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef KSNOOP_STASH_H
#define KSNOOP_STASH_H

/*
 * The stash: what is kept of calls in flight until they return, a frame for each.
 *
 * A frame is named by an address that lies in the call's own stack frame (of
 * kprobes the stack pointer, of fentry the context, which is a part of the
 * trampoline's frame) and by the probe. While the call is in flight no other
 * call in the system has that address. So a frame is found from it alone, with
 * no helper: each such name has its home in one table. Where another call has
 * that home, the frame is one of those far away, in one of two groups, which
 * takes longer. Both kinds are there from the beginning; the storage that the
 * kernel has for tasks gives no large blocks since Linux 6.19.
 *
 * A call may never return, or its return may not be seen: its frame is stale
 * then. It must not be taken for another call's, and must be given back.
 *  - A stale frame can only be taken for that of a later call with the same name,
 *    when both have the same stack. If that call takes a frame, it takes this one
 *    (claim_frame). If its entry program finds it not wanted, and its return program
 *    would still run, the entry program gives the frame back (of fentry; kprobes
 *    and kprobe.multi do not: docs say so).
 *  - A task that ends gives back all frames of its stack (stash_exit): it does
 *    so on that stack, hence no other task can have it yet, and no call that is
 *    in flight there will return any more.
 *  - A frame whose call lay deeper on our own stack than we are belongs to a call
 *    that is over. Who finds its home taken so takes it (ended).
 *  - What is left are frames of calls whose return the kernel has skipped, in tasks
 *    that live and call nothing of the same name. They cost room, and nothing else.
 */

// Set before loading. The verifier sees their values and drops what they
// switch off.
const volatile __u32 frame_size;  // bytes, of struct frame and the record in it
const volatile __u32 home_mask;	  // number of frames in the table, minus 1
const volatile __u32 group_mask;  // the same of those for one stack, and of a group far away
const volatile __u32 home_shift;  // binary logarithm of STACK_SIZE over the number of frames for one stack
const volatile __u32 far_groups;

// A data section of its own, which is made larger before loading.
__hidden struct stash_head stash[1] SEC(".data.stash");

// Groups of frames far away.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct frame);
} far_frames SEC(".maps");

// low_half is a number to the verifier even where the address is a pointer, of
// which nothing else may be computed.
static __always_inline __u32 low_half(__u64 address)
{
	__u32 low = address;

	asm volatile("" : "+w"(low));
	return low;
}

static __always_inline struct frame *home_at(__u32 i)
{
	void *all = stash;

	asm volatile("" : "+r"(all)); // or the compiler counts on there being no frames
	return all + sizeof(struct stash_head) + (__u64)(i & home_mask) * frame_size;
}

// home returns the place of a frame. All of one stack have theirs next to each
// other: stash_exit counts on it.
static __always_inline struct frame *home(__u64 sp, __u32 probe)
{
	return home_at((low_half(sp) >> home_shift) ^ (probe & group_mask));
}

enum {
	FAR_CHOICES = 2,
};

static __always_inline void *far_group(__u32 block, __u32 choice)
{
	__u32 hash = block * (choice ? 0x85EBCA6B : 0x9E3779B1);
	__u32 i = (__u64)hash * far_groups >> 32;

	return bpf_map_lookup_elem(&far_frames, &i);
}

// Always 0, which the verifier does not know.
volatile __u64 nothing;

// frame_at returns the frame of that number of a group. What is done with it is the
// same for each: the verifier, which has the number of a turn of a loop, is made to
// forget it, and looks at that once instead of once for each turn. So the number
// is computed anew in each turn, and nothing is learnt of it by a comparison.
static __always_inline struct frame *frame_at(void *group, __u32 i)
{
	return group + ((i + nothing) & group_mask) * frame_size;
}

// number returns an address as a number, with which the verifier lets us compute.
static __always_inline __u64 number(__u64 address)
{
	__u64 n = 0, stored = address;

	bpf_probe_read_kernel(&n, sizeof(n), &stored);
	return n;
}

// own_address returns an address if it lies on the current task's stack, else 0: an
// interrupt's, of which several may share a block of STACK_SIZE.
static __always_inline __u64 own_address(__u64 sp)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 stack = 0;

	bpf_probe_read_kernel(&stack, sizeof(stack), &task->stack);
	return sp - stack < STACK_SIZE ? sp : 0;
}

// is_zero is 1 for 0 and 0 for all else. Like what is computed from it, it has no
// branch: in a loop the verifier would follow both sides of it, each turn anew.
static __always_inline __u64 is_zero(__u64 x)
{
	__u64 minus = -x;

	asm volatile("" : "+r"(minus)); // or the compiler makes a branch of it
	return ~(x | minus) >> 63;
}

// ours is 1 if the frame is that of this call and probe.
static __always_inline __u64 ours(const struct frame *f, __u64 was, __u64 sp, __u32 probe)
{
	return is_zero((was ^ sp) | (f->probe ^ probe));
}

// ended is 1 if the frame of one call shows that this call is over now that
// another one is made at own, on the same stack; own may be 0, for not known.
static __always_inline __u64 ended(__u64 was, __u64 own)
{
	return is_zero((was ^ own) / STACK_SIZE) & (was - own) >> 63;
}

// swap takes the frame if it is still as it was. An interrupt between looking at
// a frame and taking it does no harm: its own calls end before we go on.
static __always_inline bool swap(struct frame *f, __u64 was, __u64 sp)
{
	return __sync_val_compare_and_swap(&f->sp, was, sp) == was;
}

// claim_home takes a frame if it is free, or stale and of the same name.
static __always_inline bool claim_home(struct frame *f, __u64 sp, __u32 probe)
{
	__u64 was = f->sp;

	return was ? was == sp && f->probe == probe : swap(f, 0, sp);
}

// claim_frame takes a frame if it is free or stale.
static __always_inline bool claim_frame(struct frame *f, __u64 sp, __u32 probe, __u64 own)
{
	__u64 was = f->sp;

	return (is_zero(was) | ours(f, was, sp, probe) | ended(was, own)) && swap(f, was, sp);
}

// ks_open_far takes a frame for a call whose home is taken.
FUNC struct frame *ks_open_far(__u64 address, __u32 probe)
{
	__u64 sp = number(address), own = own_address(sp);
	__u32 block = (__u32)sp / STACK_SIZE, count = group_mask + 1, i;
	struct frame *f = home(sp, probe);

	if (claim_frame(f, sp, probe, own)) {
		f->probe = probe;
		return f;
	}
	for (__u32 choice = 0; choice < FAR_CHOICES; choice++) {
		void *group = far_group(block, choice);

		if (!group)
			break;
		for (i = 0; i < count; i++) {
			f = frame_at(group, i);
			if (claim_frame(f, sp, probe, own))
				break;
		}
		if (i == count)
			continue;
		if (!f->far) {
			f->far = 1;
			__sync_fetch_and_add(&stash->far, 1);
		}
		f->probe = probe;
		return f;
	}
	ks_lost(LOST_STASH);
	return 0;
}

// ks_find_far returns the frame that ks_open_far took far away for this call, if any.
FUNC struct frame *ks_find_far(__u64 address, __u32 probe)
{
	__u32 block = low_half(address) / STACK_SIZE, count = group_mask + 1, i;
	__u64 sp;

	if (!stash->far)
		return 0;
	sp = number(address);
	for (__u32 choice = 0; choice < FAR_CHOICES; choice++) {
		void *group = far_group(block, choice);

		if (!group)
			return 0;
		for (i = 0; i < count; i++) {
			struct frame *f = frame_at(group, i);

			if (ours(f, f->sp, sp, probe))
				return f;
		}
	}
	return 0;
}

// ks_free gives a frame back. Nobody is to see it free before all else that was
// written to it, on any CPU.
FUNC int ks_free(struct frame *f)
{
	if (f->far) {
		f->far = 0;
		__sync_fetch_and_add(&stash->far, -1);
	}
	__sync_lock_test_and_set(&f->sp, 0);
	return 0;
}

// ks_open takes a frame for the call that sp and the probe name.
FUNC struct frame *ks_open(__u64 sp, __u32 probe, __u32 timed)
{
	struct frame *f = home(sp, probe);

	if (claim_home(f, sp, probe))
		f->probe = probe;
	else
		f = ks_open_far(sp, probe);
	if (!f)
		return 0;
	f->event.faults = 0;
	f->event.entry_time = timed ? bpf_ktime_get_ns() : 0;
	return f;
}

// ks_find returns the frame that ks_open took for this call, if any.
FUNC struct frame *ks_find(__u64 sp, __u32 probe)
{
	struct frame *f = home(sp, probe);

	return f->sp == sp && f->probe == probe ? f : ks_find_far(sp, probe);
}

// ks_forget gives back the frame of a call that has had the same name and has
// returned unseen, if there is one.
FUNC int ks_forget(__u64 sp, __u32 probe)
{
	struct frame *f = ks_find(sp, probe);

	return f ? ks_free(f) : 0;
}

// free_of_block gives a frame back if its call is one of a block of a stack.
static __always_inline void free_of_block(struct frame *f, __u64 block)
{
	if (f->sp - block < STACK_SIZE)
		ks_free(f);
}

// A task that ends gives back what is left of its stack. There is one block of
// it, or that is the one in which all outermost calls are.
SEC("raw_tp/sched_process_exit")
int stash_exit(__u64 *ctx)
{
	__u64 block = number((__u64)ctx) & ~(STACK_SIZE - 1ULL);
	__u32 count = group_mask + 1;

	for (__u32 i = 0; i < count; i++)
		free_of_block(home_at(((__u32)block >> home_shift) + i), block);
	if (!stash->far)
		return 0;
	for (__u32 choice = 0; choice < FAR_CHOICES; choice++) {
		void *group = far_group((__u32)block / STACK_SIZE, choice);

		if (!group)
			return 0;
		for (__u32 i = 0; i < count; i++)
			free_of_block(frame_at(group, i), block);
	}
	return 0;
}

#endif
