/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What a call is passed, and returns, for programs that are given the
 * registers, as arch/x86/include/asm/ptrace.h and
 * arch/arm64/include/asm/ptrace.h have them.
 */
#ifndef KSNOOP_WORDS_H
#define KSNOOP_WORDS_H

#include "args.h"

// ks_words loads the first n words that a call is passed. It is generated for
// fentry programs; this is for probes that are given the registers.
FUNC int ks_words(void *ctx, __u64 *words, __u32 n)
{
	__u64 *regs = ctx;
#if defined(__TARGET_ARCH_arm64)
	enum { REGS = 8, SP = 31, SKIP = 0 };

#pragma unroll
	for (int i = 0; i < REGS; i++)
		words[i] = regs[i];
#else
	enum { REGS = 6, SP = 19, SKIP = 8 };

	words[0] = regs[14];
	words[1] = regs[13];
	words[2] = regs[12];
	words[3] = regs[11];
	words[4] = regs[9];
	words[5] = regs[8];
#endif
	if (n > REGS)
		bpf_probe_read_kernel(&words[REGS], 8 * (ARG_WORDS - REGS), (void *)regs[SP] + SKIP);
	return 0;
}

// ks_result loads what a call returns; it is replaced like ks_words.
FUNC __u64 ks_result(void *ctx)
{
	__u64 *regs = ctx;

#if defined(__TARGET_ARCH_arm64)
	return regs[0];
#else
	return regs[10];
#endif
}

// ks_return_address returns where the function goes that has just returned. It is
// replaced like ks_words; trampolines do not know, and it returns 0.
FUNC __u64 ks_return_address(void *ctx)
{
	__u64 *regs = ctx;

#if defined(__TARGET_ARCH_arm64)
	return regs[32];
#else
	return regs[16];
#endif
}

#endif
