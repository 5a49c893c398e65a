// SPDX-License-Identifier: GPL-2.0
//
// Branch records without the hardware, for tests in guests: a PMU that accepts
// events with a branch stack, and a snapshot that gives back what was written
// to /sys/module/ksnoop_branches/parameters/records.

#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/static_call.h>
#include <linux/string.h>

// Where /proc/kallsyms has what is not exported to modules.
static unsigned long key, tramp;
module_param(key, ulong, 0400);
MODULE_PARM_DESC(key, "address of __SCK__perf_snapshot_branch_stack");
module_param(tramp, ulong, 0400);
MODULE_PARM_DESC(tramp, "address of __SCT__perf_snapshot_branch_stack");

// A CPU on which no event can be opened.
static int broken_cpu = -1;
module_param(broken_cpu, int, 0600);

// What was asked for last, and how many events there are.
static unsigned long long kinds;
module_param(kinds, ullong, 0400);
static atomic_t events = ATOMIC_INIT(0);
static int events_get(char *buf, const struct kernel_param *p)
{
	return sysfs_emit(buf, "%d\n", atomic_read(&events));
}
static const struct kernel_param_ops events_ops = { .get = events_get };
module_param_cb(events, &events_ops, NULL, 0400);

static struct perf_branch_entry records[64];
static unsigned int count;

// Records are written newest first: FROM:TO:FLAGS, each hexadecimal, separated
// by blanks. They must not be written while snapshots are taken.
static int records_set(const char *text, const struct kernel_param *p)
{
	unsigned int n = 0;
	int used;

	count = 0;
	for (;;) {
		u64 word[3];

		text = skip_spaces(text);
		if (!*text)
			break;
		if (n == ARRAY_SIZE(records) || sscanf(text, "%llx:%llx:%llx%n", &word[0], &word[1], &word[2], &used) != 3)
			return -EINVAL;
		memset(&records[n], 0, sizeof(records[n]));
		memcpy(&records[n++], word, sizeof(word));
		text += used;
	}
	count = n;
	return 0;
}
static const struct kernel_param_ops records_ops = { .set = records_set };
module_param_cb(records, &records_ops, NULL, 0200);

static int replay(struct perf_branch_entry *entries, unsigned int most)
{
	unsigned int n = min(most, count);

	memcpy(entries, records, n * sizeof(*entries));
	return n;
}

static void event_destroy(struct perf_event *event)
{
	atomic_dec(&events);
}

static int event_init(struct perf_event *event)
{
	if (event->attr.type != PERF_TYPE_HARDWARE || !has_branch_stack(event))
		return -ENOENT;
	if (event->cpu == broken_cpu)
		return -EBUSY;
	kinds = event->attr.branch_sample_type;
	atomic_inc(&events);
	event->destroy = event_destroy;
	return 0;
}

static int event_add(struct perf_event *event, int flags) { return 0; }
static void event_del(struct perf_event *event, int flags) { }
static void event_start(struct perf_event *event, int flags) { }
static void event_stop(struct perf_event *event, int flags) { }
static void event_read(struct perf_event *event) { }

static struct pmu pmu = {
	.module = THIS_MODULE,
	.event_init = event_init,
	.add = event_add,
	.del = event_del,
	.start = event_start,
	.stop = event_stop,
	.read = event_read,
};

static int __init branches_init(void)
{
	int err;

	if (!key || !tramp)
		return -EINVAL;
	err = perf_pmu_register(&pmu, "cpu", PERF_TYPE_RAW);
	if (err)
		return err;
	__static_call_update((struct static_call_key *)key, (void *)tramp, replay);
	return 0;
}

static void __exit branches_exit(void)
{
	// NULL would be called by the next snapshot.
	__static_call_update((struct static_call_key *)key, (void *)tramp, __static_call_return0);
	perf_pmu_unregister(&pmu);
}

module_init(branches_init);
module_exit(branches_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("branch records for the tests of ksnoop");
