//go:build ignore

// SPDX-License-Identifier: Apache-2.0

// Programs of several types, for tests that trace BPF programs. programs.go runs them and knows
// what each function is called with.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

// The kernel's struct has members in front of these.
struct sk_buff {
	unsigned int len;
	__u16 queue_mapping;
} __attribute__((preserve_access_index));

struct trace_event_raw_sys_enter {
	long id;
	unsigned long args[6];
} __attribute__((preserve_access_index));

// The kernel has a struct key, too, and it has other members.
struct key {
	__u32 port;
	__s16 weight;
	char name[8];
};

enum verdict { VERDICT_PASS = 7, VERDICT_DROP = 9 };

long seen;
struct key keys[2] = {{.weight = -3, .name = "first"}, {.port = 1, .weight = 400, .name = "second"}};

// Static, and with a pointer to what no kernel describes.
static __attribute__((noinline)) enum verdict classify(struct key *key, int size)
{
	__sync_fetch_and_add(&seen, 1);
	return key->port + size > 100 ? VERDICT_DROP : VERDICT_PASS;
}

// Global: verified by itself, so that its types are relied on.
__attribute__((noinline)) int weigh(int size, long weight, __u8 sort)
{
	__sync_fetch_and_add(&seen, size); /* or else calls whose result nobody wants are left out */
	if (sort == 3)
		return -22;
	return size * 2 + (int)weight;
}

// A pointer is returned.
static __attribute__((noinline)) struct key *chosen(struct key *a, struct key *b, __u64 which)
{
	__sync_fetch_and_add(&seen, which);
	return which & 1 ? b : a;
}

static __attribute__((noinline)) void noted(struct xdp_md *ctx, __u32 length)
{
	__sync_fetch_and_add(&seen, ctx->rx_queue_index + length);
}

// Nobody needs the context or the result: the compiler passes two arguments, and BTF says three.
static __attribute__((noinline)) long scaled(struct xdp_md *ctx, int factor, long size)
{
	__sync_fetch_and_add(&seen, factor * size);
	return factor + size;
}

SEC("xdp")
int target_xdp(struct xdp_md *ctx)
{
	__u32 length = ctx->data_end - ctx->data;
	struct key *a = &keys[0], *b = &keys[1];
	int sum;

	/* or else the compiler passes less than chosen is declared to take */
	asm volatile("" : "+r"(a), "+r"(b));
	a->port = length;
	sum = weigh(length, b->weight, length == 66 ? 3 : 0);

	noted(ctx, length);
	scaled(ctx, length ^ 3, sum);
	if (classify(chosen(a, b, length), sum) == VERDICT_DROP)
		return XDP_DROP;
	return XDP_PASS;
}

SEC("socket")
int target_socket(struct __sk_buff *skb)
{
	return weigh(skb->len, 5, 1);
}

SEC("tp/syscalls/sys_enter_getpgid")
int target_tracepoint(struct trace_event_raw_sys_enter *ctx)
{
	return weigh(40, 2, 0) > 0;
}

SEC("raw_tp")
int target_raw(struct bpf_raw_tracepoint_args *ctx)
{
	return classify(&(struct key){.port = ctx->args[0], .weight = ctx->args[1], .name = "raw"}, 1);
}

SEC("fentry/bpf_fentry_test1")
int target_fentry(unsigned long long *ctx)
{
	weigh(ctx[0], 0, 0);
	return 0; /* anything else is refused */
}

static __attribute__((noinline)) __u32 queue_of(struct sk_buff *skb)
{
	return skb->queue_mapping;
}

// The program's own struct sk_buff has len at its beginning.
SEC("tp_btf/kfree_skb")
int target_freed(unsigned long long *ctx)
{
	seen += queue_of((void *)ctx[0]);
	return 0;
}

SEC("syscall")
int target_syscall(unsigned long *ctx)
{
	return weigh(*ctx, 1, 0);
}

struct sock;
struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*set_state)(struct sock *sk, __u8 new_state);
	char name[16];
} __attribute__((preserve_access_index));

SEC("struct_ops")
__u32 target_ssthresh(unsigned long long *ctx)
{
	return 2;
}

SEC("struct_ops")
void target_avoid(unsigned long long *ctx)
{
	weigh(ctx[1], ctx[2], 0);
}

SEC("struct_ops")
__u32 target_undo(unsigned long long *ctx)
{
	return 10;
}

SEC("struct_ops")
void target_state(unsigned long long *ctx)
{
	weigh(ctx[1], 0, 0);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops target_ops = {
	.ssthresh = (void *)target_ssthresh,
	.cong_avoid = (void *)target_avoid,
	.undo_cwnd = (void *)target_undo,
	.set_state = (void *)target_state,
	.name = "ksnoop_target",
};

char LICENSE[] SEC("license") = "GPL";
