/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose functions are traced: user N DEPTH calls each so often, with arguments that tests
 * know, and user N DEPTH PROGRAM runs that program then. It has no C library, so that it is small and the same for every kernel.
 */

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#ifdef __x86_64__
enum { NR_openat = 257, NR_execve = 59, NR_exit_group = 231, NR_prctl = 157 };
#else
enum { NR_openat = 56, NR_execve = 221, NR_exit_group = 94, NR_prctl = 167 };
#endif
enum { AT_FDCWD = -100, O_RDONLY = 0, ENOENT = 2, PR_SET_NAME = 15 };

#define NOINLINE __attribute__((noinline))

struct point {
	int x, y;
	unsigned char kind;
	char name[15];
	struct point *next;
};

static long system_call(long number, long a, long b, long c, long d)
{
#ifdef __x86_64__
	long result;
	register long r10 __asm__("r10") = d;

	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
	return result;
#else
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c, x3 __asm__("x3") = d;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
#endif
}

/* user_add returns the sum; b is negative in every other call. */
NOINLINE long user_add(long a, int b, unsigned char c)
{
	__asm__ volatile("" ::: "memory");
	return a + b + c;
}

/* user_weigh adds up the points of a list. */
NOINLINE long user_weigh(const struct point *p, const char *label)
{
	long sum = 0;

	__asm__ volatile("" : : "r"(label) : "memory");
	for (; p; p = p->next)
		sum += p->x + p->y;
	return sum;
}

/* user_open fails with the kernel's error. */
NOINLINE long user_open(const char *path, int flags)
{
	return system_call(NR_openat, AT_FDCWD, (long)path, flags, 0);
}

/* user_depth calls itself. */
NOINLINE int user_depth(int n)
{
	int below = n > 1 ? user_depth(n - 1) : 0;

	__asm__ volatile("" : "+r"(below));
	return below + 1;
}

/*
 * jump_even and jump_odd jump to each other, so that all share a stack pointer and one return. jump_even(n) returns whether n is even.
 */
NOINLINE int jump_odd(int n);

NOINLINE int jump_even(int n)
{
	__asm__ volatile("" : "+r"(n));
	if (n == 0)
		return 1;
	__attribute__((musttail)) return jump_odd(n - 1);
}

NOINLINE int jump_odd(int n)
{
	__asm__ volatile("" : "+r"(n));
	if (n == 0)
		return 0;
	__attribute__((musttail)) return jump_even(n - 1);
}

/* jump_turns calls it three times, from the same place in the stack. */
NOINLINE int jump_turns(int n)
{
	int sum = 0;

	for (int i = 0; i < 3; i++) {
		sum += jump_even(n + i);
		__asm__ volatile("" : "+r"(sum));
	}
	return sum;
}

/*
 * jump_save returns 0, and 1 when jump_back is called, as setjmp and longjmp do. jump_out and jump_on share a stack
 * pointer. jump_on leaves both by jump_back, but for the last time.
 */
extern int jump_save(void) __asm__(".Ljump_save"); // a label, and no symbol
extern void jump_back(void) __asm__(".Ljump_back");
long jump_saved[16];

#ifdef __x86_64__
__asm__(".Ljump_save:\n mov $jump_saved, %eax\n pop %rdx\n mov %rsp, (%rax)\n mov %rdx, 8(%rax)\n mov %rbx, 16(%rax)\n mov %rbp, 24(%rax)\n"
	" mov %r12, 32(%rax)\n mov %r13, 40(%rax)\n mov %r14, 48(%rax)\n mov %r15, 56(%rax)\n xor %eax, %eax\n jmp *%rdx\n"
	".Ljump_back:\n mov $jump_saved, %eax\n mov (%rax), %rsp\n mov 16(%rax), %rbx\n mov 24(%rax), %rbp\n"
	" mov 32(%rax), %r12\n mov 40(%rax), %r13\n mov 48(%rax), %r14\n mov 56(%rax), %r15\n mov 8(%rax), %rdx\n mov $1, %eax\n jmp *%rdx\n");
#else
__asm__(".Ljump_save:\n ldr x9, =jump_saved\n mov x10, sp\n stp x10, x30, [x9]\n stp x19, x20, [x9, 16]\n stp x21, x22, [x9, 32]\n"
	" stp x23, x24, [x9, 48]\n stp x25, x26, [x9, 64]\n stp x27, x28, [x9, 80]\n str x29, [x9, 96]\n mov x0, 0\n ret\n"
	".Ljump_back:\n ldr x9, =jump_saved\n ldp x10, x30, [x9]\n mov sp, x10\n ldp x19, x20, [x9, 16]\n ldp x21, x22, [x9, 32]\n"
	" ldp x23, x24, [x9, 48]\n ldp x25, x26, [x9, 64]\n ldp x27, x28, [x9, 80]\n ldr x29, [x9, 96]\n mov x0, 1\n ret\n .ltorg\n");
#endif

NOINLINE int jump_on(int n)
{
	if (n > 0)
		jump_back();
	return n;
}

NOINLINE int jump_out(int n)
{
	__asm__ volatile("" : "+r"(n));
	__attribute__((musttail)) return jump_on(n);
}

NOINLINE void jump_outs(volatile int n)
{
	for (; n >= 0; n--)
		if (!jump_save())
			jump_out(n);
}

/* jump_higher does the same, but each call is at a higher place in the stack than the one before. */
NOINLINE void jump_room(int n, int room)
{
	char space[16 * room + 16];

	__asm__ volatile("" : : "r"(space) : "memory");
	jump_out(n);
	__asm__ volatile("" : : "r"(space) : "memory");
}

NOINLINE void jump_higher(volatile int n)
{
	for (; n >= 0; n--)
		if (!jump_save())
			jump_room(n, n);
}

/* jump_within(n) returns n if that is even. Within the call, one of itself with n + 1 leaves by jump_back. */
NOINLINE int jump_within(volatile int n)
{
	if (n % 2)
		jump_back();
	if (n > 0)
		jump_within(n - 2);
	if (!jump_save())
		jump_within(n + 1);
	return n;
}

/* jump_away leaves by jump_back. */
NOINLINE int jump_away(int n)
{
	jump_back();
	return n;
}

/* jump_named calls jump_away in a thread that is called "first", and then in the same one when it is called "second". */
NOINLINE void jump_named(volatile int n)
{
	for (; n < 2; n++) {
		system_call(NR_prctl, PR_SET_NAME, (long)(n ? "second" : "first"), 0, 0);
		if (!jump_save())
			jump_away(n);
	}
}

/* fail_whole fails with the error of fail_first. Meanwhile the call of fail_jump, which fail_later makes, does not return. */
NOINLINE int fail_first(int n)
{
	__asm__ volatile("" : "+r"(n));
	return -ENOENT;
}

NOINLINE int fail_jump(int n)
{
	jump_back();
	return n;
}

NOINLINE int fail_later(volatile int n)
{
	if (!jump_save())
		fail_jump(n);
	return 0;
}

NOINLINE int fail_whole(int n)
{
	int error = fail_first(n);

	fail_later(n);
	__asm__ volatile("" : "+r"(error));
	return error;
}

/* run_program runs another program. */
NOINLINE long run_program(const char *path, char *const argv[])
{
	return system_call(NR_execve, (long)path, (long)argv, 0, 0);
}

/* user_many has more arguments than there are registers. */
NOINLINE long user_many(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j)
{
	__asm__ volatile("" ::: "memory");
	return a + b + c + d + e + f + g + h + i + j;
}

static const char no_such_file[] = "/no/such/file";
static struct point second = { 3, 4, 2, "second", 0 };
static struct point first = { 1, 2, 1, "first", &second };

/* How many look at a mark. */
unsigned short user_step_semaphore __attribute__((section(".probes")));
unsigned short user_guarded_semaphore __attribute__((section(".probes")));

/* number returns argument i, or otherwise if there are not so many. */
static int number(const long *stack, int i, int otherwise)
{
	int n = 0;

	if (stack[0] <= i)
		return otherwise;
	for (const char *digit = (const char *)stack[1 + i]; *digit; digit++)
		n = 10 * n + *digit - '0';
	return n;
}

__attribute__((used)) static void run(long *stack)
{
	int count = number(stack, 1, 0), depth = number(stack, 2, 3);

	// What a process has not touched yet is unreadable when its functions are called.
	(void)*(const volatile char *)no_such_file;
	(void)*(volatile int *)&first.x;
	for (int i = 0; i < count; i++) {
		struct point here = { 10 + i, 20, 3, "here", &first };

		user_add(1000 + i, i % 2 ? -i : i, 255);
		user_weigh(&here, "a label");
		user_open(no_such_file, O_RDONLY);
		user_depth(depth);
		jump_turns(depth);
		jump_outs(depth);
		jump_within(depth - depth % 2);
		if (depth >= 300)
			jump_higher(depth);
		jump_named(0);
		fail_whole(i);
		STAP_PROBE4(user, step, i, (short)-i, here.next->x, (unsigned char)(250 + i));
		if (*(volatile unsigned short *)&user_guarded_semaphore)
			STAP_PROBE2(user, guarded, here.name, 1UL << 40);
		user_many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10 + i);
	}
	if (stack[0] > 3) {
		char *argv[] = { (char *)stack[4], 0 };

		run_program(argv[0], argv);
	}
	system_call(NR_exit_group, 0, 0, 0, 0);
}

#ifdef __x86_64__
__asm__(".globl _start\n_start:\n mov %rsp, %rdi\n and $-16, %rsp\n call run\n");
#else
__asm__(".globl _start\n_start:\n mov x0, sp\n bl run\n");
#endif
