// SPDX-License-Identifier: Apache-2.0

// A congestion control, for bpftool to register. It is Reno's slow start, and halves what was in flight after a loss.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct sock;

struct tcp_sock {
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
} __attribute__((preserve_access_index));

struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*init)(struct sock *sk);
	char name[16];
} __attribute__((preserve_access_index));

long losses;

// Global: verified by itself.
__attribute__((noinline)) __u32 reno_half(__u32 window)
{
	__sync_fetch_and_add(&losses, 1);
	return window > 4 ? window / 2 : 2;
}

static __attribute__((noinline)) void reno_grow(struct tcp_sock *tp, __u32 acked)
{
	__u32 window = tp->snd_cwnd + acked;

	tp->snd_cwnd = window < tp->snd_ssthresh ? window : tp->snd_ssthresh;
}

SEC("struct_ops")
void BPF_PROG(reno_init, struct tcp_sock *tp)
{
	tp->snd_ssthresh = 1000;
}

SEC("struct_ops")
__u32 BPF_PROG(reno_ssthresh, struct tcp_sock *tp)
{
	return reno_half(tp->snd_cwnd);
}

SEC("struct_ops")
void BPF_PROG(reno_avoid, struct tcp_sock *tp, __u32 ack, __u32 acked)
{
	if (tp->snd_cwnd < tp->snd_ssthresh)
		reno_grow(tp, acked);
}

SEC("struct_ops")
__u32 BPF_PROG(reno_undo, struct tcp_sock *tp)
{
	return tp->snd_cwnd;
}

SEC("struct_ops")
void BPF_PROG(reno_state, struct tcp_sock *tp, __u8 state)
{
}

// Without a link: it stays when bpftool has ended.
SEC(".struct_ops")
struct tcp_congestion_ops foreign_reno = {
	.ssthresh = (void *)reno_ssthresh,
	.cong_avoid = (void *)reno_avoid,
	.undo_cwnd = (void *)reno_undo,
	.set_state = (void *)reno_state,
	.init = (void *)reno_init,
	.name = "foreign_reno",
};

char LICENSE[] SEC("license") = "GPL";
