//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//
// The part of ksnoop's kernel side that is the same for every request. What
// differs per request is generated: a program that evaluates the predicates
// and calls the functions below, and ks_capture, which stores the values.
//
// A request's programs and these functions are linked in user space (Go
// package bpf), which is why the functions are hidden rather than static: the
// compiler must keep each one whole and with the signature written here, and
// the linker makes them static so that the verifier follows the types of
// their arguments into them.

#include "engine.h"
#include "filter.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

// Set before loading. The verifier sees its values and drops what they switch
// off.
const volatile struct config settings;
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} events SEC(".maps");

// The probe of each function that shares its programs with others, by address
// and, from SITE_LAYER on, by how many probes of the same address come before.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u64);
} sites SEC(".maps");

#include "pidns.h"
#include "loss.h"
#include "stash.h"
#include "control.h"

// ks_capture is generated: it stores the values that are wanted at data and
// returns the set of slots that could not be read.
FUNC __u64 ks_capture(void *ctx, void *data)
{
	__u64 faults;

	asm volatile("%0 = 0" : "=r"(faults) : "r"(ctx), "r"(data));
	return faults;
}

// ks_send captures and sends a record of size bytes, header included.
FUNC int ks_send(void *ctx, __u32 probe, enum kind kind, __u32 size)
{
	__u64 ids = bpf_get_current_pid_tgid();
	struct event *e;

	if (ids >> 32 == settings.self)
		return 0;
	if (mark_due)
		ks_mark();
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

extern void *bpf_rdonly_cast(const void *obj, __u32 type) __ksym __weak;

// ks_cast tells the verifier that p points to an object of the type with that
// BTF id, which may then be read by plain loads. It costs no call at run time.
FUNC void *ks_cast(void *p, __u32 type)
{
	return bpf_rdonly_cast(p, type);
}

// ks_finish completes the record in f with what is captured at return and
// sends it: size bytes, header included.
FUNC int ks_finish(void *ctx, struct frame *f, enum kind kind, __u32 size)
{
	__u64 ids = bpf_get_current_pid_tgid();

	if (ids >> 32 == settings.self)
		return 0;
	fill(&f->event, f->probe, kind, ids);
	f->event.faults |= ks_capture(ctx, &f->event + 1);
	if (f->event.faults)
		ks_count(UNREADABLE);
	if (mark_due)
		ks_mark();
	if (bpf_ringbuf_output(&events, &f->event, size, settings.wake))
		ks_lost(LOST_RINGBUF);
	return 0;
}

// ks_cookie returns what the link has for the function that is hit: the index of
// its probe and, of sessions, enum func_flag.
FUNC __u64 ks_cookie(void *ctx)
{
	return bpf_get_attach_cookie(ctx);
}

// ks_site returns the same for links that have no cookies, -1 for none.
FUNC __s64 ks_site(void *ctx, __u64 layer)
{
	__u64 ip = bpf_get_func_ip(ctx) ^ (layer << SITE_LAYER);
	__u64 *probe = bpf_map_lookup_elem(&sites, &ip);

	return probe ? (__s64)*probe : -1;
}

#include "tail.h"
#include "slots.h"
#include "session.bpf.h"

// Types that user space has from here, and that no map, function or variable has: the
// compiler would leave them out of the BTF. User space removes the section.
union abi_only {
	enum limit limit;
	enum ringbuf_flag ringbuf_flag;
	enum event_flag event_flag;
	enum arg_limit arg_limit;
	enum list_limit list_limit;
	enum guard_limit guard_limit;
	enum func_bit func_bit;
	enum error_class error_class;
	enum call_flag call_flag;
	enum log_kind log_kind;
	enum log_bit log_bit;
	struct lost lost;
	struct arg_bytes arg_bytes;
	struct log_entry log_entry;
	struct log_exit log_exit;
};
const union abi_only abi_only SEC(".rodata.abi");

// The linker takes the functions out of this program.
SEC("fentry")
int library(void *ctx)
{
	struct frame *f = ks_open(1, 2, 0) ? ks_find(1, 2) : 0;

	struct guard *g = running ? ks_hold(1) : 0;

	ks_count(ks_filter(0) + ks_admit() + ks_forget(1, 2));
	if (g)
		ks_let_go(g);
	ks_send(ctx, 0, 0, sizeof(struct event));
	ks_cast(ctx, 1);
	ks_ids();
	ks_count(ks_cookie(ctx) + ks_site(ctx, 0));
	ks_send_tail(ctx, 0, 0, sizeof(struct event), 0);
	ks_send_list(ctx, 0, 0, 0);
	if (f) {
		ks_finish(ctx, f, 0, sizeof(struct event));
		ks_finish_tail(ctx, f, 0, sizeof(struct event), 0);
		ks_stash_list(ctx, f);
		ks_finish_list(ctx, f, 0, 0);
		ks_free(f);
	}
	return 0;
}

// tgid_of reads the process that a task is of. Processes begin and end seldom
// enough for a helper, which works without BTF of the kernel.
static __always_inline __u32 tgid_of(struct task_struct *task)
{
	__u32 tgid = 0;

	bpf_probe_read_kernel(&tgid, sizeof(tgid), &task->tgid);
	return tgid;
}

// A process that a member of the family forks is one of the family.
SEC("raw_tp/sched_process_fork")
int process_fork(__u64 *ctx)
{
	__u32 tgid = tgid_of((void *)ctx[0]);
	__u8 one = 1;

	if (!bpf_map_lookup_elem(&family, &tgid))
		return 0;
	tgid = tgid_of((void *)ctx[1]);
	if (bpf_map_update_elem(&family, &tgid, &one, BPF_ANY))
		ks_count(LOST_FAMILY);
	return 0;
}

// What a process does on its way out is its own, so it leaves the family when its
// last thread is gone: with the leader, which is kept until then. Of a thread that
// executed a program it has the other's number.
SEC("raw_tp/sched_process_free")
int process_free(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	__u32 tgid = tgid_of(task), pid;

	if (!bpf_probe_read_kernel(&pid, sizeof(pid), &task->pid) && pid == tgid)
		bpf_map_delete_elem(&family, &tgid);
	return 0;
}
