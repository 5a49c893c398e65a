// SPDX-License-Identifier: Apache-2.0
// What stands for vmlinux in tests.

__attribute__((section(".text.first"))) void _stext(void) {}

static inline __attribute__((always_inline)) int bounded(int n)
{
	return n < 0 ? 0 : n > 7 ? 7 : n;
}

__attribute__((noinline)) int first(int n)
{
	return bounded(n) * 3;
}

__attribute__((noinline)) int second(int n, volatile int *p)
{
	*p = bounded(n + 1);
	return first(*p) - n;
}
