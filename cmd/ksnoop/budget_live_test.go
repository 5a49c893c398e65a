// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// pausedTime matches what is said at the end of a run with pauses.
var pausedTime = regexp.MustCompile(`(?m)^ksnoop: ([0-9]+) milliseconds in which no calls were looked at`)

// TestLiveMaxCPU: tracing that takes more of the machine than it may looks at fewer calls, whole
// ones, and says so; where that does not help it ends, and nothing stays attached.
func TestLiveMaxCPU(t *testing.T) {
	guest.Require(t)
	flooded := func(args ...string) (out, errs string, status int) {
		t.Helper()
		r := startTrace(t, args...)
		defer flood(t, 43)()
		out, status = r.wait(t)
		return out, r.errs.String(), status
	}
	out, errs, status := flooded("--for=7s", "--max-cpu=5%", "vfs_read(count == 43, *file, return == 43)")
	begun, ended := len(block.FindAllString(out, -1)), strings.Count(out, "\n);\n")
	if status != 0 || begun == 0 || begun != ended || !strings.Contains(errs, "--max-cpu allows 5%: calls are looked at for ") || sum(t, pausedTime, errs) == 0 {
		t.Errorf("status %d, %d records of which %d are whole:\n%s", status, begun, ended, errs)
	}
	if os.Getenv("KSNOOP_SOAK") == "" {
		t.Log("that it ends where it cannot be kept takes long: run `make soak`")
		return
	}
	_, errs, status = flooded("--for=1m", "--max-cpu=1%", "vfs_read(count == 42)")
	if status != exitFailed || !strings.Contains(errs, "and still would if it looked at next to no calls; --max-cpu allows 1%") {
		t.Errorf("status %d\n%s", status, errs)
	}
}

// TestLiveHeartbeat: whatever is traced on an idle machine, it stays usable: something that wants to run every
// 100 ms does so.
func TestLiveHeartbeat(t *testing.T) {
	guest.Require(t)
	if os.Getenv("KSNOOP_SOAK") == "" {
		t.Skip("takes minutes, and is about time: run `make soak`")
	}
	for _, spec := range []string{"try_to_wake_up", "_raw_spin_lock_irqsave", "*()"} {
		var late atomic.Int64
		done := make(chan struct{})
		beats := 0
		go func() {
			defer close(done)
			for last := time.Now(); ; beats++ {
				select {
				case done <- struct{}{}:
					return
				case <-time.After(100 * time.Millisecond):
				}
				now := time.Now()
				late.Store(max(late.Load(), int64(now.Sub(last)-100*time.Millisecond)))
				last = now
			}
		}()
		_, errs, status := printedOnce(t, "sh", "-c", `ksnoop trace --for=20s "$0" >/dev/null`, spec)
		<-done
		t.Logf("soak: %s on an idle machine: status %d, %d beats, at most %v late", spec, status, beats, time.Duration(late.Load()))
		if late := time.Duration(late.Load()); late > time.Second {
			t.Errorf("%s: the machine stood still for %v: %s", spec, late, errs)
		}
	}
}
