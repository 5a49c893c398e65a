// SPDX-License-Identifier: Apache-2.0

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "shared.h"

void rare(const char *why)
{
	fprintf(stderr, "%s\n", why);
	abort();
}

static int hex(char c)
{
	switch (c) {
	case '0' ... '9':
		return c - '0';
	case 'a' ... 'f':
		return c - 'a' + 10;
	case 'A' ... 'F':
		return c - 'A' + 10;
	}
	return -1;
}

/* Nobody calls it, so that the linker may throw it away. */
int unused(const char *text)
{
	return hex(*text) + (int)strlen(text);
}

static int parse(const char *text, int n)
{
	int sum = 0;

	for (int i = 0; i < n && text[i]; i++) {
		int digit = hex(text[i]);

		if (digit < 0) {
			if (text[i] == '!')
				rare(text);
			break;
		}
		sum = sum * 16 + digit;
	}
	return sum;
}

int two(const char *text, int n)
{
	return parse(text, n) + (int)mix(n, parse(text + 1, n - 1));
}
