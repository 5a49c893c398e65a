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

// pooled records sessions of the workload's reads, with room for so many, and
// returns how many are shown, how many found no room, how many calls the kernel
// has skipped, and what ksnoop said.
func pooled(t *testing.T, room int, script string) (shown, lost, missed int, errs string) {
	t.Helper()
	out, errs, status := printedOnce(t, "ksnoop", "trace", "--sessions", fmt.Sprint(room), "--ringbuf", "64M", "--stats", "-s", "none", "-S", "-e", "vfs_read", "-n", "workload",
		"--", "sh", "-c", "exec >/dev/null; "+steady+script)
	if status != 0 {
		t.Fatalf("%s: status %d: %s", script, status, errs)
	}
	lost = counted(t, errs, "sessions not recorded because too many were open")
	if marked := sum(t, regexp.MustCompile(`(?m)^--- (\d+) sessions? not recorded because .* ---$`), out); marked != lost {
		t.Errorf("%s: marks of %d sessions in what is printed, %d were lost", script, marked, lost)
	}
	return strings.Count(out, "(workload/workload)"), lost, sum(t, skipped, errs), errs
}

// runtimeReads is how often a Go program reads a file while it starts, at most.
const runtimeReads = 20

// TestLiveSessionSleepers: threads that sleep in sessions at the same time, as
// many as there is room for.
func TestLiveSessionSleepers(t *testing.T) {
	guest.Require(t)
	n := 2000
	if os.Getenv("KSNOOP_SOAK") != "" {
		n = 10000
	}
	shown, lost, missed, errs := pooled(t, n+runtimeReads, fmt.Sprintf("workload sleepers -n %d -for 1s", n))
	if shown+missed < n || shown > n+runtimeReads || shown < n/2 || lost != 0 {
		t.Errorf("%d sessions shown, %d lost, %d calls skipped of %d: %s", shown, lost, missed, n, errs)
	}
	if other := counted(t, errs, "(?:records lost|calls not seen)"); other > 0 {
		t.Errorf("%d other losses: %s", other, errs)
	}
}

// TestLiveSessionRoom: of more sessions than there is room for, those that are
// shown and those counted as lost are all; and room is given back by sessions
// that end, with their calls or with their threads.
func TestLiveSessionRoom(t *testing.T) {
	guest.Require(t)
	const room = 50
	shown, lost, missed, errs := pooled(t, room, "workload sleepers -n 300 -for 1s")
	if n := shown + lost; n+missed < 300 || n > 300+runtimeReads || shown < room-missed || shown > room+runtimeReads || lost == 0 {
		t.Errorf("%d sessions shown, %d lost, %d calls skipped of 300: %s", shown, lost, missed, errs)
	}
	if want := "; make room for more with --sessions\n"; !strings.Contains(errs, want) {
		t.Errorf("no %q in: %s", want, errs)
	}
	shown, lost, missed, errs = pooled(t, room, "for i in 1 2 3; do workload exit-group -threads 40 -for 50ms -code 0; done; workload killed -for 5ms; "+
		"workload sleepers -n 45 -for 100ms; workload sleepers -n 45 -for 100ms")
	if want := 3*40 + 2*45; shown+missed < want || shown < want/2 || lost != 0 {
		t.Errorf("%d sessions shown, want %d, %d lost, %d calls skipped: %s", shown, want, lost, missed, errs)
	}
}
