/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Tables of aggregations: calls that are added up instead of being sent. A table has a shard
 * for each CPU (or for several, if that took too much memory), so that CPUs do not share cache
 * lines. A shard is an open hash table of places; a place has a key and a row, the words that
 * calls are added to. A table without a key has one place.
 *
 * All tables are in one data section, which user space maps, and twice: in two halves of equal
 * layout. rows_half is the number of the half that programs use. To print and clear, user
 * space sets it to the other one, waits until all programs that have seen the old value
 * are over (an RCU grace period), and then has the first half to itself. No call is lost.
 *
 * Programs of interrupts, and tasks that preempt others, change the same shard. So all additions
 * are atomic. A place is taken by an exchange; a program that meets one that is just being
 * filled passes by, and may so take a second place for the same key. User space adds up
 * places of equal keys anyway, those of other CPUs.
 */
#ifndef KSNOOP_SUMMARY_H
#define KSNOOP_SUMMARY_H

// Set before loading: the tables, the size of a half in bytes, and the number of shards of each
// table less 1, a power of two less 1.
const volatile struct table tables[TABLES];
const volatile __u32 half_size;
const volatile __u32 shard_mask;

// Set before loading: the number of kept stacks less 1, a power of two less 1.
const volatile __u32 stack_mask;

// The half in use, 0 or 1. No variable that programs write shares its cache line.
volatile __u32 rows_half SEC(".data.half");

// The tables. User space enlarges the section.
__hidden struct table_shard rows[1] SEC(".data.rows");

// The stacks that keys name by their number, shared by all tables. They are never freed.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct kept_stack);
} stacks SEC(".maps");

enum {
	PLACES_TRIED = 16, /* for one key */
	PLACE_FILLING = 1, /* state of a place or a kept stack; larger ones are hashes of its key */
	HASH_USED = 2, /* a bit of all hashes */
	STACK_AT_ONCE = 4, /* divides KEPT_STACK_MAX + 1 */
};

static __always_inline __u32 mix(__u32 hash, __u64 word)
{
	__u64 x = (word ^ hash) * 0x9E3779B97F4A7C15ull;

	return x >> 32;
}

// masked is x & mask in 64 bits. The compiler would take 32, of whose result Linux 6.1 knows no lower bound.
static __always_inline __u64 masked(__u64 x, __u64 mask)
{
	asm volatile("" : "+r"(mask));
	return x & mask;
}

// shard_of returns this CPU's shard of a table.
static __always_inline struct table_shard *shard_of(const volatile struct table *t)
{
	void *all = rows;
	__u64 cpu = masked(bpf_get_smp_processor_id(), shard_mask);

	asm volatile("" : "+r"(all)); // else the compiler assumes that the index is 0
	return all + (__u64)(rows_half & 1) * half_size + t->offset + cpu * t->shard;
}

// ks_row returns the row of a key.
FUNC __u64 *ks_row(__u64 *key, __u32 number)
{
	const volatile struct table *t = &tables[number];
	struct table_shard *shard = shard_of(t);
	__u32 words = t->key_words, hash = nothing, i, j;
	__u64 at;

	for (i = 0; i < words; i++)
		hash = mix(hash, key[i]);
	hash |= HASH_USED;
	// The highest bits depend on all bits of a key, the lowest ones not on the highest of a key's words.
	at = (__u64)hash >> t->place_shift;
	for (i = 0; i < PLACES_TRIED; at += ++i) {
		struct table_place *p = (void *)shard->places + masked(at, t->place_mask) * t->place;
		__u64 *have = p->words;
		__u32 state = p->state;

		if (!state) {
			if (shard->used >= t->keys)
				break;
			if (__sync_val_compare_and_swap(&p->state, 0, PLACE_FILLING))
				continue; // a program on top of this one has taken it
			__sync_fetch_and_add(&shard->used, 1);
			for (j = 0; j < words; j++)
				have[j] = key[j];
			__sync_lock_test_and_set(&p->state, hash);
			return have + words;
		}
		if (state != hash)
			continue;
		for (j = 0; j < words; j++)
			if (have[j] != key[j])
				goto other;
		return have + words;
	other:;
	}
	ks_count(LOST_KEY);
	return 0;
}

// ks_raise sets a word to x if that is more. Each turn of the loop that fails is one in which a
// program on top of this one has raised it.
FUNC int ks_raise(__u64 *word, __u64 x)
{
	__u64 have = *word;

	for (int i = 0; i < RAISE_TRIES && have < x; i++) {
		__u64 was = __sync_val_compare_and_swap(word, have, x);

		if (was == have)
			return 0;
		have = was;
	}
	if (have < x)
		ks_count(LOST_ROW);
	return 0;
}

// lesser returns the lesser of two numbers below 2^63. It has no branch, of which the verifier would
// follow both sides in each turn of a loop.
static __always_inline __u64 lesser(__u64 a, __u64 b)
{
	__s64 difference = b - a, sign = difference >> 63;

	asm volatile("" : "+r"(sign)); // else the compiler makes a branch of it
	return a + (difference & sign);
}

enum {
	CANDIDATE_BITS = 8, /* of the index of a candidate */
	CANDIDATES_HELD = 1 << 31,
};

// ks_observe adds x to the candidates of a row of top(). The place is held meanwhile: a program on
// top of this one leaves its call out.
FUNC int ks_observe(__u64 *row, __u64 x, __u32 candidates, __u32 key_words)
{
	struct table_place *place = (void *)(row - key_words) - sizeof(*place);
	struct candidate *all = (void *)row, *c;
	__u64 least = ~0ull >> 1; // how often a candidate was seen, above its index

	if (__sync_val_compare_and_swap(&place->busy, 0, CANDIDATES_HELD)) {
		ks_count(LOST_ROW);
		return 0;
	}
	for (__u32 i = 0; i < candidates; i++) {
		c = &all[(i + nothing) & (candidates - 1)];
		if (c->value == x && c->count) {
			c->count++;
			goto done;
		}
		least = lesser(least, *(volatile __u64 *)&c->count << CANDIDATE_BITS | i);
	}
	// By way of memory: else the verifier would follow what comes next for each pair of turns.
	place->busy = CANDIDATES_HELD | (__u32)least;
	c = &all[*(volatile __u32 *)&place->busy & (candidates - 1)];
	c->value = x;
	c->error = c->count;
	c->count++;
done:
	__sync_lock_test_and_set(&place->busy, 0);
	return 0;
}

// hash_stack returns the hash of a stack. It takes STACK_AT_ONCE addresses in a turn: behind the last one the
// kernel has cleared the buffer.
static __always_inline __u64 hash_stack(const __u64 *address, __u32 count, __u32 tgid)
{
	const __u64 factor = 0x9E3779B97F4A7C15ull;
	__u64 hash = tgid;

	for (__u32 i = 0; i < KEPT_STACK_MAX && i < count; i += STACK_AT_ONCE) {
		hash = (hash ^ address[i]) * factor;
		hash = (hash ^ address[i + 1]) * factor;
		hash = (hash ^ address[i + 2]) * factor;
		hash = (hash ^ address[i + 3]) * factor;
		hash ^= hash >> 32; // else no high bit would change a lower one
	}
	return hash | HASH_USED;
}

// ks_new_stack returns the number of a stack that is not in the first place for its hash, and keeps it if it
// is new; 0 if there is no room, which is counted.
FUNC __u32 ks_new_stack(__u64 *address, __u64 hash, __u32 count, __u32 tgid)
{
	for (__u32 i = 0; i < PLACES_TRIED; i++) {
		__u32 at = ((hash >> 32) + i + nothing) & stack_mask;
		struct kept_stack *k = bpf_map_lookup_elem(&stacks, &at);

		if (!k)
			break;
		if (!k->hash) {
			if (__sync_val_compare_and_swap(&k->hash, 0, PLACE_FILLING))
				continue;
			k->tgid = tgid;
			k->count = count;
			if (tgid) { // by its name it is known later whether the process still runs the same program
				k->tid = bpf_get_current_pid_tgid();
				bpf_get_current_comm(k->comm, COMM_LEN);
			}
			bpf_probe_read_kernel(k->address, count * sizeof(*address) & (KEPT_STACK_BYTES - 1), address);
			__sync_lock_test_and_set(&k->hash, hash);
			return at + 1;
		}
		if (k->hash == hash && k->count == count && k->tgid == tgid)
			return at + 1;
	}
	ks_count(LOST_KEPT_STACK);
	return 0;
}

// stack_number returns the number of a stack, or 0. Stacks whose hashes of 64 bits and lengths are equal
// count as equal: to compare all addresses would cost more than to take the stack, and the verifier would
// follow each of the comparisons.
static __always_inline __u32 stack_number(__u64 *address, volatile __u64 *kept_count, __u32 tgid)
{
	__u64 hash = hash_stack(address, *kept_count, tgid);
	__u32 count = *kept_count; // the verifier would follow what comes next once for each value
	__u32 at = (hash >> 32) & stack_mask;
	struct kept_stack *k = bpf_map_lookup_elem(&stacks, &at);

	if (k && k->hash == hash && k->count == count && k->tgid == tgid)
		return at + 1;
	return ks_new_stack(address, hash, count, tgid);
}

// ks_key_comm stores the name of the current task. What lies behind its end is stored too, which user
// space clears: the helper for names costs more than all else of a key.
FUNC int ks_key_comm(__u64 *to)
{
	struct name *comm;

	if (untyped)
		return bpf_get_current_comm(to, COMM_LEN);
	comm = (void *)bpf_get_current_task_btf()->comm;
	to[0] = comm->low;
	to[1] = comm->high;
	return 0;
}

// ks_stack_buffer returns a buffer for a stack. The program itself takes the stack: each function of BPF
// that is called makes it longer to walk.
FUNC __u64 *ks_stack_buffer(void)
{
	struct scratch *s = claim();

	return s ? (__u64 *)s->tail : 0;
}

// ks_keep_stack gives the buffer back.
FUNC __u32 ks_keep_stack(__u64 *address, __s64 size, __u32 user)
{
	struct scratch *s = (void *)address - sizeof(*s);
	__u32 number = 0, tgid = user ? bpf_get_current_pid_tgid() >> 32 : 0;

	if (size > 0) {
		s->event.entry_time = size / sizeof(*address);
		address[KEPT_STACK_MAX] = 0; // for the hash: the kernel was not given this one
		number = stack_number(address, &s->event.entry_time, tgid);
	}
	__sync_lock_test_and_set(&s->busy, 0);
	return number;
}

#endif
