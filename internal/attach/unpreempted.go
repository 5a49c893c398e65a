// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// unpreempted calls f on a thread that no ordinary task preempts, if this process may have one. f makes system calls
// on maps: while a task is preempted inside one, the kernel skips the programs of kprobes on that CPU
// (bpf_disable_instrumentation), which would be all calls of a time slice. f must be short, or sleep.
func unpreempted(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if had, err := unix.SchedGetAttr(0, 0); err == nil && had.Policy == unix.SCHED_NORMAL {
		// Threads that the runtime starts meanwhile are ordinary ones.
		realtime := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
		if unix.SchedSetAttr(0, realtime, 0) == nil {
			defer func() {
				if unix.SchedSetAttr(0, had, 0) != nil { // the flag needs CAP_SYS_NICE to go
					had.Flags |= unix.SCHED_FLAG_RESET_ON_FORK
					_ = unix.SchedSetAttr(0, had, 0)
				}
			}()
		}
	}
	return f()
}
