/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Captures all arguments of a call: the words that they are passed in, and what pointers among
 * them point to. A list in a map describes the arguments of each function, so tens
 * of thousands of functions can share one program. Sessions call this.
 */
#ifndef KSNOOP_ARGS_H
#define KSNOOP_ARGS_H

// kernel_half reports whether an address is in the kernel's half. arm64 ignores the highest byte of
// addresses of user space, and with CONFIG_KASAN_HW_TAGS of those of the kernel: they may have any there.
static __always_inline bool kernel_half(__u64 addr)
{
#if defined(__TARGET_ARCH_arm64)
	return addr >> 55 & 1;
#else
	return (__s64)addr < 0;
#endif
}

// copy_target copies what p points to, in the kernel or in user space, and returns how many bytes that
// takes, header and padding included.
static __always_inline __u32 copy_target(struct arg_bytes *to, __u64 p, __u32 i, __u32 kind, __u32 size)
{
	void *data = to + 1;
	long n;

	if (size > ARG_REACH)
		size = ARG_REACH;
	if (kind == TARGET_TEXT)
		n = kernel_half(p) ? bpf_probe_read_kernel_str(data, size, (void *)p)
				   : bpf_probe_read_user_str(data, size, (void *)p);
	else
		n = kernel_half(p) ? bpf_probe_read_kernel(data, size, (void *)p)
				   : bpf_probe_read_user(data, size, (void *)p);
	to->target = i;
	to->pad = 0;
	to->flags = n < 0 ? TARGET_FAULT : 0;
	if (n < 0)
		size = 0;
	else if (kind == TARGET_TEXT)
		size = n > ARG_REACH ? ARG_REACH : n;
	to->size = size;
	return sizeof(*to) + ((size + 7) & ~7U);
}

// ks_user_words is for system calls, whose only word points to the registers of user space.
// It replaces the word by the arguments in them.
FUNC int ks_user_words(__u64 *words)
{
#if defined(__TARGET_ARCH_arm64)
	enum { REGS = 6 }; /* x0 to x5 */
	static const int order[] = { 0, 1, 2, 3, 4, 5 };
#else
	enum { REGS = 15 }; /* r15 to di; system calls take r10 for cx */
	static const int order[] = { 14, 13, 12, 7, 9, 8 };
#endif
	__u64 regs[REGS];

	bpf_probe_read_kernel(regs, sizeof(regs), (void *)words[0]);
#pragma unroll
	for (int i = 0; i < 6; i++)
		words[i] = regs[order[i]];
	return 0;
}

// ks_args appends what the words of a call point to. There are ARG_WORDS words at at, and
// room for ARGS_MAX bytes in all. It keeps the words of the list, and appends the targets of
// those that are not NULL. It returns how many bytes are used.
FUNC __u32 ks_args(void *at, const struct arg_list *list)
{
	__u64 *words = at;
	__u32 used = list->words;

	used = used > ARG_WORDS ? 8 * ARG_WORDS : 8 * used;
	for (int i = 0; i < ARG_TARGETS; i++) {
		const struct arg_target *t = &list->target[i];
		__u32 w = t->word;

		if (i >= list->targets)
			break;
		if (w >= ARG_WORDS || !words[w] || 8 * w >= used)
			continue;
		used += nothing; // else the verifier would follow the rest for each size
		if (used > ARGS_MAX - sizeof(struct arg_bytes) - ARG_REACH)
			break;
		used += copy_target(at + used, words[w], i, t->kind, t->size);
	}
	if (list->withheld) {
		for (int i = 0; i < ARG_WORDS; i++)
			words[i] &= (__u64)(list->withheld >> i & 1) - 1; // a branch would double the verifier's work
	}
	return used;
}

#endif
