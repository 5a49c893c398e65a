// SPDX-License-Identifier: Apache-2.0
// What stands for a module in tests.

static inline __attribute__((always_inline)) int halved(int n)
{
	return n / 2;
}

__attribute__((noinline)) int part(int n, volatile int *p)
{
	*p = n;
	return halved(*p);
}
