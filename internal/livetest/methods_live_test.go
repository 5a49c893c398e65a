// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// Which ways of attaching there are, and tests that try them.

// offeredMethods are those that --attach takes, as the help has them: a new one
// must not be forgotten here.
func offeredMethods(t *testing.T) []string {
	t.Helper()
	m := regexp.MustCompile(`--attach \S+ +how to attach: ([^\n]*?)(?: \(default|\n)`).FindStringSubmatch(traced(t, "trace", "--help"))
	if m == nil {
		t.Fatal("the help says nothing of --attach")
	}
	text := regexp.MustCompile(` \([^)]*\)`).ReplaceAllString(m[1], "")
	names := regexp.MustCompile(`, | or `).Split(text, -1)
	if len(names) < 5 {
		t.Fatalf("methods %q", names)
	}
	return names
}

// offered reports whether a kernel like the one that runs has a method, by the first
// series of Debian's kernels that has it: 6.1 has no FPROBE, nor has 6.12 on arm64.
func offered(t *testing.T, method string) bool {
	t.Helper()
	since := map[string][2]int{"fentry": {5, 5}, "kprobe": {4, 0}, "multi": {6, 2}, "session": {6, 10}, "fsession": {7, 0}, "tracing_multi": {7, 3}}
	if runtime.GOARCH == "arm64" {
		since["multi"], since["session"], since["tracing_multi"] = [2]int{6, 13}, [2]int{6, 13}, [2]int{99, 0}
	}
	first, ok := since[method]
	if !ok {
		t.Fatalf("since when there is %s is not known", method)
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	var release [2]int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &release[0], &release[1]); err != nil {
		t.Fatal(err)
	}
	return slices.Compare(release[:], first[:]) >= 0
}

// attachMethods are the ways of attaching that the kernel has; TestLiveMethods
// says which those are.
var attachMethods = sync.OnceValue(func() (names []string) {
	for _, m := range []struct {
		name  string
		needs attach.Capability
	}{{"fentry", attach.CapFexit}, {"kprobe", attach.CapKretprobe}, {"multi", attach.CapKprobeMulti}, {"session", attach.CapKprobeSession},
		{"fsession", attach.CapFsession}, {"tracing_multi", attach.CapTracingMulti}} {
		if m.needs.Probe() == nil {
			names = append(names, m.name)
		}
	}
	return names
})

// theirMethods are the ways of attaching to run a test with in this guest. A smoke run has one
// of them for each test: TestLiveKernels tries them all. In `make test` a test has
// half of them; the turn decides which.
func theirMethods(t *testing.T) (names []string) {
	all := attachMethods()
	if livetest.Smoke() {
		m := livetest.Turn(t) % len(all)
		return all[m : m+1]
	}
	for i, m := range all {
		if livetest.Mine(t, i) {
			names = append(names, m)
		}
	}
	return names
}

// methods runs a test with each way of attaching.
func methods(t *testing.T, test func(t *testing.T, flag string)) {
	for _, m := range theirMethods(t) {
		t.Run(m, func(t *testing.T) { test(t, "--attach="+m) })
	}
}

// inTurn runs cases, each with one way of attaching, and all of these. It is
// for what the two have little to do with each other.
func inTurn[C any](t *testing.T, cases []C, test func(t *testing.T, flag string, c C)) {
	all := theirMethods(t)
	if livetest.Smoke() {
		all = attachMethods()[:min(len(cases), len(attachMethods()))]
	}
	for i := range max(len(cases), len(all)) {
		m := all[i%len(all)]
		t.Run(fmt.Sprint(m, " ", i%len(cases)), func(t *testing.T) { test(t, "--attach="+m, cases[i%len(cases)]) })
	}
}

// TestLiveMethods: what the guests can, and what is said of what they cannot.
func TestLiveMethods(t *testing.T) {
	guest.Require(t)
	for _, m := range offeredMethods(t) {
		if m == "auto" {
			continue
		}
		ok := offered(t, m)
		_, stderr, status := ksnoop(t, "trace", "--attach="+m, "vfs_read(count == 12345)", "vfs_read(count == 12345, return)", "--", "true")
		if (status == 0) != ok || !ok && (strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "not supported") || !strings.Contains(stderr, "--attach auto")) {
			t.Errorf("--attach=%s: status %d, %s", m, status, stderr)
		}
	}
}
