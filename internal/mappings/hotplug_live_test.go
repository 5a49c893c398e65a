// SPDX-License-Identifier: Apache-2.0

package mappings

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveHotplug: what a CPU does is followed again once it has been off, and that some may be missing is said before anything is told
// that happened later.
func TestLiveHotplug(t *testing.T) {
	guest.Require(t)
	w, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	// Whether what runs on the second CPU is followed.
	followed := func() (runs, lost bool) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var before, second unix.CPUSet
		second.Set(1)
		if err := unix.SchedGetaffinity(0, &before); err != nil {
			t.Fatal(err)
		}
		if err := unix.SchedSetaffinity(0, &second); err != nil {
			t.Fatal(err)
		}
		defer unix.SchedSetaffinity(0, &before)
		command := exec.Command("true")
		if err := command.Run(); err != nil {
			t.Fatal(err)
		}
		events := w.Take(nil, Now())
		runs = slices.ContainsFunc(events, func(e Event) bool { return e.Kind == Execed && e.PID == uint32(command.Process.Pid) })
		return runs, slices.ContainsFunc(events, func(e Event) bool { return e.Kind == Lost })
	}
	if runs, lost := followed(); !runs || lost {
		t.Fatalf("before: followed %v, lost %v", runs, lost)
	}
	turn := func(on int) {
		if err := os.WriteFile("/sys/devices/system/cpu/cpu1/online", []byte(strconv.Itoa(on)), 0); err != nil {
			t.Fatal(err)
		}
	}
	lost := func() bool {
		return slices.ContainsFunc(w.Take(nil, Now()), func(e Event) bool { return e.Kind == Lost })
	}
	if turn(0); lost() {
		t.Error("one is off: something is lost")
	}
	turn(1)
	if turn(0); !lost() {
		t.Error("it was on for a moment: nothing is lost")
	}
	if lost() {
		t.Error("it is off: something is lost")
	}
	for _, off := range []time.Duration{livetest.Patience(3 * time.Second), 0} {
		for on, pause := range []time.Duration{off, 0} {
			turn(on)
			time.Sleep(pause)
		}
		if _, lost := followed(); !lost {
			t.Errorf("as soon as it is on again, after %v: nothing is lost", off)
		}
		if runs, lost := followed(); !runs || lost {
			t.Errorf("once it is on again, after %v: followed %v, lost %v", off, runs, lost)
		}
	}
}
