/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What keeps programs from running when they must not: a switch, for all of them,
 * and a guard, which keeps one from running inside another.
 */
#ifndef KSNOOP_CONTROL_H
#define KSNOOP_CONTROL_H

/*
 * The switch: set to ON by user space when all is attached, to PAUSED for a while when
 * tracing takes too much of the machine, and to OFF when it is to end. Each program
 * tests it before it calls anything, but for those that do nothing unless a session
 * is open: unless it is ON, none is opened. By itself in its section, which nothing
 * else writes to.
 */
volatile enum position running SEC(".data.switch");

/*
 * The guard. The helpers that programs call are functions that can be traced
 * themselves, and some run with a lock held: if a program reserved room in the ring
 * buffer while another, further up on the same stack, is about to do that, the CPU
 * would wait for itself. The kernel prevents it for kprobes, whose programs never
 * run inside each other, and not for trampolines and tracepoints. So these
 * programs take hold of the stack they run on before they call a helper that calls
 * anything but leaf functions, and leave the call alone if it is held already: then it
 * is one that tracing itself has made, or that an interrupt has made which runs on the
 * stack of another one. Calls in a session need no guard, its busy flag is one.
 *
 * A stack's number is the upper part of its addresses' lower half: stacks that are a
 * multiple of 4 GiB apart are taken for one. A stack that is not aligned to its size, as
 * those of interrupts on x86, has two numbers; what runs inside a program lies lower, so the
 * next number is looked at, too. Each has its place in a table. It is held by writing the number there, unless another stack's place is
 * the same and is held now: then one of a few other places is taken, and strays says
 * so at home.
 */

// A data section of its own, which is made larger before loading.
__hidden struct guard guards[1] SEC(".data.guard");

struct guard stray_guards[STRAY_GUARDS];

// Calls left alone because their stack was held.
__u64 guarded_calls;

static __always_inline struct guard *guard_of(__u32 stack)
{
	void *all = guards;

	asm volatile("" : "+r"(all)); // or the compiler counts on there being one
	return all + (__u64)(stack % GUARDS) * sizeof(struct guard);
}

// stray_guard is one of the other places. As with frame_at, the verifier is made to
// forget which: it would follow the rest of the program anew for each.
static __always_inline struct guard *stray_guard(__u32 i)
{
	return &stray_guards[(i + nothing) % STRAY_GUARDS];
}

// ks_hold takes hold of a stack whose place is not free. It returns the place
// taken, NULL if the stack is held already.
FUNC struct guard *ks_hold(__u32 stack)
{
	struct guard *home = guard_of(stack), *g;
	__u32 i;

	if (home->stack == stack || guard_of(stack + 1)->stack == stack + 1)
		goto held;
	for (i = 0; i < STRAY_GUARDS; i++)
		if (stray_guard(i)->stack == stack)
			goto held;
	if (!home->stack && !__sync_val_compare_and_swap(&home->stack, 0, stack))
		return home;
	for (i = 0; i < STRAY_GUARDS; i++) {
		g = stray_guard(i);
		if (!g->stack && !__sync_val_compare_and_swap(&g->stack, 0, stack)) {
			__sync_fetch_and_add(&home->strays, 1);
			g->home = stack;
			return g;
		}
	}
held:
	__sync_fetch_and_add(&guarded_calls, 1);
	return 0;
}

// ks_let_go is for a place that is not the stack's home.
FUNC int ks_let_go(struct guard *g)
{
	__sync_fetch_and_add(&guard_of(g->home)->strays, -1);
	g->home = 0;
	__sync_lock_test_and_set(&g->stack, 0);
	return 0;
}

#endif
