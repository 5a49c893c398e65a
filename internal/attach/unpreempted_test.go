// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUnpreempted: what is called runs before ordinary tasks, and what comes after it does not.
func TestUnpreempted(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	policy := func() unix.SchedAttr {
		attr, err := unix.SchedGetAttr(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return *attr
	}
	before, failed := policy(), errors.New("failed")
	allowed := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0) == nil
	if allowed {
		if err := unix.SchedSetAttr(0, &before, 0); err != nil {
			t.Fatal(err)
		}
	}
	var during unix.SchedAttr
	if err := unpreempted(func() error { during = policy(); return failed }); err != failed {
		t.Errorf("returns %v, want what f does", err)
	}
	switch {
	case policy() != before:
		t.Errorf("afterwards %+v, before %+v", policy(), before)
	case !allowed && during != before:
		t.Errorf("%+v where it is not allowed", during)
	case !allowed:
		t.Skip("this process may not have a real-time thread: nothing else is looked at")
	case during.Policy != unix.SCHED_FIFO || during.Priority != 1 || during.Flags&unix.SCHED_FLAG_RESET_ON_FORK == 0:
		t.Errorf("%+v, want a real-time thread whose children are not", during)
	}
}
