// SPDX-License-Identifier: Apache-2.0

#include <stdio.h>
#include <stdlib.h>
#include "shared.h"

static int depth(const struct list *l)
{
	int n = 0;

	while (l) {
		n++;
		l = l->next;
	}
	return n;
}

static inline int bounded(int n, int most)
{
	return n < 0 ? 0 : n > most ? most : n;
}

static __attribute__((noinline)) int pick(const struct list *head, int n, int spare)
{
	n = bounded(n, depth(head));
	while (head && n-- > 0) {
		if (head->value == spare)
			continue;
		head = head->next;
	}
	return head ? (int)mix_list(head, n) : spare;
}

int one(struct list *head, int n)
{
#ifndef __clang__
	/* GNU C's: it has its entry inside of its parent's, with code elsewhere. */
	__attribute__((noinline)) int nested(int k)
	{
		return (int)mix(k + n, (long)head) + depth(head);
	}
	int (*volatile call)(int) = nested;

	n += call(n);
#endif
	return pick(head, n, 7) + pick(head, n + 1, 9);
}

int main(int argc, char **argv)
{
	struct list *head = NULL;

	for (int i = 0; i < argc; i++) {
		struct list *l = calloc(1, sizeof(*l));

		if (!l)
			rare("no memory");
		snprintf(l->name, sizeof(l->name), "%s", argv[i]);
		l->value = mix(i, two(l->name, bounded(argc, 20)));
		l->next = head;
		head = l;
	}
	printf("%d %ld\n", one(head, argc), three(argc, mix_list(head, argc)));
	return 0;
}
