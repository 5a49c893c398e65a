// SPDX-License-Identifier: Apache-2.0

/* gcc cuts the seldom part of rare() off, and puts it back where it is the only user. */
extern int work(int *p, int n);

int rare(int *p, int n)
{
	if (!p)
		return 0;
	for (int i = 0; i < n; i++)
		work(p + i, work(p, i) + work(p, n));
	work(p, 7);
	work(p, 8);
	return work(p, n);
}

int user(int *p, int n)
{
	if (n > 5)
		return rare(p, n) + 1;
	return rare(p, 3);
}

int other(int *p)
{
	return rare(p, 9) * 2;
}
