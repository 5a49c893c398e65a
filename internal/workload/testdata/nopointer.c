// SPDX-License-Identifier: Apache-2.0

// Nopointer reads 33 bytes of /dev/zero below as many calls as it is told, and ends at once. It is
// built without frame pointers.

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static volatile long sink;
static char buf[64];

__attribute__((noinline, noclone)) long nopointer_deep(int n)
{
	volatile long room[5];

	room[n % 5] = n;
	if (n > 1)
		sink += nopointer_deep(n - 1);
	else
		sink += read(0, buf, 33);
	return sink + room[n % 5];
}

// A signal comes between, whose frame the kernel makes.
static void on_signal(int number) { sink += nopointer_deep(3) + number; }

int main(int argc, char **argv)
{
	int depth = argc > 1 ? atoi(argv[1]) : 3, fd = open("/dev/zero", O_RDONLY);

	if (fd < 0 || dup2(fd, 0) < 0 || signal(SIGUSR1, on_signal) == SIG_ERR)
		return 1;
	sink += nopointer_deep(depth);
	return raise(SIGUSR1);
}
