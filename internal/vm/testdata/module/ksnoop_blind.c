// SPDX-License-Identifier: GPL-2.0
//
// For as long as it is loaded, the kernel saves no stack pointer for programs at the return of a
// call (return_to_handler, arch/x86/kernel/ftrace_64.S), as Linux 6.14 to 6.17, or its own, as the
// first releases of 6.18 and 6.19.

#include <linux/io.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

static unsigned long at;
module_param(at, ulong, 0400);
MODULE_PARM_DESC(at, "address of return_to_handler");
static bool own;
module_param(own, bool, 0400);
MODULE_PARM_DESC(own, "save the handler's own stack pointer");

#define LEN 8

static const u8 saved[LEN] = { 0x48, 0x89, 0xbc, 0x24, 0x98, 0, 0, 0 }; // mov %rdi, 0x98(%rsp)
static const u8 saved_own[LEN] = { 0x48, 0x89, 0xa4, 0x24, 0x98, 0, 0, 0 }; // mov %rsp, 0x98(%rsp)
static const u8 nothing[LEN] = { 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0 }; // nop

static u8 *place;
static void *window; // of two pages, where the kernel's code may be written

static int __init ksnoop_blind_init(void)
{
	struct page *pages[2];
	int i;

	for (i = 0; i < 64 && memcmp((u8 *)at + i, saved, LEN); i++)
		;
	if (i == 64)
		return -ENOENT;
	at += i;
	pages[0] = virt_to_page((void *)at);
	pages[1] = virt_to_page((void *)at + PAGE_SIZE);
	window = vmap(pages, 2, VM_MAP, PAGE_KERNEL);
	if (!window)
		return -ENOMEM;
	place = window + offset_in_page(at);
	memcpy(place, own ? saved_own : nothing, LEN);
	return 0;
}
module_init(ksnoop_blind_init);

static void __exit ksnoop_blind_exit(void)
{
	memcpy(place, saved, LEN);
	vunmap(window);
}
module_exit(ksnoop_blind_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("returns without a stack pointer for tests of ksnoop");
