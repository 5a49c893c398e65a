// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveChange: what parameters point to and who calls are those of the end of
// the call where exit() asks for that, with every method. The workload reads 32
// bytes, "text of the file" among them, from offset 0 into a buffer that held
// "what the buffer held", and then changes its name to "renamed".
func TestLiveChange(t *testing.T) {
	guest.Require(t)
	const read = "vfs_read(count == 32, ustr(buf), exit(user(buf)), exit(ustr(buf)) ~ \"*file\", diff(user(buf)), diff(buf(user(buf), 6)), pos, exit(pos), *exit(pos) - *pos, exit(count))"
	const prctl = `syscall:prctl(option == 15, $comm, exit($comm) == "renamed", diff($comm), exit($time) > $time, exit($pid) == $pid)`
	methods(t, func(t *testing.T, attach string) {
		out := traced(t, "trace", attach, read, prctl, "--", "workload", "change")
		for _, want := range []string{
			`ustr\(buf\) = "what the buffer held"`,
			`exit\(user\(buf\)\) = \(char \*\)0x[0-9a-f]+ = "text of the file"`,
			`exit\(ustr\(buf\)\) = "text of the file"`,
			`diff\(user\(buf\)\): "what the buffer held" → "text of the file"`,
			`diff\(buf\(user\(buf\), 6\)\): "what t" → "text o"`,
			`pos = \(loff_t \*\)0x[0-9a-f]+ = \(loff_t\)0,`,
			`exit\(pos\) = \(loff_t \*\)0x[0-9a-f]+ = \(loff_t\)32,`,
			`\*exit\(pos\) - \*pos = \([a-z ]+\)32,`,
			`exit\(count\) = \(size_t\)32\n`,
			` \$comm = "workload"`,
			`exit\(\$comm\) = "renamed"`,
			`diff\(\$comm\): "workload" → "renamed"`,
		} {
			if n := len(regexp.MustCompile(want).FindAllString(out, -1)); n != 1 {
				t.Errorf("%d times %s in:\n%s", n, want, out)
			}
		}
	})
	for _, attach := range []string{"fentry", "kprobe"} { // where arguments are there at return, and where they are lost
		if !slices.Contains(attachMethods(), attach) {
			continue
		}
		out := traced(t, "--attach="+attach, "-s", "none", "-S", "-T", "-e", "ksys_read", "vfs_read(count == 32, ustr(buf), exit(ustr(buf)), exit(pos), return - count, $duration)", "--", "workload", "change")
		want := `(?m)↔ vfs_read .* ustr\(buf\) = "what the buffer held", exit\(ustr\(buf\)\) = "text of the file", exit\(pos\) = &32, return - count = 0, \$duration = \d{4,9}$`
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s: no %s in:\n%s", attach, want, out)
		}
	}
}
