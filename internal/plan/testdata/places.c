// SPDX-License-Identifier: Apache-2.0

// The part of a program with random functions that is the same for all: TestPlaces appends types,
// functions and their calls. Each call reaches capture(), which keeps the registers and the stack that
// the compiler has put the arguments in. The program compares them with the places that it is told.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long word;

word regs[8], shown[2], floats[8];
unsigned char *sp;
int in_memory, in_x87;

static unsigned char next(void)
{
	static word seed = 1;

	seed = seed * 6364136223846793005UL + 1442695040888963407UL;
	return seed >> 56;
}

// fill writes random bytes to a member, and says which bytes of the value count.
static void fill(void *v, void *mask, int n)
{
	for (int i = 0; i < n; i++)
		((unsigned char *)v)[i] = next();
	memset(mask, 0xff, n);
}

#ifdef __x86_64__
enum { REGISTERS = 6, LONG_DOUBLE = 10 };
__asm__(".globl capture, give\n"
	"capture:\n"
	"	mov %rdi, regs(%rip)\n mov %rsi, regs+8(%rip)\n mov %rdx, regs+16(%rip)\n"
	"	mov %rcx, regs+24(%rip)\n mov %r8, regs+32(%rip)\n mov %r9, regs+40(%rip)\n"
	"	mov %rsp, sp(%rip)\n"
	"	jmp record\n"
	"give:\n"
	"	mov %rdi, regs(%rip)\n mov %rsi, regs+8(%rip)\n"
	"	mov shown(%rip), %rax\n mov shown+8(%rip), %rdx\n"
	"	movups floats(%rip), %xmm0\n movups floats+16(%rip), %xmm1\n"
	"	cmpl $0, in_memory(%rip)\n je 1f\n mov %rdi, %rax\n"
	"1:	cmpl $2, in_x87(%rip)\n jb 2f\n fldt floats+16(%rip)\n"
	"2:	cmpl $1, in_x87(%rip)\n jb 3f\n fldt floats(%rip)\n"
	"3:	ret\n");
#else
enum { REGISTERS = 8, LONG_DOUBLE = 16 };
__asm__(".globl capture, give\n"
	"capture:\n"
	"	adrp x9, regs\n add x9, x9, :lo12:regs\n"
	"	stp x0, x1, [x9]\n stp x2, x3, [x9, 16]\n stp x4, x5, [x9, 32]\n stp x6, x7, [x9, 48]\n"
	"	adrp x9, sp\n add x9, x9, :lo12:sp\n mov x10, sp\n str x10, [x9]\n"
	"	b record\n"
	"give:\n"
	"	adrp x9, regs\n add x9, x9, :lo12:regs\n stp x0, x1, [x9]\n"
	"	adrp x9, shown\n add x9, x9, :lo12:shown\n ldp x0, x1, [x9]\n"
	"	adrp x9, floats\n add x9, x9, :lo12:floats\n ldp q0, q1, [x9]\n ldp q2, q3, [x9, 32]\n"
	"	ret\n");
#endif

void capture(void);
void give(void);
void (*volatile captured)(void) = capture, (*volatile given)(void) = give;

// What one function takes: values, which of their bytes count, and how many there are.
struct argument { unsigned char *v, *mask; int size; };
static struct argument arguments[32];
static int function, count;

// A place is where ksnoop looks for a value: in registers, for a pointer to it (ref), or on the stack.
struct place { int absent, lost, ref, stack, reg[2]; };
static FILE *places;

static struct place told(void)
{
	struct place p;

	if (fscanf(places, "%d %d %d %d %d %d", &p.absent, &p.lost, &p.ref, &p.stack, &p.reg[0], &p.reg[1]) != 6)
		exit(2);
	return p;
}

// elsewhere checks that what is said to be in no register is not.
static void elsewhere(int n, const unsigned char *v, const unsigned char *mask)
{
	for (int r = 0; r < REGISTERS; r++)
		if (!memcmp(mask, "\xff\xff\xff\xff", 4) && !memcmp(v, &regs[r], 4))
			printf("f%d: argument %d is in register %d\n", function, n, r);
}

void record(void)
{
	for (int n = 0; n < count; n++) {
		struct argument *a = &arguments[n];
		struct place p = told();

		for (int i = 0; i < a->size; i++) {
			unsigned char *at = sp + p.stack + i;

			if (p.absent || p.lost & 1 << i / 8) {
				if (i % 8 == 0 && i + 4 <= a->size)
					elsewhere(n, a->v + i, a->mask + i);
				continue;
			}
			if (p.ref)
				at = (p.reg[0] >= 0 ? *(unsigned char **)&regs[p.reg[0]] : *(unsigned char **)(sp + p.stack)) + i;
			else if (p.reg[0] >= 0)
				at = (unsigned char *)&regs[p.reg[i / 8]] + i % 8;
			if ((*at ^ a->v[i]) & a->mask[i]) {
				printf("f%d: byte %d of argument %d is elsewhere\n", function, i, n);
				break;
			}
		}
	}
}

// before prepares for a call that returns something; after compares it with what ksnoop would read.
static struct place before(void)
{
	struct place p = told();

	fill(shown, shown, 0);
	for (int i = 0; i < 2; i++)
		fill(&shown[i], &(word){0}, 8);
	fill(floats, &(word[8]){0}, sizeof floats);
	in_memory = p.stack, in_x87 = p.ref;
	return p;
}

static void after(struct place p, unsigned char *v, unsigned char *mask, int size)
{
	if (regs[p.reg[0]] != 0x1111)
		printf("f%d: its argument is not in register %d\n", function, p.reg[0]);
	for (int i = 0; i < size && !in_memory; i++) {
		unsigned char *at = (unsigned char *)&shown[i / 8 ? p.reg[1] : 0] + i % 8;

		if (p.absent || p.lost & 1 << i / 8) {
			for (int r = 0; r < 2 && i % 8 == 0 && i + 4 <= size && !p.absent; r++)
				if (!memcmp(mask + i, "\xff\xff\xff\xff", 4) && !memcmp(v + i, &shown[r], 4))
					printf("f%d: byte %d of the result is in a register\n", function, i);
			continue;
		}
		if ((*at ^ v[i]) & mask[i]) {
			printf("f%d: byte %d of the result is elsewhere\n", function, i);
			break;
		}
	}
}
