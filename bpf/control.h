/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The switch turns all programs on and off. The guard keeps a program from running inside
 * another one on the same stack. Generated code tests the switch, and holds
 * the guard, at the beginning of programs of calls.
 */
#ifndef KSNOOP_CONTROL_H
#define KSNOOP_CONTROL_H

/*
 * The switch. User space sets it to ON when everything is attached, to PAUSED while tracing
 * takes too much of the machine, and to OFF at the end. Each program tests it before it
 * calls anything. Programs that do nothing unless a session is open need no test: only
 * while the switch is ON is a session opened. It has a section of its own, so that no other
 * variable's stores share its cache line.
 */
volatile enum position running SEC(".data.switch");

/*
 * The guard. Helpers are functions that can be traced themselves, and some run with a lock
 * held. If a program reserved room in the ring buffer inside another one that is just
 * doing so, the CPU would wait for itself. The kernel never runs the programs of kprobes
 * inside each other; those of trampolines and tracepoints it does. So these hold the
 * stack that they run on before they call a helper, unless that helper calls nothing
 * that can be traced. If the stack is held already, they leave the call alone: tracing
 * itself has made it, or an interrupt that runs on the stack of another one. Programs of
 * sessions need no guard: the busy flag of the session does the same.
 *
 * The number of a stack is bits 14 (or what its size is) to 31 of its addresses, so stacks
 * that are a multiple of 4 GiB apart count as one. A stack that is not aligned to its size,
 * like those of interrupts on x86, has two numbers. What runs inside a program lies below it,
 * so the next higher number is tested as well. A number selects a place in a table, its
 * home, and holding a stack writes the number there. If another stack holds that place,
 * one of a few other places is used, and strays at home counts these.
 */

// The table. User space enlarges its section to GUARDS places, and one behind them.
__hidden struct guard guards[1] SEC(".data.guard");

struct guard stray_guards[STRAY_GUARDS];

// How many calls were left alone because their stack was held.
__u64 guarded_calls;

static __always_inline struct guard *guard_of(__u32 stack)
{
	void *all = guards;

	asm volatile("" : "+r"(all)); // else the compiler assumes that the index is 0
	return all + (__u64)(stack % GUARDS) * sizeof(struct guard);
}

// stray_guard returns one of the other places. As in frame_at, the verifier must not know the
// index: it would explore the rest of the program once for each.
static __always_inline struct guard *stray_guard(__u32 i)
{
	return &stray_guards[(i + nothing) % STRAY_GUARDS];
}

// ks_hold holds a stack for a program that did not find its home free. It is a part of most
// programs, so its loops are not unrolled: the verifier's work grows with their instructions, too.
FUNC struct guard *ks_hold(__u32 stack)
{
	struct guard *home = guard_of(stack), *g;
	__u32 i;

	if (home->stack == stack || guard_of(stack + 1)->stack == stack + 1)
		goto held;
#pragma clang loop unroll(disable)
	for (i = 0; i < STRAY_GUARDS; i++)
		if (stray_guard(i)->stack == stack)
			goto held;
	if (!home->stack && !__sync_val_compare_and_swap(&home->stack, 0, stack))
		return home;
#pragma clang loop unroll(disable)
	for (i = 0; i < STRAY_GUARDS; i++) { // a body with one way through it, which the verifier follows once a turn
		g = stray_guard(i);
		if (!__sync_val_compare_and_swap(&g->stack, 0, stack))
			break;
	}
	if (i < STRAY_GUARDS) {
		__sync_fetch_and_add(&home->strays, 1);
		g->home = stack;
		return g;
	}
held:
	__sync_fetch_and_add(&guarded_calls, 1);
	return 0;
}

// ks_let_go lets go of a place that is not the stack's home. The home is told first: once the
// place is free, another stack may take it.
FUNC int ks_let_go(struct guard *g)
{
	__sync_fetch_and_add(&guard_of(g->home)->strays, -1);
	g->home = 0;
	__sync_lock_test_and_set(&g->stack, 0);
	return 0;
}

#endif
