// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveInject: what a thread comes by between the calls of a session is shown
// among them, with its values, and nothing of other threads.
func TestLiveInject(t *testing.T) {
	guest.Require(t)
	args := []string{"-s", "none", "-S", "-T", "-e", "ksys_read", "-a", "rw_verify_area", "-J", "kretprobe:vfs_read(return == 77)"}
	// At which of these an instruction begins differs from kernel to kernel. The
	// kernel gets to them by a breakpoint.
	for _, off := range []int{5, 7, 8, 9, 11, 12} {
		args = append(args, "-J", fmt.Sprintf("kprobe:vfs_read+%#x(%s == 77, %s)", off, thirdArg, firstArg))
	}
	out, _, status := ksnoop(t, append(args, "--", "workload", "read", "-size", "77", "-count", "2")...)
	row := `(?:    ◎ kprobe:vfs_read\+0x[0-9a-f]+ +\` + thirdArg + ` = 0x4d, \` + firstArg + ` = 0xff[0-9a-f]+\n)`
	session := `(?m)^→ ksys_read\n` + row + `{2,}    ↔ rw_verify_area +\[0\] +[0-9.]+us\n    ◎ kretprobe:vfs_read +return = 77\n← ksys_read +\[77\] +[0-9.]+us\n`
	if n := len(regexp.MustCompile(session).FindAllString(out, -1)); n != 2 || strings.Count(out, "TID/PID") != 2 || status != 0 {
		t.Errorf("status %d, %d whole sessions, want 2:\n%s", status, n, out)
	}

	out = traced(t, "-s", "none", "-S", "-T", "--args", "multiline", "-n", "workload", "-e", sys+"execve", "-J", `tp:task:task_rename(oldcomm == "workload", newcomm)`,
		"-J", `rawtp:sched_process_exec(str(bprm->filename) ~ "*/second", old_pid == $tid)`, "--", "workload", "exec", "read")
	session = `(?m)^→ ` + sys + `execve\n    ◎ tp:task:task_rename\n        › oldcomm = "workload"\n        › newcomm = "second"\n` +
		`    ◎ rawtp:sched_process_exec\n        › str\(bprm->filename\) = "/tmp/workload-[^"]*/second"\n        › old_pid = \d+\n        › \$tid = \d+\n← ` + sys + `execve +\[0\] +[0-9.]+us\n`
	if !regexp.MustCompile(session).MatchString(out) || strings.Count(out, "TID/PID") != 1 {
		t.Errorf("no exec with its tracepoints in:\n%s", out)
	}
}
