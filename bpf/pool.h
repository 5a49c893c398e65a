/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Where sessions are kept: a pool of as many as may be open at once, all of it
 * there from the beginning, and an index that says which one is a thread's. The
 * storage that the kernel has for tasks gives no block of this size since Linux
 * 6.19 (kmalloc_nolock), and to look there costs several times as much.
 */
#ifndef KSNOOP_POOL_H
#define KSNOOP_POOL_H

// Set before loading.
const volatile __u32 session_count; // in the pool
const volatile __u32 index_shift;   // 32 minus the binary logarithm of the number of buckets

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct session);
} sessions SEC(".maps");

// The first of those in the pool that have been given back, from where each
// leads to the next: 1 + its index, 0 for none, and in the upper half how often
// this has changed, so that nobody takes an old state for the present one.
__u64 free_sessions;

// How many of the pool have ever been taken.
__u32 fresh_sessions;

enum {
	BUCKET_CELLS = 4,
	TRIES = 64, // of a change that others make as well
};

/*
 * A task belongs into one bucket or, if that is full, into another one. There are
 * two for each session of the pool, so that it practically never happens that
 * both are full.
 */
struct bucket {
	__u64 task[BUCKET_CELLS]; // its struct task_struct; 0: free
	__u32 slot[BUCKET_CELLS]; // 1 + index of its session; 0: none yet, or no longer
	__u32 strays;		  // tasks that belong here and are in their other bucket
	__u32 pad[3];
};

// A data section of its own, which is made larger before loading: it is
// addressed without a look-up.
__hidden struct bucket session_index[1] SEC(".data.index");

static __always_inline struct bucket *bucket_at(__u32 hash)
{
	void *all = session_index;
	__u64 i = hash >> index_shift;

	asm volatile("" : "+r"(all)); // or the compiler counts on there being one
	return all + i * sizeof(struct bucket);
}

static __always_inline __u32 hash_of(__u64 task)
{
	return low_half(task) * 0x9E3779B1;
}

// other returns the hash of the other bucket.
static __always_inline __u32 other(__u32 hash)
{
	return hash * 0x85EBCA6B;
}

static __always_inline __u32 slot_in(const struct bucket *b, __u64 task)
{
#pragma unroll
	for (int i = 0; i < BUCKET_CELLS; i++)
		if (b->task[i] == task && b->slot[i]) // an interrupt may have come between the two
			return b->slot[i];
	return 0;
}

static __always_inline struct session *session_at(__u32 slot)
{
	__u32 key = slot - 1;

	return bpf_map_lookup_elem(&sessions, &key);
}

// session_of_task returns the session of a task, NULL if it has none.
static __always_inline struct session *session_of_task(__u64 task)
{
	__u32 hash = hash_of(task), slot;
	struct bucket *b = bucket_at(hash);

	slot = slot_in(b, task);
	if (!slot && b->strays)
		slot = slot_in(bucket_at(other(hash)), task);
	return slot ? session_at(slot) : 0;
}

// take_session takes a session out of the pool.
static __always_inline struct session *take_session(void)
{
	struct session *s;
	__u32 n;

	for (int i = 0; i < TRIES; i++) {
		__u64 head = free_sessions;

		if (!(__u32)head)
			break;
		s = session_at(head);
		if (!s)
			return 0;
		if (__sync_val_compare_and_swap(&free_sessions, head, ((head >> 32) + 1) << 32 | s->next) == head)
			return s;
	}
	if (fresh_sessions >= session_count)
		return 0;
	n = __sync_fetch_and_add(&fresh_sessions, 1) + 1;
	s = session_at(n);
	if (s)
		s->slot = n;
	return s;
}

static __always_inline int give_back(struct session *s)
{
	for (int i = 0; i < TRIES; i++) {
		__u64 head = free_sessions;

		s->next = head;
		if (__sync_val_compare_and_swap(&free_sessions, head, ((head >> 32) + 1) << 32 | s->slot) == head)
			return 0;
	}
	ks_lost(LOST_SESSION); // there will be room for one less
	return 0;
}

// ks_give_back puts a session back into the pool.
FUNC int ks_give_back(struct session *s)
{
	return give_back(s);
}

// enlist takes a cell of a bucket for a task. It returns its number, or
// BUCKET_CELLS if none is free.
static __always_inline __u32 enlist(struct bucket *b, __u64 task)
{
	__u32 i;

	for (i = 0; i < BUCKET_CELLS; i++)
		if (!b->task[i] && !__sync_val_compare_and_swap(&b->task[i], 0, task))
			break;
	return i;
}

// ks_new_session returns a session for the current task, which has none. It is busy:
// an interrupt on top of us that does not count as one yet must not use it.
FUNC struct session *ks_new_session(void)
{
	__u64 task = bpf_get_current_task();
	struct session *s = take_session();
	__u32 hash = hash_of(task), cell;
	struct bucket *b = bucket_at(hash);

	if (!s) {
		ks_lost(LOST_SESSION);
		return 0;
	}
	s->busy = 1;
	s->context = 0;
	s->hash = hash;
	s->stray = 0;
	cell = enlist(b, task);
	if (cell >= BUCKET_CELLS) {
		s->stray = 1;
		__sync_fetch_and_add(&b->strays, 1);
		cell = enlist(bucket_at(other(hash)), task);
		if (cell >= BUCKET_CELLS) {
			__sync_fetch_and_add(&b->strays, -1);
			ks_give_back(s);
			ks_lost(LOST_SESSION);
			return 0;
		}
		b = bucket_at(other(hash));
	}
	s->cell = cell;
	b->slot[cell] = s->slot;
	return s;
}

// ks_release takes a session that has ended out of the index, and gives it back.
FUNC int ks_release(struct session *s)
{
	struct bucket *b = bucket_at(s->stray ? other(s->hash) : s->hash);
	__u32 cell = s->cell % BUCKET_CELLS;

	b->slot[cell] = 0;
	__sync_lock_test_and_set(&b->task[cell], 0); // not before the slot, on any CPU
	if (s->stray)
		__sync_fetch_and_add(&bucket_at(s->hash)->strays, -1);
	return give_back(s); // no call: every session ends here
}

#endif
