// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"encoding/json"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// A kernelRow is a line of docs/kernels.md: testrun collects them.
type kernelRow struct {
	Kernel, Arch, Method, View string
	Why                        string // why not; "" means that it worked
}

// A viewTest tries views that one run can show; its workload makes one call that
// must be seen in each. To start ksnoop and to attach is what takes time.
type viewTest struct {
	args  []string
	views []view
}

// A view is told by a line that only it prints.
type view struct {
	name string
	want *regexp.Regexp
}

func viewTests() []viewTest {
	read := append([]string{"-s", "none", "vfs_read(count == 33, return == 33)"}, quiet("read -size 33 -count 1")...)
	open := []string{"-T", "-e", "do_sys_openat2", "-a", "path_openat", "-x", "ENOENT", "-s", "none", "--", "sh", "-c", "cat /no/such/file 2>/dev/null; exit 0"}
	return []viewTest{
		{read, []view{{"calls", regexp.MustCompile(`vfs_read\(\n(?s:.*)count = \(size_t\)33`)}}},
		{open, []view{
			{"stack", regexp.MustCompile(`\[-ENOENT\] +do_sys_openat2`)},
			{"trace", regexp.MustCompile(`(?m)^← do_sys_openat2 +\[-ENOENT\]`)}}},
		{append([]string{"--lbr"}, read...), []view{{"lbr", regexp.MustCompile(`\[#00\] vfs_read\+0x10 +-> +ksys_read\+0x20`)}}},
	}
}

// TestLiveKernels tries every way of attaching with every view. Each must do what
// it is for, or ksnoop must say why this kernel cannot.
func TestLiveKernels(t *testing.T) {
	guest.Require(t)
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	release, build, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), "+")
	if strings.Contains(build, "-rt-") {
		release += "-rt"
	}
	noBranches := ""
	if branchesStandIn() {
		replayBranches(t, loadBranches(t, ""), "vfs_read+0x10 ksys_read+0x20 0")
	} else if runtime.GOARCH == "amd64" {
		noBranches = "not tried: Debian has no headers of this kernel any more, which the module that stands for the hardware needs"
	}
	for i, method := range offeredMethods(t) {
		for j, v := range viewTests() {
			if !theirView(t, method, i, j) {
				continue
			}
			why := make([]string, len(v.views))
			if v.args[0] == "--lbr" && noBranches != "" {
				why[0] = noBranches
			} else {
				why = tryViews(t, method, v)
			}
			for i := range v.views {
				b, err := json.Marshal(kernelRow{release, runtime.GOARCH, method, v.views[i].name, why[i]})
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("kernels: %s", b)
			}
		}
	}
}

// theirView reports whether a way of attaching is to be tried in this guest with a view, both given by their
// places. A smoke run tries each view by auto, and each other way in one view.
func theirView(t *testing.T, method string, i, j int) bool {
	if !livetest.Tabled() {
		return method == "auto" || j == i%len(viewTests())
	}
	return method == "auto" || livetest.Mine(t, i+j)
}

// branchesStandIn reports whether a module can stand for the hardware that records branches.
func branchesStandIn() bool {
	_, err := os.Stat("/lib/ksnoop/" + branchModule + ".ko")
	return runtime.GOARCH == "amd64" && err == nil
}

// tryViews returns for each view why it does not work, "" where it does.
func tryViews(t *testing.T, method string, v viewTest) []string {
	t.Helper()
	why := make([]string, len(v.views))
	stdout, stderr, status := ksnoop(t, append([]string{"trace", "--attach=" + method}, v.args...)...)
	if status != 0 || stderr != "" {
		reason, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(stderr), "ksnoop: "), "\n")
		// A refusal says what this kernel lacks; auto finds a way on every kernel.
		refused := method != "auto" && !offered(t, method) && strings.Contains(stderr, "not supported")
		if v.args[0] == "--lbr" && !branchesStandIn() {
			refused = refused || strings.Contains(stderr, "branch")
		}
		if !refused || status == 0 {
			t.Errorf("--attach=%s %q: status %d, %s", method, v.args, status, stderr)
			reason = "failed: " + reason
		}
		return slices.Repeat([]string{reason}, len(why))
	}
	for i, view := range v.views {
		if !view.want.MatchString(stdout) {
			t.Errorf("--attach=%s, %s: no %s in\n%s", method, view.name, view.want, stdout)
			why[i] = "failed: the output is wrong"
		}
	}
	return why
}
