/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The pool of sessions, one for each that may be open at once, and the index, which says
 * which session is a thread's. Both are allocated before loading. The kernel's task storage
 * gives no blocks of this size since Linux 6.19 (kmalloc_nolock), and a look-up in it
 * costs several times as much.
 */
#ifndef KSNOOP_POOL_H
#define KSNOOP_POOL_H

// Set before loading.
const volatile __u32 session_count; // in the pool
const volatile __u32 index_shift;   // 32 minus the binary logarithm of the number of buckets

// Behind the pool are the sessions of interrupts: two for each CPU, one of soft and one of hard interrupts, since
// a hard one can interrupt a soft one. In a map of their own the verifier would follow what is done with a session twice.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct session);
} sessions SEC(".maps");

// The list of free sessions. The lower half is 1 + the index of the first one, 0 for none;
// session.next leads on. The upper half counts changes, so that a compare-and-swap does not
// mistake a later state for the one it has read (ABA).
__u64 free_sessions;

// How many sessions of the pool have ever been taken. The others are not on the list yet.
__u32 fresh_sessions;

enum {
	BUCKET_CELLS = 4,
	TRIES = 64, // of a compare-and-swap, while other CPUs change the same word
};

/*
 * A task is in one of two buckets: its own or, if that is full, the other one. There are
 * two buckets for each session of the pool, so both are hardly ever full.
 */
struct bucket {
	__u64 task[BUCKET_CELLS]; // its struct task_struct; 0: free
	__u32 slot[BUCKET_CELLS]; // 1 + index of its session; 0: none yet, or no longer
	__u32 strays;		  // how many tasks whose own bucket this is are in their other one
	__u32 pad[3];
};

// The index. User space enlarges its section before loading. Unlike a map, a section needs no
// look-up.
__hidden struct bucket session_index[1] SEC(".data.index");

static __always_inline struct bucket *bucket_at(__u32 hash)
{
	void *all = session_index;
	__u64 i = hash >> index_shift;

	asm volatile("" : "+r"(all)); // else the compiler assumes that the index is 0
	return all + i * sizeof(struct bucket);
}

// hash_of returns the hash of a task, whose upper bits are the number of its own bucket.
static __always_inline __u32 hash_of(__u64 task)
{
	return low_half(task) * 0x9E3779B1;
}

// other returns the hash for the other bucket.
static __always_inline __u32 other(__u32 hash)
{
	return hash * 0x85EBCA6B;
}

// slot_in returns the slot of a task in a bucket, 0 if it is not there.
static __always_inline __u32 slot_in(const struct bucket *b, __u64 task)
{
#pragma unroll
	for (int i = 0; i < BUCKET_CELLS; i++)
		if (b->task[i] == task && b->slot[i]) // an interrupt can come between setting the two
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

// take takes s, the first session, off the list. head is what free_sessions was; if another CPU has changed that, take
// returns false.
static __always_inline bool take(struct session *s, __u64 head)
{
	return __sync_val_compare_and_swap(&free_sessions, head, ((head >> 32) + 1) << 32 | s->next) == head;
}

static __noinline long ks_try_take(__u32 i, __u32 *slot)
{
	__u64 head = free_sessions;
	struct session *s = (__u32)head ? session_at(head) : 0;

	if (s && !take(s, head))
		return 0;
	*slot = s ? head : 0;
	return 1;
}

// ks_take_again is for when another CPU has changed the list. It returns the slot of a session, 0 if there is none. The
// verifier checks it by itself (see alone in subprogram.go), like ks_put_again, and checks the body of its loop once.
FUNC __u32 ks_take_again(void)
{
	__u32 slot = 0;

	bpf_loop(TRIES, ks_try_take, &slot, 0);
	return slot;
}

// take_session takes a session out of the pool; NULL if there is none.
static __always_inline struct session *take_session(void)
{
	__u64 head = free_sessions;
	struct session *s;
	__u32 n;

	if ((__u32)head) {
		s = session_at(head);
		if (!s)
			return 0;
		if (take(s, head))
			return s;
		n = ks_take_again();
		if (n)
			return session_at(n);
	}
	if (fresh_sessions >= session_count)
		return 0;
	n = __sync_fetch_and_add(&fresh_sessions, 1) + 1;
	if (n > session_count) // another CPU has taken the last one; behind it are those of interrupts
		return 0;
	s = session_at(n);
	if (s)
		s->slot = n;
	return s;
}

// put puts a session in front of the list. It returns false if another CPU has changed the list.
static __always_inline bool put(struct session *s)
{
	__u64 head = free_sessions;

	s->next = head;
	return __sync_val_compare_and_swap(&free_sessions, head, ((head >> 32) + 1) << 32 | s->slot) == head;
}

static __noinline long ks_try_put(__u32 i, __u32 *slot)
{
	struct session *s = session_at(*slot);

	if (s && !put(s))
		return 0;
	*slot = 0;
	return 1;
}

// ks_put_again is for when another CPU has changed the list.
FUNC int ks_put_again(__u32 slot)
{
	bpf_loop(TRIES, ks_try_put, &slot, 0);
	if (slot)
		ks_lost(LOST_SESSION); // from now on there is room for one session less
	return 0;
}

// give_back puts a session back into the pool.
static __always_inline int give_back(struct session *s)
{
	return put(s) ? 0 : ks_put_again(s->slot);
}

// enlist takes a cell of a bucket for a task. It returns the cell's number, BUCKET_CELLS if
// none is free.
static __always_inline __u32 enlist(struct bucket *b, __u64 task)
{
	__u32 i;

	for (i = 0; i < BUCKET_CELLS; i++)
		if (!b->task[i] && !__sync_val_compare_and_swap(&b->task[i], 0, task))
			break;
	return i;
}

// ks_new_session returns a session for the current task, which has none. It is busy from the
// beginning: an interrupt that the preemption count does not show yet must not use it.
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
			give_back(s);
			ks_lost(LOST_SESSION);
			return 0;
		}
		b = bucket_at(other(hash));
	}
	s->cell = cell;
	b->slot[cell] = s->slot;
	return s;
}

// ks_release takes a session that has ended out of the index and gives it back to the pool.
FUNC int ks_release(struct session *s)
{
	struct bucket *b = bucket_at(s->stray ? other(s->hash) : s->hash);
	__u32 cell = s->cell % BUCKET_CELLS;

	b->slot[cell] = 0;
	__sync_lock_test_and_set(&b->task[cell], 0); // a full barrier: no CPU sees this before the slot
	if (s->stray)
		__sync_fetch_and_add(&bucket_at(s->hash)->strays, -1);
	return give_back(s);
}

#endif
