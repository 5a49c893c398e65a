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

// TestLiveNestedPaths: of 12 calls within each other the 8 outermost have their way, which is that of no call within them. The others
// are counted once, if their predicates hold. A call of ksnoop_nest makes one decision, whether it calls itself.
func TestLiveNestedPaths(t *testing.T) {
	guest.Require(t)
	loadModule(t, "ksnoop_nest", "")
	file := recordingFile(t)
	_, errs, status := ksnoop(t, append([]string{"trace", "-s", "none", "--record", file, "ksnoop_nest((int)$arg1 != 2, path())"}, nested(12)...)...)
	out, _, _ := replayed(t, file, "--format", "json")
	whole := 0
	for _, c := range paths(t, out) {
		if n := len(c.Path.Decisions); n > 1 {
			t.Errorf("a way with %d decisions", n)
		} else if n == 1 && !c.Path.Broken {
			whole++
		}
	}
	if n := counted(t, errs, "calls without their path"); whole != 8 || n != 3 || status != 0 {
		t.Errorf("status %d: %d ways, want 8; %d lost, want 3:\n%s\n%s", status, whole, n, errs, out)
	}
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
