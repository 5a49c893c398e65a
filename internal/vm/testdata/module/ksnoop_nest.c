// SPDX-License-Identifier: GPL-2.0
//
// A function that calls itself as often as is written to
// /sys/module/ksnoop_nest/parameters/depth, for tests in guests: the kernel's
// own functions do not nest that deep.

#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

static noinline int ksnoop_nest(int more)
{
	int sum = more;

	if (more > 1)
		sum += ksnoop_nest(more - 1);
	barrier(); // so that it is a call and no jump
	return sum;
}

static noinline int ksnoop_nest_set(const char *text, const struct kernel_param *p)
{
	int depth, err = kstrtoint(text, 10, &depth);

	if (err)
		return err;
	if (depth > 300) // of 16 KiB of stack
		return -E2BIG;
	return ksnoop_nest(depth) < 0 ? -EINVAL : 0;
}

static const struct kernel_param_ops depth_ops = {.set = ksnoop_nest_set};
module_param_cb(depth, &depth_ops, NULL, 0200);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("nested calls for the tests of ksnoop");
