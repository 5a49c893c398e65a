// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// stashed traces calls of vfs_read that a return predicate decides, while a
// shell runs a script whose output is not to get between the records.
func stashed(t *testing.T, attach, spec, script string) (out, errs string) {
	t.Helper()
	out, errs, status := printedOnce(t, "ksnoop", "trace", attach, "--stats", spec, "--", "sh", "-c", "exec >/dev/null; "+steady+script)
	if status != 0 {
		t.Fatalf("%s: status %d: %s", script, status, errs)
	}
	return out, errs
}

// TestLiveStashThreads: every call of every thread, with the values of its own.
func TestLiveStashThreads(t *testing.T) {
	guest.Require(t)
	methods(t, func(t *testing.T, attach string) {
		for _, threads := range []int{1, 8} {
			out, errs := stashed(t, attach, "vfs_read(count >= 61, return == count)",
				fmt.Sprintf("workload threads -threads %d -count 40 -size 61 & workload threads -threads %[1]d -count 40 -size 62; wait", threads))
			for size := 61; size < 63; size++ {
				n := 0
				for _, block := range strings.Split(out, "\n);\n") {
					if strings.Contains(block, fmt.Sprint("count = (size_t)", size, ",")) && strings.Contains(block, fmt.Sprint("return = (ssize_t)", size)) {
						n++
					}
				}
				missed := sum(t, skipped, errs)
				if want := 40 * threads; n != want && n+missed < want {
					t.Errorf("%d threads: %d calls of %d bytes, %d missed, want %d: %s", threads, n, size, missed, want, errs)
				}
			}
			if lost := counted(t, errs, "(?:records lost|calls not seen)"); lost > 0 {
				t.Errorf("%d threads: %d lost: %s", threads, lost, errs)
			}
		}
	})
}

// TestLiveStashSleepers: calls that are open at the same time, far more than
// any table of the kernel's has room for by default. kprobes wait for 4096.
func TestLiveStashSleepers(t *testing.T) {
	guest.Require(t)
	open := map[string]int{"--attach=fentry": 3000, "--attach=kprobe": 3000}
	if os.Getenv("KSNOOP_SOAK") != "" {
		open["--attach=fentry"] = 10000
	}
	for attach, n := range open {
		out, errs := stashed(t, attach, "vfs_read(count == 1, return == 1)", fmt.Sprintf("workload sleepers -n %d -for 1s", n))
		if got := records(out, "workload", "vfs_read"); got > n || got+sum(t, skipped, errs) < n {
			t.Errorf("%s: %d records of %d calls: %s", attach, got, n, errs)
		}
	}
}

// TestLiveStashAbandoned: calls that never return, because their task is killed
// or its process exits, leave nothing behind that others could miss or be taken
// for: 600 tasks are more than have room if it is not given back.
func TestLiveStashAbandoned(t *testing.T) {
	guest.Require(t)
	methods(t, func(t *testing.T, attach string) {
		out, errs := stashed(t, attach, "vfs_read(count >= 1, count < 68, count != 64, return >= 67 || return < 0)",
			"for i in 1 2 3; do workload exit-group -threads 200 -for 20ms -code 0; done; workload killed -for 5ms; "+
				"workload threads -threads 4 -count 5 -size 67")
		missed := 0
		if preempts(t) { // see skipped
			missed = sum(t, skipped, errs)
		}
		if n := strings.Count(out, "return = (ssize_t)67\n"); n > 20 || n+missed < 20 {
			t.Errorf("%d records of 20 calls after those that never returned: %s", n, errs)
		}
		if lost := counted(t, errs, "(?:records lost|calls not seen)"); lost > 0 {
			t.Errorf("%d lost: %s", lost, errs)
		}
	})
}

// TestLiveStashNested: traced functions within each other, each with its own
// values: vfs_open is called by do_sys_openat2 by way of others. A name whose
// page is not in memory yet cannot be compared, which is counted.
func TestLiveStashNested(t *testing.T) {
	guest.Require(t)
	methods(t, func(t *testing.T, attach string) {
		out, errs, status := ksnoop(t, "trace", attach, `do_sys_openat2(ustr(filename) == "/dev/zero", return >= 0)`,
			`vfs_open(path->dentry->d_name.name == "zero", return == 0)`, "--", "sh", "-c", "exec >/dev/null; "+steady+"workload open -file /dev/zero -count 30")
		outer, inner := records(out, "workload", "do_sys_openat2"), records(out, "workload", "vfs_open")
		if outer != 30 || inner != 30 || status != 0 || sum(t, summary, strings.ReplaceAll(errs, "left out because a predicate", "")) > 0 {
			t.Errorf("%d calls of the outer and %d of the inner function, want 30, status %d: %s", outer, inner, status, errs)
		}
	})
}

// TestLiveStashCollisions: with frames so large that the table has few of them, the
// calls of most threads find their places taken. Each call that is shown has the
// values of its own thread, and those not shown are counted.
func TestLiveStashCollisions(t *testing.T) {
	guest.Require(t)
	const made = 300
	for _, attach := range []string{"--attach=fentry", "--attach=kprobe"} {
		for _, c := range []struct {
			room string
			full bool
		}{{"--in-flight=2000", false}, {"--in-flight=16", true}} {
			out, errs, status := printedOnce(t, "ksnoop", "trace", attach, c.room, "--ringbuf=16M", "--stats", "vfs_read(count == 1, $tid, buf(file, 2000), return == 1)",
				"--", "sh", "-c", fmt.Sprintf("exec >/dev/null; %sworkload sleepers -n %d -for 1s", steady, made))
			tids := map[string]bool{}
			for _, tid := range regexp.MustCompile(`\$tid = \([a-z0-9_ ]+\)\d+`).FindAllString(out, -1) {
				tids[tid] = true
			}
			shown, lost := records(out, "workload", "vfs_read"), counted(t, errs, "calls not seen because too many were in flight")
			missed := sum(t, skipped, errs)
			if n := shown + lost; n > made || n+missed < made || len(tids) != shown || (lost > 0) != c.full || shown == 0 || status != 0 {
				t.Errorf("%s %s: %d printed of %d threads, %d lost, %d skipped, made %d, status %d: %s", attach, c.room, shown, len(tids), lost, missed, made, status, errs)
			}
			if marked := sum(t, mark, out); marked != lost {
				t.Errorf("%s %s: marks of %d calls, %d were lost", attach, c.room, marked, lost)
			}
			if want := "; make room for more with --in-flight\n"; c.full && !strings.Contains(errs, want) {
				t.Errorf("no %q in: %s", want, errs)
			}
		}
	}
}
