// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveNesting: of 201 calls within each other the 128 outermost are shown,
// and it is said how many are not, in the session and at the end.
func TestLiveNesting(t *testing.T) {
	guest.Require(t)
	loadModule(t, "ksnoop_nest", "")
	stdout, stderr, status := ksnoop(t, "-T", "-S", "-s", "none", "-e", "ksnoop_nest_set", "-a", "ksnoop_nest", "--", "sh", "-c",
		"echo 200 > /sys/module/ksnoop_nest/parameters/depth; echo 126 > /sys/module/ksnoop_nest/parameters/depth")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	sessions := strings.Split(stdout, "TID/PID")
	if len(sessions) != 3 {
		t.Fatalf("%d sessions, want 2:\n%s", len(sessions)-1, stdout)
	}
	for i, want := range []struct {
		calls int
		lost  string
	}{{127, "--- 73 calls were nested deeper than is kept ---\n"}, {126, ""}} {
		s := sessions[i+1]
		calls := len(regexp.MustCompile(`(?m)^ +[→↔] ksnoop_nest \[ksnoop_nest\]`).FindAllString(s, -1))
		lost := regexp.MustCompile(`(?m)^--- .*\n`).FindString(s)
		if calls != want.calls || lost != want.lost {
			t.Errorf("%d calls and %q, want %d and %q", calls, lost, want.calls, want.lost)
		}
	}
	if want := "73 calls left out because too many calls of one thread were within each other"; !strings.Contains(stderr, want) {
		t.Errorf("not told: %s, but:\n%s", want, stderr)
	}
}

// nested has a shell make calls of ksnoop_nest within each other.
func nested(depth int) []string {
	return []string{"--", "sh", "-c", fmt.Sprintf("echo %d > /sys/module/ksnoop_nest/parameters/depth", depth)}
}

// TestLiveNestedEntry: a function by kprobe that opens sessions calls itself, while another one that opens sessions is called through a
// trampoline. The calls are in one session.
func TestLiveNestedEntry(t *testing.T) {
	guest.Require(t)
	loadModule(t, "ksnoop_nest", "")
	const depth = 12
	out, errs, status := ksnoop(t, append([]string{"trace", "-v", "-S", "-T", "-s", "none", "-e", "ksnoop_nest", "-e", "bprm_execve"}, nested(depth)...)...)
	if n := len(regexp.MustCompile(`[→↔] ksnoop_nest`).FindAllString(out, -1)); n != depth || strings.Contains(errs, "not seen") || status != 0 {
		t.Errorf("status %d: %d calls, want %d:\n%s\n%s", status, n, depth, out, errs)
	}
}
