//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//
// The part of ksnoop's kernel side that is the same for every request. Package codegen
// generates what differs: programs that evaluate predicates, and ks_capture, which stores
// values. They call the functions named ks_.
//
// Go package bpf links both. FUNC declares a function that is linked: it is hidden, so that
// the compiler keeps it whole and with its signature. The linker makes it static, so that the
// verifier checks it with the types of the caller's arguments.
//
// functions.go and sessionfunctions.go have the contract of each function that generated code
// calls: what it takes and returns, and which programs call it. Comments here say how it
// works.

#include "engine.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

// Set before loading, like all constants of the engine. The verifier knows their values and
// drops the code that they switch off.
const volatile struct config settings;

#include "filter.h"

// The records, for user space.
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} events SEC(".maps");

// The cookies of functions whose links have none, by address. The bits from SITE_LAYER on
// count the probes of the same address that come before.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u64);
} sites SEC(".maps");

#include "pidns.h"
#include "loss.h"
#include "path.h"
#include "user_return.h"
#include "stash.h"
#include "control.h"

// ks_capture is replaced by generated code. The assembler keeps the compiler from assuming
// that it returns 0 and leaves the data alone.
FUNC __u64 ks_capture(void *ctx, void *data)
{
	__u64 faults;

	asm volatile("%0 = 0" : "=r"(faults) : "r"(ctx), "r"(data));
	return faults;
}

// ks_send reserves room in the ring buffer and captures into that.
FUNC int ks_send(void *ctx, __u32 probe, enum kind kind, __u32 size)
{
	__u64 ids = bpf_get_current_pid_tgid();
	struct event *e;

	if (is_own(ids))
		return 0;
	mark_losses();
	e = bpf_ringbuf_reserve(&events, size, 0);
	if (!e) {
		ks_lost(LOST_RINGBUF);
		return 0;
	}
	fill(e, probe, kind, ids);
	e->entry_time = 0;
	e->faults = ks_capture(ctx, e + 1);
	if (e->faults)
		ks_count(UNREADABLE);
	bpf_ringbuf_submit(e, settings.wake);
	return 0;
}

// ks_finish captures behind the values of the entry and copies the whole record into the ring
// buffer.
FUNC int ks_finish(void *ctx, struct frame *f, enum kind kind, __u32 size)
{
	__u64 ids = bpf_get_current_pid_tgid();

	if (is_own(ids))
		return 0;
	fill(&f->event, f->probe, kind, ids);
	f->event.faults |= ks_capture(ctx, &f->event + 1);
	if (f->event.faults)
		ks_count(UNREADABLE);
	mark_losses();
	if (bpf_ringbuf_output(&events, &f->event, size, settings.wake))
		ks_lost(LOST_RINGBUF);
	return 0;
}

// ks_cookie asks the link.
FUNC __u64 ks_cookie(void *ctx)
{
	return bpf_get_attach_cookie(ctx);
}

// ks_site looks the cookie up in sites.
FUNC __s64 ks_site(void *ctx, __u64 layer)
{
	__u64 ip = bpf_get_func_ip(ctx) ^ (layer << SITE_LAYER);
	__u64 *probe = bpf_map_lookup_elem(&sites, &ip);

	return probe ? (__s64)*probe : -1;
}

#include "tail.h"
#include "slots.h"
#include "summary.h"
#include "session.bpf.h"

// Types that user space has from here, and that no map, function or variable has: the
// compiler would leave them out of the BTF. User space removes the section.
union abi_only {
	enum limit limit;
	enum ringbuf_flag ringbuf_flag;
	enum event_flag event_flag;
	enum record_part record_part;
	enum arg_limit arg_limit;
	enum list_limit list_limit;
	enum guard_limit guard_limit;
	enum table_limit table_limit;
	enum user_limit user_limit;
	enum path_limit path_limit;
	struct path_head path_head;
	enum func_bit func_bit;
	enum error_class error_class;
	enum call_flag call_flag;
	enum session_more session_more;
	enum log_kind log_kind;
	enum log_bit log_bit;
	struct lost lost;
	struct arg_bytes arg_bytes;
	struct log_entry log_entry;
	struct log_exit log_exit;
	struct log_entry_off log_entry_off;
	struct log_exit_off log_exit_off;
	struct off_cpu off_cpu;
	enum notes notes;
	enum parent_place parent_place;
	enum parent_kind parent_kind;
	enum parent_lack parent_lack;
	enum thread_access thread_access;
	struct candidate candidate;
	struct table_place table_place;
};
const union abi_only abi_only SEC(".rodata.abi");

// This program is never loaded; see session_library.
SEC("fentry")
int library(void *ctx)
{
	struct frame *f = ks_open(1, 2, 0) && ks_open_user(1, 2, 0, ctx, 3) ? ks_find(1, 2) : ks_find_user(1, 2);

	struct guard *g = running ? ks_hold(1) : 0;

	ks_count(ks_filter(0) + ks_admit() + ks_forget(1, 2) + ks_forget_user(1, 2, ctx, 3));
	if (g)
		ks_let_go(g);
	ks_send(ctx, 0, 0, sizeof(struct event));
	ks_ids();
	ks_count(ks_cookie(ctx) + ks_site(ctx, 0));
	ks_send_tail(ctx, 0, 0, sizeof(struct event), 0);
	ks_send_list(ctx, 0, 0, 0);
	if (settings.self) {
		__u64 key[2] = {}, *stack = ks_stack_buffer(), *row;

		ks_key_comm(key);
		if (stack)
			key[0] += ks_keep_stack(stack, 8, 0);
		row = ks_row(key, 0);
		if (row) {
			ks_raise(row, key[0]);
			ks_observe(row, key[0], 16, 1);
		}
	}
	if (f) {
		ks_finish(ctx, f, 0, sizeof(struct event));
		ks_finish_tail(ctx, f, 0, sizeof(struct event), 0);
		ks_stash_list(ctx, f);
		ks_finish_list(ctx, f, 0, 0);
		ks_free(f);
	}
	ks_enter_path(1);
	ks_open_path(1, 2);
	ks_leave_path(1);
	return 0;
}

// tgid_of reads a task's process ID. It uses a helper, which needs no BTF of the kernel:
// processes begin and end seldom enough.
static __always_inline __u32 tgid_of(struct task_struct *task)
{
	__u32 tgid = 0;

	bpf_probe_read_kernel(&tgid, sizeof(tgid), &task->tgid);
	return tgid;
}

// adopt adds a child to the family if its parent is a member. A new thread of the parent's process is in it already.
static __always_inline void adopt(struct task_struct *parent, struct task_struct *child)
{
	__u32 parents = tgid_of(parent), tgid = tgid_of(child);
	__u64 signal;

	if (tgid == parents || !in_family(parents, signal_of(parent)))
		return;
	signal = signal_of(child);
	if (bpf_map_update_elem(&family, &tgid, &signal, BPF_ANY))
		ks_count(LOST_FAMILY);
}

// process_fork runs where the current task makes a new one ready to run, with interrupts off: no task is preempted in it,
// so that the kernel never skips it for another one on that CPU.
SEC("raw_tp/sched_wakeup_new")
int process_fork(__u64 *ctx)
{
	adopt((void *)bpf_get_current_task(), (void *)ctx[0]);
	return 0;
}

// process_fork_early is for kernels whose hash maps may not take memory where process_fork runs. It runs a little earlier.
SEC("raw_tp/sched_process_fork")
int process_fork_early(__u64 *ctx)
{
	adopt((void *)ctx[0], (void *)ctx[1]);
	return 0;
}

// process_free takes a process out of the family when its last thread is gone, since what a
// process does on its way out is traced, too. The leader is freed last, and its PID is the
// process ID: a thread that calls execve swaps PIDs with the leader, which is freed then.
SEC("raw_tp/sched_process_free")
int process_free(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	__u32 tgid = tgid_of(task), pid;

	if (!bpf_probe_read_kernel(&pid, sizeof(pid), &task->pid) && pid == tgid && in_family(tgid, signal_of(task)))
		bpf_map_delete_elem(&family, &tgid);
	return 0;
}
