// SPDX-License-Identifier: Apache-2.0

// An XDP program with subprograms, for `ip link` to load. It tallies ICMP packets by their types.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct tally {
	__u64 packets;
	__u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct tally);
} tallies SEC(".maps");

// Static, with a pointer into the packet.
static __attribute__((noinline)) __u32 payload_of(struct iphdr *ip, __u32 header)
{
	__u32 total = bpf_ntohs(ip->tot_len);

	return total > header ? total - header : 0;
}

// Global, with a pointer that is checked by itself.
__attribute__((noinline)) int icmp_type(struct xdp_md *ctx, __u32 offset)
{
	__u8 type;

	if (bpf_xdp_load_bytes(ctx, offset, &type, sizeof(type)))
		return -1;
	return type;
}

__attribute__((noinline)) int tally_packet(__u32 type, __u32 bytes)
{
	struct tally *t = bpf_map_lookup_elem(&tallies, &type);

	if (!t)
		return -1;
	__sync_fetch_and_add(&t->packets, 1);
	__sync_fetch_and_add(&t->bytes, bytes);
	return 0;
}

static __attribute__((always_inline)) int pass(struct xdp_md *ctx)
{
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;
	struct iphdr *ip = (void *)(eth + 1);
	__u32 payload, header;
	int type;

	if ((void *)(ip + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != IPPROTO_ICMP)
		return XDP_PASS;
	header = ip->ihl * 4;
	payload = payload_of(ip, header);
	type = icmp_type(ctx, sizeof(*eth) + header);
	if (type >= 0)
		tally_packet(type, payload);
	return XDP_PASS;
}

SEC("xdp")
int xdp_tally(struct xdp_md *ctx)
{
	return pass(ctx);
}

// The same by another name, for a device that runs it itself.
SEC("xdp.frags")
int xdp_native(struct xdp_md *ctx)
{
	return pass(ctx);
}

char LICENSE[] SEC("license") = "GPL";
