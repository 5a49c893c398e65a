/* SPDX-License-Identifier: Apache-2.0 */
/* Marks of all kinds, which TestMarks compares with what readelf lists. */
#include <sys/sdt.h>

struct point {
	int x;
	long y;
	short table[8];
};
unsigned short probe_guarded_semaphore __attribute__((section(".probes")));
long global = 5;

__attribute__((noinline)) void work(struct point *p, unsigned char small, int i, long big)
{
	STAP_PROBE(plain, nothing);
	STAP_PROBE4(app, numbers, small, i, big, (unsigned short)big);
	STAP_PROBE3(app, memory, p->x, p->y, p->table[i]);
	STAP_PROBE3(app, constant, 7, -9L, (char)3);
	STAP_PROBE2(app, address, p, &p->y);
	STAP_PROBE1(app, numbers, i + 1);
	STAP_PROBE1(app, global, global);
	__asm__ volatile("" : : "r"(p), "r"(i) : "memory");
}

int main(int argc, char **argv)
{
	struct point p = { argc, 20, { 1, 2, 3 } };

	work(&p, argc, 1, -1);
	return argv == 0;
}
