// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// pausedTime matches what is said at the end of a run with pauses.
var pausedTime = regexp.MustCompile(`(?m)^ksnoop: ([0-9]+) milliseconds? in which no calls were looked at`)

// tooMuch is said where a run ends since tracing takes too much whatever it looks at. What is allowed follows.
const tooMuch = "and still would if it looked at next to no calls; --max-cpu allows "

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
	out, errs, status := flooded("--for="+livetest.Patience(7*time.Second).String(), "--max-cpu=5%", "vfs_read(count == 43, *file, return == 43)")
	begun, ended := len(blocksOf(out)), strings.Count(out, "\n);\n")
	kept := status == 0 || status == exitFailed && strings.Contains(errs, tooMuch) // of a slow machine tracing takes a larger part
	if !kept || begun == 0 || begun != ended || !strings.Contains(errs, "--max-cpu allows 5%: calls are looked at for ") || sum(t, pausedTime, errs) == 0 {
		t.Errorf("status %d, %d records of which %d are whole:\n%s", status, begun, ended, errs)
	}
	if os.Getenv("KSNOOP_SOAK") == "" {
		t.Log("that it ends where it cannot be kept takes long: run `make soak`")
		return
	}
	_, errs, status = flooded("--for=1m", "--max-cpu=1%", "vfs_read(count == 42)")
	if status != exitFailed || !strings.Contains(errs, tooMuch+"1%") {
		t.Errorf("status %d\n%s", status, errs)
	}
}

// TestLiveMeasuredAlways: without the right to have programs measured, --max-cpu keeps them where the administrator has all measured.
func TestLiveMeasuredAlways(t *testing.T) {
	guest.Require(t)
	guest.Sysctl(t, "kernel.bpf_stats_enabled", "1")
	defer flood(t, 43)()
	text, _ := asNobody(t, []uintptr{unix.CAP_BPF, unix.CAP_PERFMON}, "trace", "--for="+livetest.Patience(7*time.Second).String(), "--max-cpu=1%", "vfs_read(count == 42)")
	if !strings.Contains(text, "--max-cpu allows 1%: calls are looked at for ") || strings.Contains(text, "CAP_SYS_ADMIN") {
		t.Error(text)
	}
}

// TestLiveHeartbeat: whatever is traced on an idle machine, it stays usable: something that wants to run every
// 100 ms does so, never more than a second later than it would without ksnoop.
func TestLiveHeartbeat(t *testing.T) {
	guest.Require(t)
	if os.Getenv("KSNOOP_SOAK") == "" {
		t.Skip("takes minutes, and is about time: run `make soak`")
	}
	late := func(run func()) time.Duration {
		stop, most := make(chan struct{}), make(chan time.Duration)
		go func() {
			const beat = 100 * time.Millisecond
			worst := time.Duration(0)
			for last := time.Now(); ; {
				select {
				case <-stop:
					most <- worst
					return
				case <-time.After(beat):
				}
				now := time.Now()
				last, worst = now, max(worst, now.Sub(last)-beat)
			}
		}()
		run()
		close(stop)
		return <-most
	}
	without := late(func() { time.Sleep(20 * time.Second) })
	t.Logf("soak: heartbeat without ksnoop: at most %v late", without)
	for _, spec := range []string{"try_to_wake_up", "_raw_spin_lock_irqsave", "*()"} {
		var errs string
		var status int
		with := late(func() { _, errs, status = printedOnce(t, "sh", "-c", `ksnoop trace --for=20s "$0" >/dev/null`, spec) })
		t.Logf("soak: heartbeat with %s: at most %v late, status %d: %s", spec, with, status, strings.ReplaceAll(strings.TrimSpace(errs), "\n", "; "))
		if with > without+time.Second {
			t.Errorf("%s: the machine stood still for %v, without ksnoop for %v: %s", spec, with, without, errs)
		}
	}
}
