// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveWhy: the call is named by which a command fails, although others of it fail, too, and the
// function that refuses it: of a file without permission that is generic_permission. The command
// keeps its exit status, and is told apart from one that succeeds.
func TestLiveWhy(t *testing.T) {
	guest.Require(t)
	for _, tt := range []struct {
		args   []string
		want   string // a regular expression; "": nothing is printed
		errs   string
		status int
	}{
		{[]string{"--once", "--", "mount", "-t", "tmpfs", "-o", "size=foo", "none", "/tmp"}, `^mount failed: invalid argument\n    mount\("none", "/tmp", "tmpfs", 0x8000, "size=foo"\) = -EINVAL\n    by mount\[\d+\], exit status 255; chosen since mount wrote "mount: mounting none on /tmp failed: Invalid argument"\n`,
			"", 255},
		{[]string{"-s", "none", "--syscall", "openat", "--", "workload", "refuse", "openat"}, `^openat failed: permission denied\n    openat\(0, "/tmp/\w+/file", 2, 0\) = -EACCES\n.*\nrefused in generic_permission \(\d more runs?\):\n(.*\n)+.*\[-EACCES\]  __x64_sys_openat(.*\n)+    generic_permission\(.*mask = .*\n        path:.*\n            in generic_permission: passed (.*\n)+    openat\(AT_FDCWD, "`, "", 0},
		{[]string{"--", "true"}, ``, "the command succeeded, and none of its system calls has failed", 0},
		{[]string{"--", "sh", "-c", "exit 4"}, ``, "it is the command that has refused", 4},
	} {
		// Linux 7.3 skips programs in each run: it calls some of the functions for them.
		out, errs, status := printedOnce(t, "ksnoop", append([]string{"why"}, tt.args...)...)
		if status != tt.status || !regexp.MustCompile("(?m)"+tt.want).MatchString(out) || (tt.want == "") != (out == "") || !strings.Contains(errs, tt.errs) {
			t.Errorf("%q: status %d:\n%s%s", tt.args, status, out, errs)
		}
	}
}
