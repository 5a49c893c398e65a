// SPDX-License-Identifier: Apache-2.0

/*
 * Each function but note() is inlined, and first of all notes what it was
 * called with. Whoever stops the program where the inlined code begins should
 * find the same.
 */
#include <stdio.h>

#define inlined static inline __attribute__((always_inline))

struct pair {
	int first;
	long second;
};

static __attribute__((noinline)) void note(const char *name, long a, long b, long c)
{
	printf("%s %ld %ld %ld\n", name, a, b, c);
}

inlined long narrow(signed char a, unsigned short b, int c)
{
	note("narrow", a, b, c);
	return a + b - c;
}

inlined long wide(long a, unsigned long b, long c)
{
	note("wide", a, (long)b, c);
	return a * (long)b + c;
}

inlined long pointed(struct pair *a, const long *b, int c)
{
	note("pointed", (long)a, (long)b, c);
	a->second += *b;
	return a->first + c;
}

inlined long loaded(int a, long b, long c)
{
	note("loaded", a, b, c);
	return a ^ b ^ c;
}

inlined long outer(long a, long b, long c)
{
	note("outer", a, b, c);
	a += narrow((signed char)(a >> 1), (unsigned short)b, -(int)c);
	return wide(a, 7, b + c) + narrow(-1, 65535, 3);
}

inlined long changed(long a, long b, long c)
{
	note("changed", a, b, c);
	while (a < b) {
		a = a * 2 + 1;
		c += wide(c, a & 15, a);
	}
	return c;
}

__attribute__((noinline)) long first(long n, struct pair *p)
{
	struct pair own = { .first = (int)n, .second = n * n };
	long word = n << 33;
	long sum = loaded(p->first, p->second, word);

	sum += pointed(&own, &word, 5) + pointed(p, &own.second, (int)n);
	return sum + own.second + loaded(own.first, own.second, p->second);
}

__attribute__((noinline)) long second(long a, long b, long c, long d, long e, long f, long g, long h)
{
	return outer(a, b, c) + changed(d - e, f * 3, g) + wide(h, (unsigned long)a >> 60, ~g) + outer(h & 0xff, g, 2 * f);
}

int main(void)
{
	struct pair p = { .first = -12, .second = 1L << 40 };
	long sum = 0;

	for (long n = -3; n < 40; n += 7) {
		sum += first(n, &p);
		sum += second(n, n * 3, sum & 0xffff, n + 1, 2, n, -n, 1L << n % 60);
	}
	note("end", sum, 0, 0);
	return 0;
}
