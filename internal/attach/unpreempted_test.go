// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// realtimeRights tries on a thread that ends thereby whether this process may have a real-time one, and whether the flag
// can be taken away again that keeps its children from that: RLIMIT_RTPRIO allows the one, the other takes CAP_SYS_NICE.
func realtimeRights(t *testing.T) (allowed, clears bool) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good
		before, err := unix.SchedGetAttr(0, 0)
		if err == nil {
			allowed = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1, Flags: unix.SCHED_FLAG_RESET_ON_FORK}, 0) == nil
			clears = unix.SchedSetAttr(0, before, 0) == nil
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return allowed, clears
}

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
	allowed, clears := realtimeRights(t)
	before, failed := policy(), errors.New("failed")
	var during unix.SchedAttr
	if err := unpreempted(func() error { during = policy(); return failed }); err != failed {
		t.Errorf("returns %v, want what f does", err)
	}
	want := before
	if !clears {
		want.Flags |= unix.SCHED_FLAG_RESET_ON_FORK
	}
	switch {
	case policy() != want:
		t.Errorf("afterwards %+v, want %+v", policy(), want)
	case !allowed && during != before:
		t.Errorf("%+v where it is not allowed", during)
	case !allowed:
		t.Skip("this process may not have a real-time thread: nothing else is looked at")
	case during.Policy != unix.SCHED_FIFO || during.Priority != 1 || during.Flags&unix.SCHED_FLAG_RESET_ON_FORK == 0:
		t.Errorf("%+v, want a real-time thread whose children are not", during)
	}
}
