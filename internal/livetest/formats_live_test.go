// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveFormats: what a live run writes in a format that other tools open is what the
// replay of its recording writes, to the byte. Of folded stacks, the workload knows its calls.
func TestLiveFormats(t *testing.T) {
	guest.Require(t)
	i := 0
	for _, c := range []struct {
		name, request, work string
		folded              string // in what --format folded prints
	}{
		{"calls", "--stack vfs_read(count==33,file->f_flags,return)", "read -size 33 -count 3", "ksys_read;vfs_read 3\n"},
		{"sessions", "-s none -T -A -e *sys_bpf -a map_create array_map_alloc_check(attr->max_entries,return)", "map-array-zero", "map_create;array_map_alloc_check 1\n"},
	} {
		for _, format := range []string{"perfetto", "pprof", "folded"} {
			if i++; !livetest.Mine(t, i) {
				continue
			}
			t.Run(c.name+" "+format, func(t *testing.T) {
				file, live := recordingFile(t), filepath.Join(t.TempDir(), "live")
				args := append([]string{"trace", "--record", file, "--force", "--print", "--format", format, "-o", live}, strings.Fields(c.request)...)
				if _, errs, status := ksnoop(t, append(args, quiet(c.work)...)...); status != 0 {
					t.Fatalf("status %d: %s", status, errs)
				}
				want, err := os.ReadFile(live)
				if err != nil {
					t.Fatal(err)
				}
				got, errs, status := replayed(t, file, "--format", format)
				if got != string(want) || status != 0 || len(want) == 0 {
					t.Errorf("replay, status %d, %s: %d bytes, trace has written %d:\n%q\n%q", status, errs, len(got), len(want), got, want)
				}
				if format == "folded" && !strings.Contains(got, c.folded) {
					t.Errorf("no %q in\n%s", c.folded, got)
				}
			})
		}
	}
}
