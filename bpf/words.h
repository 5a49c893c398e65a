/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The arguments and the result of a call, for programs whose context is struct pt_regs, as
 * arch/x86/include/asm/ptrace.h and arch/arm64/include/asm/ptrace.h have it. In the
 * programs of trampolines, generated functions replace these.
 */
#ifndef KSNOOP_WORDS_H
#define KSNOOP_WORDS_H

#include "args.h"

// ks_words loads all words that are in registers and, if n is larger, those on the stack. On
// x86 the return address is there first.
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

// ks_result loads the return register.
FUNC __u64 ks_result(void *ctx)
{
	__u64 *regs = ctx;

#if defined(__TARGET_ARCH_arm64)
	return regs[0];
#else
	return regs[10];
#endif
}

// ks_place is replaced in programs of functions of the process whose records have the place of the call. The compiler must not
// see that it returns 0.
FUNC __u64 ks_place(void *ctx)
{
	__u64 place;

	asm volatile("%0 = 0" : "=r"(place) : "r"(ctx));
	return place;
}

// ks_return_address loads the program counter, which at a return is in the caller already.
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
