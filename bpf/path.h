/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Ways that calls take through a function. A probe on each conditional jump adds a step to the
 * call that it belongs to; the record of the call has the steps in its tail.
 *
 * A call is known by its stack pointer, as in the stash. The calls of one stack that are open
 * share a path, in which each has a mark, the innermost on top. An address below a mark's is
 * inside of its call, or of a call that was made from there; one above it tells that the call
 * is over, whether its return was seen or not.
 */
#ifndef KSNOOP_PATH_H
#define KSNOOP_PATH_H

// Set before loading: the number of places in paths, minus 1; 0 if no ways are wanted.
const volatile __u32 path_mask;

// How many paths are in use. Most calls are not in any.
__u32 paths_open;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct path);
} paths SEC(".maps");

// What to take at each probe, by its address.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct path_site);
} path_sites SEC(".maps");

enum {
	PATH_CHOICES = 8, // places that the path of a stack can have
#if defined(__TARGET_ARCH_arm64)
	PATH_SP = 31,
	PATH_IP = 32,
	PATH_TRAP = 0,
	PATH_WORDS = 34,
#else
	PATH_SP = 19,
	PATH_IP = 16,
	PATH_TRAP = 1, // the breakpoint has been executed
	PATH_WORDS = 20,
#endif
};

// path_of returns the path of a stack; if claim is set, it takes a place for one that has none.
static __always_inline struct path *path_of(__u64 sp, bool claim)
{
	__u64 stack = (sp >> STACK_BITS) + 1;
	__u32 first = (__u32)stack * 0x9E3779B1 >> 16;

	for (__u32 i = 0; i < PATH_CHOICES; i++) {
		__u32 key = (first + i) & path_mask;
		struct path *p = bpf_map_lookup_elem(&paths, &key);

		if (!p)
			break;
		if (p->stack == stack)
			return p;
	}
	for (__u32 i = 0; claim && i < PATH_CHOICES; i++) {
		__u32 key = (first + i) & path_mask;
		struct path *p = bpf_map_lookup_elem(&paths, &key);

		if (!p)
			break;
		if (!p->stack && !__sync_val_compare_and_swap(&p->stack, 0, stack)) {
			p->depth = p->beyond = 0;
			__sync_fetch_and_add(&paths_open, 1);
			return p;
		}
	}
	return 0;
}

// path_top returns the mark of the innermost call that is open at an address; NULL if there is
// none, or if that call found no room for a mark. It forgets those that are over.
static __always_inline struct path_mark *path_top(struct path *p, __u64 sp)
{
	if (p->beyond) {
		if (p->beyond >= (__u32)sp) // a stack has one upper half
			return 0;
		p->beyond = 0;
	}
	for (__u32 i = 0; i < PATH_DEPTH; i++) {
		__u32 depth = p->depth;
		struct path_mark *m;

		if (!depth)
			break;
		m = &p->mark[(depth - 1) % PATH_DEPTH];
		if (m->sp >= sp)
			return m;
		p->depth = depth - 1;
	}
	return 0;
}

// path_release gives a place back if no call is open.
static __always_inline void path_release(struct path *p)
{
	if (p->depth)
		return;
	__sync_fetch_and_add(&paths_open, -1);
	__sync_lock_test_and_set(&p->stack, 0);
}

// path_push adds a mark for a call. If there is no room for it, what is passed until the call is over is in no way: a mark further
// out must not take it for its own.
static __always_inline struct path_mark *path_push(struct path *p, __u64 sp)
{
	struct path_mark *below = path_top(p, sp + 1), *m;
	__u32 first = 0;
	__u64 depth;

	if (p->beyond)
		return 0;
	if (below) {
		__u32 room = PATH_STEPS - below->first;

		first = below->first + (below->count < room ? below->count : room);
	}
	depth = p->depth;
	if (depth >= PATH_DEPTH) {
		p->beyond = (__u32)sp;
		return 0;
	}
	asm volatile("%0 &= %1" : "+r"(depth) : "i"(PATH_DEPTH - 1)); // Linux 6.1 forgets the test by here
	m = &p->mark[depth];
	m->sp = sp;
	m->wanted = 0;
	m->count = 0;
	m->first = first;
	p->depth = depth + 1;
	return m;
}

// ks_enter_path marks a call inside of another one that has a path. Whether the call is wanted is not known yet: ks_open_path counts it if
// there is no room.
FUNC int ks_enter_path(__u64 sp)
{
	struct path *p;

	if (!paths_open)
		return 0;
	p = path_of(sp, false);
	if (p)
		path_push(p, sp);
	return 0;
}

// ks_open_path has the steps of a call kept, which ks_enter_path may have marked.
FUNC int ks_open_path(__u64 sp, __u32 probe)
{
	struct path *p = path_of(sp, true);
	struct path_mark *m;

	if (!p) {
		ks_count(LOST_PATH);
		return 0;
	}
	m = path_top(p, sp);
	if (!m || m->sp != sp)
		m = path_push(p, sp);
	if (!m) {
		ks_count(LOST_PATH);
		return 0;
	}
	m->probe = probe;
	m->wanted = 1;
	return 0;
}

// ks_leave_path forgets a call, and all inside of it.
FUNC int ks_leave_path(__u64 sp)
{
	struct path *p;

	if (!paths_open)
		return 0;
	p = path_of(sp, false);
	if (!p)
		return 0;
	path_top(p, sp + 1);
	path_release(p);
	return 0;
}

// path_value reads an operand of a compare. It returns a flag if it cannot be read.
static __always_inline __u32 path_value(__u64 *to, const struct path_operand *o, const __u64 *words)
{
	__u64 address = o->disp;
	__u32 size = o->size;

	*to = 0;
	if (o->base < PATH_WORDS)
		address += words[o->base];
	if (o->index < PATH_WORDS)
		address += words[o->index] * o->scale;
	if (!o->memory) {
		*to = address;
		return 0;
	}
	if (size > sizeof(*to))
		size = sizeof(*to);
	return bpf_probe_read_kernel(to, size, (void *)address) ? PATH_UNREADABLE : 0;
}

// path_step is the program of all probes of ways.
SEC("kprobe")
int path_step(__u64 *regs)
{
	__u64 words[PATH_WORDS], sp = regs[PATH_SP], ip = regs[PATH_IP] - PATH_TRAP;
	struct path_site *site;
	struct path_mark *m;
	struct path_step *s;
	struct path *p;
	__u32 at, half, room;

	if (!paths_open)
		return 0;
	p = path_of(sp, false);
	if (!p)
		return 0;
	m = path_top(p, sp);
	if (!m || !m->wanted)
		return 0;
	site = bpf_map_lookup_elem(&path_sites, &ip);
	if (!site || site->probe != m->probe)
		return 0;
	if (bpf_probe_read_kernel(words, sizeof(words), regs))
		return 0;
	at = m->count++;
	room = PATH_STEPS - m->first;
	half = room / 2;
	if (at >= room && half)
		at = half + (at - half) % (room - half);
	if (at >= room)
		return 0;
	s = &p->step[(m->first + at) % PATH_STEPS];
	s->site = site->index;
	s->word = site->word < PATH_WORDS ? words[site->word] : 0;
	s->flags = path_value(&s->value[0], &site->operand[0], words);
	s->flags |= path_value(&s->value[1], &site->operand[1], words) << 1;
	return 0;
}

// add_path appends a section with the steps of a call by a kprobe. The verifier sees it in programs
// of other kinds, too, whose context is not regs: so that is read by a helper.
static __always_inline __u32 add_path(__u64 *regs, void *buffer, __u32 at)
{
	__u64 sp;
	struct section *section = buffer + at;
	struct path_head *head = (void *)(section + 1);
	struct path_mark *m = 0;
	struct path *p;
	__u32 n;

	section->kind = SECTION_PATH;
	section->flags = 0;
	section->size = -ENODATA;
	if (bpf_probe_read_kernel(&sp, sizeof(sp), regs + PATH_SP))
		return at + sizeof(*section);
#if !defined(__TARGET_ARCH_arm64)
	sp -= 8; // the return address
#endif
	p = path_of(sp, false);
	if (p)
		m = path_top(p, sp);
	if (!m || m->sp != sp || !m->wanted)
		return at + sizeof(*section);
	head->count = m->count;
	head->room = PATH_STEPS - m->first;
	n = m->count < head->room ? m->count : head->room;
	if (n > PATH_STEPS)
		n = PATH_STEPS;
	n *= sizeof(struct path_step);
	if (n && bpf_probe_read_kernel(head + 1, n, &p->step[m->first % PATH_STEPS]))
		return at + sizeof(*section);
	section->size = n + sizeof(*head);
	return at + sizeof(*section) + sizeof(*head) + n;
}

// forget_path frees the path of a stack whose task ends.
static __always_inline void forget_path(__u64 block)
{
	struct path *p;

	if (!paths_open)
		return;
	p = path_of(block, false);
	if (!p)
		return;
	p->depth = 0;
	path_release(p);
}

#endif
