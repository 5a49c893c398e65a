/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef KSNOOP_FILTER_H
#define KSNOOP_FILTER_H

/*
 * Whose calls are traced. The lists are constants of the loaded program, so the verifier
 * drops the tests of empty ones. Programs of calls and entry functions of sessions
 * ask the filter.
 */

/* Bits of the preemption count, as linux/preempt.h had them from 2.6.30 to 7.2. ks_preempt_count has them so for all. */
#define SERVING_SOFTIRQ 0x100
#define HARDIRQ_UNIT 0x10000
#define NMI_UNIT 0x100000
#define IRQ_COUNT_MASK 0xf
#define HARDIRQ_MASK (HARDIRQ_UNIT * IRQ_COUNT_MASK)
#define NMI_MASK (NMI_UNIT * IRQ_COUNT_MASK)

// Set before loading.
const volatile struct task_filter filter;

// Set before loading: the kernel has no BTF, or none that user space can see. Programs then
// read tasks by helpers instead of plain loads.
const volatile __u32 untyped;

const volatile struct comms comms, not_comms;

// The processes that are traced with their descendants, by process ID: where the kernel keeps what the threads of each share
// (signal_struct). Another process can have the ID before the last one is freed. The first processes are added by user
// space, which does not know the address: they have 0 until it is seen.
// process_fork, or process_fork_early, and process_free add and remove descendants.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u64);
} family SEC(".maps");

// The cgroups whose tasks are traced, if filter.by_cgroups says so. User space adds to them at any time: a reader that
// sees a half written place takes a task for one of another cgroup. It has a section of its own for the reason that
// the switch has one.
volatile struct cgroup_list cgroups SEC(".data.cgroups");

// in_cgroups reports whether the current task is in one of them or below.
static __always_inline bool in_cgroups(void)
{
	__u32 count = cgroups.count;

	for (__u32 i = 0; i < count && i < FILTER_CGROUPS; i++) {
		volatile struct cgroup_place *p = &cgroups.place[i];

		if (bpf_get_current_ancestor_cgroup_id(p->level) == p->id)
			return true;
	}
	return false;
}

// ks_preempt_count is replaced by generated code: the place of the preemption count depends
// on the kernel's version and on the architecture.
FUNC __u32 ks_preempt_count(void)
{
	__u32 count;

	asm volatile("%0 = 0" : "=r"(count));
	return count;
}

// ks_in_interrupt reports whether an interrupt runs on top of the current task. trap is not 0
// for a probe inside a function: a breakpoint may have led there, which the kernel counts as
// a non-maskable and as a hard interrupt.
FUNC int ks_in_interrupt(__u32 trap)
{
	__u32 count = ks_preempt_count();
	__u32 hardirqs = count / HARDIRQ_UNIT & IRQ_COUNT_MASK, nmis = count / NMI_UNIT & IRQ_COUNT_MASK;

	if (count & SERVING_SOFTIRQ)
		return 1;
	return trap ? hardirqs > nmis : hardirqs | nmis;
}

// is_own reports whether ksnoop makes the call itself. ids are the current task's. What an interrupt does meanwhile is
// not ksnoop's. A non-maskable one may be a breakpoint.
static __always_inline bool is_own(__u64 ids)
{
	return ids >> 32 == settings.self && !ks_in_interrupt(1);
}

// listed reports whether a list has an ID.
static __always_inline bool listed(const volatile struct ids *list, __u32 id)
{
	__u32 count = list->count;

	for (__u32 i = 0; i < count && i < FILTER_IDS; i++)
		if (list->id[i] == id)
			return true;
	return false;
}

// has_zero returns 0 if no byte of x is 0. Otherwise its lowest bit is the highest one of the
// first such byte.
static __always_inline __u64 has_zero(__u64 x)
{
	return (x - 0x0101010101010101) & ~x & 0x8080808080808080;
}

// A task's name, as two words.
struct name {
	__u64 low, high;
};

// before clears the first byte of x that is 0, and all behind it. zero is has_zero(x).
static __always_inline __u64 before(__u64 x, __u64 zero)
{
	return x & (((zero & -zero) >> 7) - 1);
}

// cut clears what follows the end of a name.
static __always_inline void cut(struct name *n)
{
	__u64 low = has_zero(n->low), high = has_zero(n->high);

	if (low) {
		n->low = before(n->low, low);
		n->high = 0;
	} else if (high) {
		n->high = before(n->high, high);
	}
}

// has_bytes reports whether a name begins with the bytes of a part.
static __always_inline bool has_bytes(const volatile struct comm_part *p, struct name *n)
{
	return !((n->low ^ p->value[0]) & p->mask[0] || (n->high ^ p->value[1]) & p->mask[1]);
}

// part_matches reports the same, and that each "?" stands for a byte.
static __always_inline bool part_matches(const volatile struct comm_part *p, struct name *n)
{
	if (!has_bytes(p, n))
		return false;
	return !has_zero(n->low | ~p->some[0]) && !has_zero(n->high | ~p->some[1]);
}

// next_byte drops the first byte of a name.
static __always_inline void next_byte(struct name *n)
{
	n->low = n->low >> 8 | n->high << 56;
	n->high >>= 8;
}

// comm_listed reports whether a glob of a list matches a name.
static __always_inline bool comm_listed(const volatile struct comms *list, struct name name)
{
	__u32 count = list->count;
	struct name rest = name;
	bool ok = true;

	if (list->plain) // most are, and the loop costs more
		return has_bytes(&list->part[0], &name);
	for (__u32 i = 0; i < count && i < FILTER_PARTS; i++) {
		const volatile struct comm_part *p = &list->part[i];

		if (p->first) {
			rest = name;
			ok = true;
		}
		if (!ok)
			continue;
		ok = part_matches(p, &rest);
		if (p->anywhere) {
			for (int at = 1; !ok && at < COMM_LEN; at++) {
				next_byte(&rest);
				ok = part_matches(p, &rest);
			}
		}
		if (!ok)
			continue;
		if (p->last)
			return true;
		for (int at = 0; at < p->size && at < COMM_LEN; at++)
			next_byte(&rest);
	}
	return false;
}

// comm_wanted reports whether the filter for names lets a name pass. It takes two words, not
// a struct: names are arrays of bytes, and the compiler would load a struct byte by byte.
static __always_inline bool comm_wanted(__u64 low, __u64 high)
{
	struct name name = {low, high};

	// Before Linux 5.17 the rest of an older, longer name may follow the NUL.
	if (comms.search || not_comms.search)
		cut(&name);
	if (comms.count && !comm_listed(&comms, name))
		return false;
	return !not_comms.count || !comm_listed(&not_comms, name);
}

// signal_of reads what the threads of a task's process share. It uses a helper, which needs no BTF of the kernel.
static __always_inline __u64 signal_of(struct task_struct *task)
{
	__u64 signal = 0;

	bpf_probe_read_kernel(&signal, sizeof(signal), &task->signal);
	return signal;
}

// in_family reports whether the family has the process with an ID whose threads share what is at signal.
static __always_inline bool in_family(__u32 tgid, __u64 signal)
{
	__u64 *member = bpf_map_lookup_elem(&family, &tgid);

	if (!member)
		return false;
	if (!*member)
		*member = signal;
	return *member == signal;
}

// rest_wanted does the last tests of task_wanted. task is NULL if it must not be read by plain loads.
static __always_inline int rest_wanted(struct task_struct *task, __u32 tgid, __u32 trap)
{
	const volatile struct task_filter *f = &filter;

	if (f->by_family && !in_family(tgid, task ? (__u64)task->signal : signal_of((void *)bpf_get_current_task())))
		return 0;
	if (f->no_irq && ks_in_interrupt(trap))
		return 0;
	if (f->by_cgroups && !in_cgroups())
		return 0;
	return !f->cgroup || bpf_get_current_ancestor_cgroup_id(f->cgroup_level) == f->cgroup;
}

// ks_filter_untyped is task_wanted for kernels without BTF: it uses helpers only.
FUNC int ks_filter_untyped(__u32 trap)
{
	const volatile struct task_filter *f = &filter;
	__u64 ids = bpf_get_current_pid_tgid();
	__u32 tgid = ids >> 32;
	struct name name = {};

	if (f->pids.count && !listed(&f->pids, tgid))
		return 0;
	if (f->not_pids.count && listed(&f->not_pids, tgid))
		return 0;
	if (f->tids.count && !listed(&f->tids, ids))
		return 0;
	if (f->uids.count && !listed(&f->uids, bpf_get_current_uid_gid()))
		return 0;
	if (comms.count || not_comms.count) {
		bpf_get_current_comm(&name, sizeof(name));
		if (!comm_wanted(name.low, name.high))
			return 0;
	}
	return rest_wanted(0, tgid, trap);
}

// uid_of is the user that a task acts as. Where BTF says that cred is under RCU, as clang's does, the verifier has it tested.
static __always_inline __u32 uid_of(struct task_struct *task)
{
	struct cred *cred = task->cred;

	return cred ? cred->uid.val : 0;
}

// task_wanted reports whether calls of the current task are traced now. The cheapest tests
// come first. For trap, see ks_in_interrupt.
static __always_inline int task_wanted(__u32 trap)
{
	const volatile struct task_filter *f = &filter;
	struct task_struct *task;
	struct name *comm;
	__u32 tgid;

	if (untyped)
		return ks_filter_untyped(trap);
	task = bpf_get_current_task_btf();
	tgid = task->tgid;
	if (f->pids.count && !listed(&f->pids, tgid))
		return 0;
	if (f->not_pids.count && listed(&f->not_pids, tgid))
		return 0;
	if (f->tids.count && !listed(&f->tids, task->pid))
		return 0;
	if (f->uids.count && !listed(&f->uids, uid_of(task)))
		return 0;
	if (comms.count || not_comms.count) {
		comm = (void *)task->comm;
		if (!comm_wanted(comm->low, comm->high))
			return 0;
	}
	return rest_wanted(task, tgid, trap);
}

FUNC int ks_filter(__u32 trap)
{
	return task_wanted(trap);
}

#endif
