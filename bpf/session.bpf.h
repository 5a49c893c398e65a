/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Sessions: what a thread does between the call of an entry function and its return.
 * Part of engine.bpf.c. Settings and maps are here, each job is in a file of its own.
 *
 * The programs of functions without values or predicates call ks_enter and ks_leave.
 * The others call the functions that these two are made of. Where a function exists
 * with and without ks_ in its name, the one without is inlined: a call between two BPF
 * functions costs more than what many of them do.
 */
#include "args.h"
#include "words.h"
#include "session.h"

const volatile struct session_config wanted;
const volatile __u32 log_size;	 // bytes
const volatile __u32 stash_size; // bytes
const volatile __u32 session_size = sizeof(struct session); // with all that

// How many sessions are open. Programs of functions that open none test it before anything
// else. It has a section of its own, by whose name generated code loads it.
__u32 open_sessions SEC(".data.sessions");

#include "pool.h"

// session_hung copies a session here before it reports it: the thread goes on, and changes
// its own.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct session);
} copies SEC(".maps");

// Which arguments of a function are captured, by the function's id.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct arg_list);
} arguments SEC(".maps");

// at returns &calls[i]. The caller knows that i is less than DEPTH; the mask lets the
// verifier know it, too.
static __always_inline struct call *at(struct call *calls, __u64 i)
{
	asm volatile("%0 &= %1" : "+r"(i) : "i"(DEPTH - 1));
	return calls + i;
}

#include "session_offcpu.h"
#include "session_send.h"
#include "session_log.h"
#include "session_values.h"
#include "session_open.h"
#include "session_chain.h"
#include "session_parent.h"
#include "session_close.h"
#include "session_calls.h"
#include "session_exit.h"
#include "session_hung.h"

// This program is never loaded. It calls what generated code may call, so that the ELF reader
// joins these functions with it; the linker takes them from there.
SEC("fentry")
int session_library(void *ctx)
{
	struct session *s = ks_session(1);

	if (s) {
		if (ks_push(s, 1, 2) || ks_push_user(s, 1, 2, ctx))
			ks_item(s, 1, 8);
		if ((ks_innermost(s, 1, 2) || ks_innermost_user(s, 1, 2)) && ks_item_of(s, 8))
			ks_log_item(s, 8);
		ks_satisfied(s);
		ks_reject_user(s, ctx, 1);
		ks_pop(ctx, s, 1, 2, 3);
		ks_done(s);
	}
	s = ks_open_session();
	if (s)
		ks_done(s);
	s = ks_around(1);
	if (s) {
		ks_hit(s, 1, 0, 8);
		ks_done(s);
	}
	return ks_away() + ks_enter(ctx, 1, 2) + ks_leave(ctx, 1, 2, 3, 4) + ks_enter_user(ctx, 1, 2) + ks_leave_user(ctx, 1, 2, 3, 4);
}
