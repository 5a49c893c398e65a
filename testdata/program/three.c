// SPDX-License-Identifier: Apache-2.0

#include <string.h>
#include "shared.h"

static long gcd(long a, long b)
{
	while (b) {
		long rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static inline long lcm(long a, long b)
{
	{
		long divisor = gcd(a, b);

		if (!divisor)
			rare("no divisor");
		return a / divisor * b;
	}
}

long three(long a, long b)
{
	char buffer[64];
	long sum = 0;

	memset(buffer, (int)a, sizeof(buffer));
	for (int i = 0; i < 64; i += 8) {
		long word;

		memcpy(&word, buffer + i, sizeof(word));
		sum = mix(sum, lcm(word, b));
	}
	return sum + lcm(a, b);
}

/* Inlined into push, and there for other files as well. */
int send(int n)
{
	return (int)gcd(n, 12) + 1;
}

int push(int n)
{
	if (n > 3)
		return send(n * 7);
	return n;
}
