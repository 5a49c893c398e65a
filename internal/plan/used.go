// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"slices"

	"github.com/ksnoop/ksnoop/internal/glob"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// tracingUses are functions that run whenever a traced function is called: what calls our
// programs, and what these call. Tracing them would make the kernel skip calls, at a high
// cost. TestLiveEngineCalls compares the list with what a kernel calls. It is never
// changed.
var tracingUses = [...]string{
	// From the traced function to the program.
	"bpf_trampoline_*", "__bpf_tramp_*", "__bpf_prog_enter*", "__bpf_prog_exit*", "kprobe_multi_link_*", "trace_call_bpf",
	"fprobe_*", "rethook_*", "arch_rethook_*", "kprobe_*", "kretprobe_*", "__kretprobe_*", "ftrace_*", "arch_ftrace_*",
	"migrate_disable", "migrate_enable", "__rcu_read_lock", "__rcu_read_unlock", "__migrate_*",
	// __rcu_read_unlock after a program calls these if the task was preempted in it.
	"rcu_read_unlock_special", "rcu_preempt_deferred_qs*", "raise_softirq*", "__raise_softirq*", "invoke_rcu_core",
	// From a function of the process to its programs.
	"uprobe_notify_resume", "handle_swbp", "__x64_sys_uprobe", "__x64_sys_uretprobe",
	// Around an interrupt, before it counts as one.
	"irq_enter*", "irq_exit*", "__irq_exit*", "irqentry_*", "nmi_*", "sysvec_*", "__sysvec_*", "common_interrupt", "__common_interrupt",
	// Helpers.
	"bpf_get_current_*", "bpf_ktime_get_*", "ktime_get_mono_fast_ns", "ktime_get_boot_fast_ns", "bpf_get_func_ip_*", "bpf_get_attach_cookie_*",
	// What reads the clock, of which a kernel chooses one and another when that one is unstable.
	"read_tsc", "read_hpet", "acpi_pm_read*", "kvm_clock_get_cycles", "kvm_clock_read", "pvclock_clocksource_read*", "read_hv_clock_*", "xen_clocksource_get_cycles", "arch_counter_*",
	"bpf_probe_read_*", "copy_from_kernel_nofault*", "strncpy_from_kernel_nofault", "strncpy_from_user_nofault", "copy_from_user_nofault",
	"bpf_ringbuf_*", "__bpf_ringbuf_*", "_raw_spin_lock_irqsave", "_raw_spin_unlock_irqrestore", "*queued_spin_lock_slowpath", "*resilient_*spin_lock*", "irq_work_queue*",
	"bpf_get_stack*", "__bpf_get_stack*", "bpf_get_smp_processor_id",
	"__htab_map_lookup_elem", "lookup_elem_raw", "lookup_nulls_elem_raw",
	"get_perf_callchain", "perf_callchain_*", "get_callchain_*", "put_callchain_*", "unwind_*", "__unwind_*", "orc_*", "__orc_find", "in_task_stack", "callchain_*",
	"get_stack_info*", "stack_access_ok", "kernel_text_address", "__kernel_text_address", "is_bpf_text_address", "bpf_address_lookup", "__module_address",
	"bpf_ksym_find", "__is_insn_slot_addr", "in_gate_area_no_mm", "from_kuid", "from_kgid", "map_id_up", "map_id_range_up", "mod_find", "bpf_has_frame_pointer", "__module_text_address", "is_module_text_address", "is_ftrace_trampoline", "ftrace_ops_trampoline",
}

// errUsedByTracing is why a glob leaves a function out.
var errUsedByTracing = errors.New("used by the tracing itself; give its full name if it must be traced")

// UsedByTracing reports whether tracing itself calls a function.
func UsedByTracing(f kernel.Function) bool {
	return f.Module == "" && slices.ContainsFunc(tracingUses[:], func(pattern string) bool { return glob.Match(pattern, f.Name) })
}

// endlessNames are functions that the kernel calls on the way out of every trampoline until they
// have done their work. rcu_read_unlock after a program calls the first one if the task was
// preempted in it or if somebody waits for a grace period (kernel/rcu/tree_plugin.h). A
// trampoline on such a function would call it again before it has done anything, until the
// stack overflows: Linux 7.3 panics. The kernel itself only refuses __rcu_read_unlock
// (btf_id_deny in kernel/bpf/verifier.c). The list is never changed.
var endlessNames = [...]string{"rcu_read_unlock_special", "rcu_preempt_deferred_qs*", "raise_softirq_irqoff", "__raise_softirq_irqoff", "irq_work_queue_on"}

// endless reports whether a trampoline on a function would recurse without end, since the
// kernel calls the function on the way out of every trampoline.
func endless(f kernel.Function) bool {
	return f.Module == "" && slices.ContainsFunc(endlessNames[:], func(pattern string) bool { return glob.Match(pattern, f.Name) })
}

// calledOften are functions that busy machines call more often than any others. It is never
// changed.
var calledOften = [...]string{
	"_raw_spin_*", "_raw_read_*", "_raw_write_*", "mutex_lock", "mutex_unlock", "down_read", "up_read", "down_write", "up_write", "__cond_resched",
	"schedule", "__schedule", "try_to_wake_up", "ttwu_*", "enqueue_task*", "dequeue_task*", "pick_next_task*", "update_curr*", "update_load_avg*",
	"kmem_cache_alloc*", "kmem_cache_free*", "kmalloc*", "__kmalloc*", "kfree", "kfree_*", "rcu_read_*", "__rcu_*", "call_rcu*",
	"ktime_get*", "sched_clock*", "hrtimer_interrupt", "hrtimer_start_range_ns", "hrtimer_cancel", "hrtimer_try_to_cancel", "__hrtimer_run_queues", "read_tsc",
}

// Hot reports whether a function is known to be called very often.
func Hot(f kernel.Function) bool {
	return f.Module == "" && slices.ContainsFunc(calledOften[:], func(pattern string) bool { return glob.Match(pattern, f.Name) })
}
