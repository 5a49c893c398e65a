/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef KSNOOP_STASH_H
#define KSNOOP_STASH_H

/*
 * The stash: a frame for each call in flight, with what is kept of it until it returns.
 * Programs of calls take a frame at entry, and find and free it at return.
 *
 * The name of a frame is an address in the call's own stack frame, and the probe. For kprobes
 * the address is the stack pointer, for fentry that of the context, which is in the
 * trampoline's stack frame. For uprobes it is made of two: which stack of the kernel the task
 * has, and the stack pointer in user space. Its highest bit is 0, which no address of the
 * kernel has. While the call is in flight, no other call in the system has this address, but for
 * those that a function of the process has jumped to; see jumped. So the name alone leads to the
 * frame, without a helper: each name has a home in one table. If the home is taken, the frame is
 * far away, in one of two groups, which takes longer to find. All frames are allocated before loading; the kernel's
 * task storage gives no large blocks since Linux 6.19.
 *
 * A call may never return, or its return may not be seen. Its frame is stale then: it must
 * not be taken for another call's, and it must become free again.
 *  - Only a later call of the same name, on the same stack, could take a stale frame for
 *    its own. If that call takes a frame, it takes this one (claim_frame). If it is not
 *    wanted but its return program runs, the entry program frees the frame. fentry programs
 *    and those of functions of the process do so; those of kprobes and kprobe.multi do not, as
 *    the documentation says.
 *  - A task that ends frees all frames of its stack (stash_exit). It still runs on that
 *    stack, so no other task can have it, and no call in flight on it returns any more.
 *    Linux 7.3 skips stash_exit on a CPU where another task was preempted in it. Then the
 *    next task that has this stack has stale frames on it, too.
 *  - A call that was deeper on the current stack than the current call is over. Whoever finds
 *    its frame in the way takes it (ended).
 *  - There remain frames of calls whose returns the kernel has skipped, in tasks that live on
 *    and do not call the function again. They only cost room.
 */

// Set before loading.
const volatile __u32 frame_size;  // bytes, of struct frame and the record in it
const volatile __u32 home_mask;	  // number of frames in the table, minus 1
const volatile __u32 group_mask;  // the same of those for one stack, and of a group far away
const volatile __u32 home_shift;  // binary logarithm of STACK_SIZE over the number of frames for one stack
const volatile __u32 far_groups;

// The table. User space enlarges its section before loading.
__hidden struct stash_head stash[1] SEC(".data.stash");

// The frames far away, group by group.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct frame);
} far_frames SEC(".maps");

// low_half returns the low half of an address. The verifier takes it for a number, also if
// the address is a pointer, with which programs must not compute.
static __always_inline __u32 low_half(__u64 address)
{
	__u32 low;

	asm volatile("%0 = %1" : "=w"(low) : "w"((__u32)address));
	return low;
}

static __always_inline struct frame *home_at(__u32 i)
{
	void *all = stash;

	asm volatile("" : "+r"(all)); // else the compiler assumes that there are no frames
	return all + sizeof(struct stash_head) + (__u64)(i & home_mask) * frame_size;
}

// home returns where the frame of a name belongs. The homes of one stack are next to each
// other, which stash_exit needs.
static __always_inline struct frame *home(__u64 sp, __u32 probe)
{
	return home_at((low_half(sp) >> home_shift) ^ (probe & group_mask));
}

enum {
	FAR_CHOICES = 2,
};

// far_index returns which are the two groups for a block of a stack.
static __always_inline __u32 far_index(__u32 block, __u32 choice)
{
	__u32 hash = block * (choice ? 0x85EBCA6B : 0x9E3779B1);

	return (__u64)hash * far_groups >> 32;
}

static __always_inline void *far_group(__u32 index)
{
	return bpf_map_lookup_elem(&far_frames, &index);
}

// frame_at returns frame i of a group. In a loop the verifier knows i and would explore what
// follows once for each turn. Adding nothing makes the index unknown, so that the turns are
// alike to the verifier, and it explores one.
static __always_inline struct frame *frame_at(void *group, __u32 i)
{
	return group + ((i + nothing) & group_mask) * frame_size;
}

// number returns an address as a number: programs may compute with it.
static __always_inline __u64 number(__u64 address)
{
	__u64 n = 0, stored = address;

	bpf_probe_read_kernel(&n, sizeof(n), &stored);
	return n;
}

// own_address returns sp if it is on the current task's stack, else 0: stacks of interrupts
// may share a block of STACK_SIZE, so nothing follows from the order of their addresses.
static __always_inline __u64 own_address(__u64 sp)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 stack = 0;

	bpf_probe_read_kernel(&stack, sizeof(stack), &task->stack);
	return sp - stack < STACK_SIZE ? sp : 0;
}

// is_zero returns 1 for 0, else 0. It has no branch, like what is computed from it: in a loop
// the verifier would explore both sides in each turn.
static __always_inline __u64 is_zero(__u64 x)
{
	__u64 minus = -x;

	asm volatile("" : "+r"(minus)); // else the compiler makes a branch of it
	return ~(x | minus) >> 63;
}

// ours returns 1 if a frame, of which was is the address, has the name sp and probe.
static __always_inline __u64 ours(const struct frame *f, __u64 was, __u64 sp, __u32 probe)
{
	return is_zero((was ^ sp) | (f->probe ^ probe));
}

// ended returns 1 if the call of a frame, at was, must be over, since a call at own is made
// on the same stack. own is 0 if it is not known.
static __always_inline __u64 ended(__u64 was, __u64 own)
{
	return is_zero((was ^ own) / STACK_SIZE) & (was - own) >> 63;
}

// ended_user is ended for names of functions of the process, of which own is that of the current call. A call of the same
// thread with a lower stack pointer is over, as the kernel has it (arch_uretprobe_is_alive), unless that is so far away that
// it may be on another stack: names have 31 bits of stack pointers.
static __always_inline __u64 ended_user(__u64 was, __u64 own)
{
	__u64 distance = ((own >> 32) - (was >> 32)) & 0x7fffffff; // in words

	return is_zero((__u32)(was ^ own) / STACK_SIZE) & is_zero((distance - 1) / (USER_STACK / 8)) & is_zero(was >> 63);
}

// swap takes a frame if its address is still was. An interrupt between reading and taking it
// does no harm: the calls of the interrupt end before this program goes on.
static __always_inline bool swap(struct frame *f, __u64 was, __u64 sp)
{
	return __sync_val_compare_and_swap(&f->sp, was, sp) == was;
}

// claim_home takes the frame at home if it is free, or stale and of the same name.
static __always_inline bool claim_home(struct frame *f, __u64 sp, __u32 probe)
{
	__u64 was = f->sp;

	return was ? was == sp && f->probe == probe : swap(f, 0, sp);
}

// claim_frame takes any frame if it is free or stale. own is where the current call is: for ended_user if it is the process's,
// else for ended.
static __always_inline bool claim_frame(struct frame *f, __u64 sp, __u32 probe, __u64 own, bool user)
{
	__u64 was = f->sp;

	return (is_zero(was) | ours(f, was, sp, probe) | (user ? ended_user(was, own) : ended(was, own))) && swap(f, was, sp);
}

// A place of a frame that is far away: the index of its group above 32 bits, its own below. Where
// functions return this and not a pointer, the verifier checks them by themselves (see alone in
// subprogram.go): to follow the search at each call was most of the work of loading a program.
static __always_inline __s64 far_place(__u32 group, __u32 i) { return (__u64)group << 32 | i; }

static __always_inline struct frame *frame_of(__s64 place)
{
	void *group = place < 0 ? 0 : far_group((__u64)place >> 32);

	return group ? frame_at(group, place) : 0;
}

// claim_far takes a frame of the two groups, and returns its place; -1 if there is none.
static __always_inline __s64 claim_far(__u64 sp, __u32 probe, __u64 own, bool user)
{
	__u32 block = (__u32)sp / STACK_SIZE, count = group_mask + 1, i;

	for (__u32 choice = 0; choice < FAR_CHOICES; choice++) {
		__u32 index = far_index(block, choice);
		void *group = far_group(index);

		if (!group)
			break;
		for (i = 0; i < count; i++)
			if (claim_frame(frame_at(group, i), sp, probe, own, user))
				return far_place(index, i);
	}
	return -1;
}

FUNC __s64 ks_claim_far(__u64 sp, __u32 probe, __u64 own)
{
	return claim_far(sp, probe, own, false);
}

FUNC __s64 ks_claim_far_user(__u64 key, __u32 probe)
{
	return claim_far(key, probe, key, true);
}

// far_frame is the frame at a place far away, NULL if that is none, which is counted.
static __always_inline struct frame *far_frame(__s64 place, __u32 probe)
{
	struct frame *f = frame_of(place);

	if (!f) {
		ks_lost(LOST_STASH);
		return 0;
	}
	if (!f->far) {
		f->far = 1;
		__sync_fetch_and_add(&stash->far, 1);
	}
	f->probe = probe;
	return f;
}

// ks_open_far tries home again, now also for a stale frame, and then the two groups.
FUNC struct frame *ks_open_far(__u64 address, __u32 probe)
{
	__u64 sp = number(address), own = own_address(sp);
	struct frame *f = home(sp, probe);

	if (claim_frame(f, sp, probe, own, false)) {
		f->probe = probe;
		return f;
	}
	return far_frame(ks_claim_far(sp, probe, own), probe);
}

// ks_seek_far returns the place of a frame in the two groups; -1 if it is in none.
FUNC __s64 ks_seek_far(__u64 sp, __u32 probe)
{
	__u32 block = (__u32)sp / STACK_SIZE, count = group_mask + 1, i;

	for (__u32 choice = 0; choice < FAR_CHOICES; choice++) {
		__u32 index = far_index(block, choice);
		void *group = far_group(index);

		if (!group)
			break;
		for (i = 0; i < count; i++) {
			struct frame *f = frame_at(group, i);

			if (ours(f, f->sp, sp, probe))
				return far_place(index, i);
		}
	}
	return -1;
}

// ks_find_far looks through the two groups.
FUNC struct frame *ks_find_far(__u64 address, __u32 probe)
{
	if (!stash->far)
		return 0;
	return frame_of(ks_seek_far(number(address), probe));
}

// ks_free frees a frame. The exchange is a full barrier: no CPU sees the frame free before
// the other stores to it.
FUNC int ks_free(struct frame *f)
{
	if (f->far) {
		f->far = 0;
		__sync_fetch_and_add(&stash->far, -1);
	}
	__sync_lock_test_and_set(&f->sp, 0);
	return 0;
}

// ks_open tries the frame at home, and then ks_open_far.
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

// ks_find looks at home, and then calls ks_find_far.
FUNC struct frame *ks_find(__u64 sp, __u32 probe)
{
	struct frame *f = home(sp, probe);

	return f->sp == sp && f->probe == probe ? f : ks_find_far(sp, probe);
}

// ks_forget frees the stale frame of a name, if there is one.
FUNC int ks_forget(__u64 sp, __u32 probe)
{
	struct frame *f = ks_find(sp, probe);

	return f ? ks_free(f) : 0;
}

// Calls of one function of the process that were reached by jumps share their stack pointer, and so their name, key. The
// first one's frame has that name, the others' have what jumped returns for 1, 2 and so on. Both halves of a key
// tell the stack pointer's low bits (userKey in codegen): in no other call's name do they tell different ones, as in these.
static __always_inline __u64 jumped(__u64 key, __u32 jumps)
{
	return key ^ jumps % USER_DEPTH * (STACK_SIZE / USER_DEPTH);
}

// earlier returns the frame of the first of the calls of one name that are in flight, NULL if it has none or there are no
// such calls. Then a frame of that name is that of a call that longjmp has ended, and is freed.
static __always_inline struct frame *earlier(__u64 key, __u32 probe, void *ctx, __u64 user_sp)
{
	struct frame *f = ks_find(key, probe);

	if (!f || jumped_from(ctx, user_sp))
		return f;
	ks_free(f);
	return 0;
}

// open_user is ks_open for the name of a call of the process.
static __always_inline struct frame *open_user(__u64 key, __u32 probe, __u32 timed)
{
	struct frame *f = home(key, probe);

	if (claim_frame(f, key, probe, key, true))
		f->probe = probe;
	else
		f = far_frame(ks_claim_far_user(key, probe), probe);
	if (!f)
		return 0;
	f->jumps = 0;
	f->event.faults = 0;
	f->event.entry_time = timed ? bpf_ktime_get_ns() : 0;
	return f;
}

// ks_open_user takes a frame for a call that is the last one of its name.
FUNC struct frame *ks_open_user(__u64 key, __u32 probe, __u32 timed, void *ctx, __u64 user_sp)
{
	struct frame *first = earlier(key, probe, ctx, user_sp), *f;
	__u32 jumps = first ? first->jumps + 1 : 0;

	if (return_unseen()) {
		ks_count(UNSEEN_RETURN);
		return 0;
	}
	if (jumps)
		ks_forget(jumped(key, jumps), probe); // of a call that longjmp has ended
	f = open_user(jumped(key, jumps), probe, timed);
	if (f && first)
		first->jumps = jumps;
	return f;
}

// ks_forget_user frees the frame of a call that is over.
FUNC int ks_forget_user(__u64 key, __u32 probe, void *ctx, __u64 user_sp)
{
	return !!earlier(key, probe, ctx, user_sp);
}

// ks_find_user finds the frame of the last call of a name.
FUNC struct frame *ks_find_user(__u64 key, __u32 probe)
{
	struct frame *f = ks_find(key, probe);
	__u32 jumps;

	if (!f || !f->jumps)
		return f;
	jumps = f->jumps--;
	return ks_find(jumped(key, jumps), probe);
}

// free_of_block frees a frame if its address is in a block of a stack, or is made of it: user code
// often does not return before its task ends.
static __always_inline void free_of_block(struct frame *f, __u64 block)
{
	__u64 sp = f->sp;

	if (sp - block < STACK_SIZE || (sp && !(sp >> 63) && (__u32)(sp - block) < STACK_SIZE))
		ks_free(f);
}

// stash_exit frees the frames that are left of a stack when its task ends. It looks at one
// block of STACK_SIZE: all of the stack or, if that is larger, where the outermost calls are.
SEC("raw_tp/sched_process_exit")
int stash_exit(__u64 *ctx)
{
	__u64 block = number((__u64)ctx) & ~(STACK_SIZE - 1ULL);
	__u32 count = group_mask + 1;

	forget_path(block);
	for (__u32 i = 0; i < count; i++)
		free_of_block(home_at(((__u32)block >> home_shift) + i), block);
	if (!stash->far)
		return 0;
	for (__u32 choice = 0; choice < FAR_CHOICES; choice++) {
		void *group = far_group(far_index((__u32)block / STACK_SIZE, choice));

		if (!group)
			return 0;
		for (__u32 i = 0; i < count; i++)
			free_of_block(frame_at(group, i), block);
	}
	return 0;
}

#endif
