// SPDX-License-Identifier: Apache-2.0
// A program with what makes debug info difficult. It is built in many ways.

#pragma once

struct list {
	struct list *next;
	long value;
	char name[24];
};

int one(struct list *head, int n);
int two(const char *text, int n);
long three(long a, long b);
void rare(const char *why) __attribute__((cold, noreturn));

static inline __attribute__((always_inline)) long mix(long a, long b)
{
	a ^= b << 7;
	a *= 0x9e3779b97f4a7c15;
	return a ^ (a >> 31);
}

static inline __attribute__((always_inline)) long mix_list(const struct list *l, long seed)
{
	for (; l; l = l->next) {
		long before = seed;
		seed = mix(seed, l->value);
		if (__builtin_expect(seed == before, 0))
			rare("nothing was mixed in");
	}
	return seed;
}
