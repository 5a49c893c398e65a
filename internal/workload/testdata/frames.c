// SPDX-License-Identifier: Apache-2.0

// Frames reads 33 bytes of /dev/zero through a chain of functions that is
// known, as often as it is told to. It is built with frame pointers.

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static int fd;
static char buf[64];

// The system call is made here and not in libc, whose functions have no frames.
NOINLINE long frames_read(void)
{
	long result;

	__asm__ volatile("" : : "r"(__builtin_frame_address(0))); // even a leaf has one then

	__asm__ volatile(
#if defined(__x86_64__)
		"syscall" : "=a"(result) : "0"(0L), "D"((long)fd), "S"(buf), "d"(33L) : "rcx", "r11", "memory"
#elif defined(__aarch64__)
		"mov x8, #63\n\tmov x0, %1\n\tmov x1, %2\n\tmov x2, #33\n\tsvc #0\n\tmov %0, x0"
		: "=r"(result) : "r"((long)fd), "r"(buf) : "x0", "x1", "x2", "x8", "memory"
#else
#error "how is a system call made here?"
#endif
	);
	return result;
}

NOINLINE long frames_inner(void) { return frames_read() + 1; }

NOINLINE long frames_outer(void) { return frames_inner() + 1; }

int main(int argc, char **argv)
{
	long calls = argc > 1 ? atol(argv[1]) : 1, wrong = 0;

	fd = open("/dev/zero", O_RDONLY);
	while (calls-- > 0)
		wrong += frames_outer() != 35;
	// Time to look at the process, which is told to go on by closing its input.
	while (read(0, buf, sizeof(buf)) > 0)
		;
	return wrong != 0;
}
