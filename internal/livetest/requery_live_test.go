// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// A recording answers a SPEC with what a run with that SPEC prints. Here both are made of the same
// calls: the SPECs are traced at once, and the recording answers from what the first one captured.
func TestLiveAskAgain(t *testing.T) {
	guest.Require(t)
	const base = "vfs_read(file, count, *file->f_inode, return)"
	// Each has a label of its own in every block, by which its blocks are known.
	asked := []struct {
		spec, label string
		n           int
	}{
		{"vfs_read(count + 10 == 43, return + 10)", "+ 10", 6},
		{`vfs_read(count + 20 > 0, file->f_flags + 20, file->f_inode->i_ino != 20, exit($comm) == "workload", return + 20 > 60)`, "count + 20", 2},
		{"vfs_read(count + 30 < 70, file->f_inode->i_mode & 0xf000, hex(file->f_op), $pid > 0)", "count + 30", 3},
		{"vfs_read(*file->f_inode, count + 40 == 90)", "count + 40", 2},
	}
	inTurn(t, []string{"read -size 33 -count 3 >/dev/null; workload read -size 50 -count 2"}, func(t *testing.T, attach, work string) {
		file := recordingFile(t)
		args := []string{"trace", attach, "-n", "workload", "--record", file, "--force", "--print", base}
		for _, a := range asked {
			args = append(args, a.spec)
		}
		out, errs, status := ksnoop(t, append(args, quiet(work)...)...)
		if status != 0 {
			t.Fatalf("status %d: %s", status, errs)
		}
		for _, a := range asked {
			want := labelled(out, a.label)
			got, errs, status := replayed(t, file, a.spec)
			got = labelled(got, a.label)
			if got != want || status != 0 || strings.Count(want, ");\n") < a.n {
				t.Errorf("%s: status %d, %s\nreplay:\n%s\ntrace, at least %d blocks:\n%s", a.spec, status, errs, got, a.n, want)
			}
		}
	})
}

// stamp is the time of a block.
var stamp = regexp.MustCompile(`\d+\.\d{6} vfs_read`)

// labelled returns the blocks with a label, without their times: each SPEC takes its own.
func labelled(out, label string) string {
	var kept strings.Builder
	_, out, _ = strings.Cut(out, "\n\n") // the header
	for _, b := range strings.SplitAfter(out, "\n);\n") {
		if strings.Contains(b, label) {
			kept.WriteString(stamp.ReplaceAllString(b, "vfs_read"))
		}
	}
	return kept.String()
}
