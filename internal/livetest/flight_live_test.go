// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveInFlight: of 100 calls within each other kprobe.session sees as many as the kernel has
// room to wait for. Up to Linux 6.13 that is twice as many as there are CPUs for each
// of the two functions, from 6.14 on what fits into 4 KiB. All others are counted, by a
// cause of their own, and from 6.14 on the session says so, too.
func TestLiveInFlight(t *testing.T) {
	guest.Require(t)
	if !offered(t, "session") {
		t.Skip("no kprobe.session here")
	}
	loadModule(t, "ksnoop_nest", "")
	const depth = 100
	out, errs, status := printedOnce(t, "ksnoop", "-T", "-S", "-s", "none", "--attach", "session", "-e", "ksnoop_nest_set", "-a", "ksnoop_nest", "--",
		"sh", "-c", fmt.Sprintf("echo %d > /sys/module/ksnoop_nest/parameters/depth", depth))
	seen := len(regexp.MustCompile(`(?m)^ +[→↔] ksnoop_nest \[ksnoop_nest\]`).FindAllString(out, -1))
	unseen := counted(t, errs, "calls or returns not seen because the kernel has no room to wait for more returns at once")
	t.Logf("%d calls seen, %d counted as not seen", seen, unseen)
	if status != 0 || seen == 0 || seen >= depth || seen+unseen != depth || !strings.Contains(errs, "; functions that sleep or call themselves are better traced with ") {
		t.Errorf("status %d, %d calls seen and %d counted of %d:\n%s", status, seen, unseen, depth, errs)
	}
}

// TestLiveInFlightKretprobe: of many kretprobes that are attached together each has room for few returns. Of 100 calls within
// each other the others are counted, by the same cause.
func TestLiveInFlightKretprobe(t *testing.T) {
	guest.Require(t)
	loadModule(t, "ksnoop_nest", "")
	const depth = 100
	out, errs, status := printedOnce(t, "ksnoop", "trace", "--attach=kprobe", "ksnoop_nest(return)", "xfrm_*(return)", "--",
		"sh", "-c", fmt.Sprintf("echo %d > /sys/module/ksnoop_nest/parameters/depth", depth))
	seen := records(out, "sh", "ksnoop_nest")
	unseen := counted(t, errs, "calls or returns not seen because the kernel has no room to wait for more returns at once")
	t.Logf("%d returns seen, %d counted as not seen", seen, unseen)
	if status != 0 || seen < 32 || seen >= depth || seen+unseen != depth {
		t.Errorf("status %d, %d returns seen and %d counted of %d:\n%s", status, seen, unseen, depth, errs)
	}
}

// TestLiveSkippedKprobes: a call in an interrupt that comes while another kprobe is being handled is counted as skipped at both of
// its ends, and not as one for whose return there was no room. Without tracefs each kprobe is one of an address.
func TestLiveSkippedKprobes(t *testing.T) {
	guest.Require(t)
	if !theKernel().AtLeast(6, 7) {
		t.Skip("before Linux 6.7 the kernel does not count all kprobes that it skips")
	}
	for hidden, function := range map[string]string{"": "hrtimer_interrupt", "/sys/kernel/tracing /sys/kernel/debug": "hrtimer_i*"} {
		skipped := 0
		for try := 0; try < 5 && skipped == 0; try++ {
			_, errs, status := printedOnce(t, "unshare", hidingArgs(strings.Fields(hidden), "trace", "--attach=kprobe", "--stats", function+"($duration > 1000000000000)", "vfs_read(*file, return == 77777)", "--",
				"workload", "read", "-count", "100000")...)
			skipped = counted(t, errs, "calls or returns not seen because the kernel skips tracing programs")
			if room := counted(t, errs, "calls or returns not seen because the kernel has no room to wait for more returns at once"); status != 0 || room > 0 {
				t.Errorf("%s: status %d, %d ends of calls skipped, %d without room:\n%s", function, status, skipped, room, errs)
			}
		}
		if skipped == 0 {
			t.Errorf("%s: nothing was skipped: the test does not test", function)
		}
	}
}
