// SPDX-License-Identifier: GPL-2.0
//
// Clears the ints of the kernel at the addresses that it is loaded with, for the sweep
// in guests: how long RCU rests and waits around each of the grace periods for which the kernel
// waits when a function's last trampoline program goes.

#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

static unsigned long at[8];
static int count;
module_param_array(at, ulong, &count, 0400);

static int __init ksnoop_haste_init(void)
{
	int i;

	for (i = 0; i < count; i++) {
		pr_info("ksnoop_haste: %d at %px becomes 0\n", *(int *)at[i], (void *)at[i]);
		WRITE_ONCE(*(int *)at[i], 0);
	}
	return 0;
}
module_init(ksnoop_haste_init);

static void __exit ksnoop_haste_exit(void) {}
module_exit(ksnoop_haste_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("shorter rests for the sweep of ksnoop");
