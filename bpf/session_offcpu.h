/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Off-CPU time: for how long the thread of a session, and each call in it, was not running.
 * session_switch sees all threads as they leave and take a CPU, and adds up what those with a
 * session miss. A call notes the sum when it begins; when it returns, the difference is its own.
 *
 * Nothing here is verified or executed unless wanted.notes is NOTE_OFF_CPU, and only then
 * do sessions have a struct off_cpu, behind log and stash.
 */
#ifndef KSNOOP_SESSION_OFFCPU_H
#define KSNOOP_SESSION_OFFCPU_H

static __always_inline struct off_cpu *off_cpu_of(struct session *s)
{
	return (void *)s->log + log_size + stash_size;
}

// off_until returns total as it was at a time just passed. The thread may have been preempted since:
// that absence is not in it.
static __always_inline __u64 off_until(volatile struct off_cpu *o, __u64 time)
{
	__u64 total = o->total, left = o->left, away = o->away;

	if (total != o->total) { // preempted here
		total = o->total;
		left = o->left;
		away = o->away;
	}
	return left >= time ? total - away : total;
}

// off_at returns &words[i]. As with at, the mask is for the verifier.
static __always_inline __u64 *off_at(__u64 *words, __u64 i)
{
	asm volatile("%0 &= %1" : "+r"(i) : "i"(DEPTH - 1));
	return words + i;
}

// kept_off returns the words of a kept chain.
static __always_inline __u64 *kept_off(struct session *s, struct chain *c)
{
	__u32 i = 0;

	while (i < KEPT - 1 && c != &s->kept[i])
		i++;
	return off_cpu_of(s)->kept[i];
}

// ks_off_keep copies the words of the calls that are now a kept chain. What lies behind those of calls
// is of the session, too.
FUNC int ks_off_keep(struct session *s, struct chain *c)
{
	__u64 n = c->size;

	if (n <= CHAIN)
		bpf_probe_read_kernel(kept_off(s, c), n * sizeof(__u64), off_at(off_cpu_of(s)->calls, c->from));
	return 0;
}

// ks_off_restore copies those of a kept chain that is now in place again.
FUNC int ks_off_restore(struct session *s, struct chain *c)
{
	__u64 n = c->size;

	if (n <= CHAIN)
		bpf_probe_read_kernel(off_at(off_cpu_of(s)->calls, c->from), n * sizeof(__u64), kept_off(s, c));
	return 0;
}

// session_switch runs with interrupts off, where a CPU passes from one thread to another.
// A thread that takes a CPU has since only if it had a session when it left one: open_sessions
// counts that session all the time, so both switches were seen.
SEC("tp_btf/sched_switch")
int session_switch(__u64 *ctx)
{
	struct session *s;
	struct off_cpu *o;
	__u64 now;

	if (!open_sessions)
		return 0;
	now = bpf_ktime_get_ns();
	s = session_of_task(ctx[1]);
	if (s)
		off_cpu_of(s)->since = now;
	s = session_of_task(ctx[2]);
	if (!s)
		return 0;
	o = off_cpu_of(s);
	if (o->since) {
		o->left = o->since;
		o->away = now - o->since;
		o->total += o->away;
	}
	o->since = 0;
	return 0;
}

#endif
