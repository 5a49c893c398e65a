// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveGlob traces more functions than are given a trampoline each, with
// the same programs for all that allow it.
func TestLiveGlob(t *testing.T) {
	guest.Require(t)
	for _, m := range []string{"auto", "kprobe"} {
		out := traced(t, "trace", "--attach="+m, "vfs_*(count == 77, return == 77)", "--", "workload", "read", "-count", "3", "-size", "77")
		if n := records(out, "workload", "vfs_read"); n != 3 {
			t.Errorf("--attach=%s: %d records of 3 calls:\n%s", m, n, out)
		}
	}
}

// TestLiveListed: what the engine captures of many functions as data say is
// what generated code captures of the same calls: at entry, and of calls that
// their return decides. An item that computes something needs code.
func TestLiveListed(t *testing.T) {
	guest.Require(t)
	for m, needs := range map[string]attach.Capability{"multi": attach.CapKprobeMulti, "session": attach.CapKprobeSession, "tracing_multi": attach.CapTracingMulti, "kprobe": attach.CapKprobe} {
		if needs.Probe() != nil {
			continue // TestLiveMethods says which the kernel has
		}
		for _, specs := range [][2]string{
			{"vfs_r*", "vfs_read(file, buf, count, pos, count + 1)"},
			{"vfs_r*(file, buf, count, pos, return == 77)", "vfs_read(file, buf, count, pos, return == 77, count + 1)"},
		} {
			out := traced(t, "trace", "--attach="+m, specs[0], specs[1], "--", "workload", "read", "-count", "3", "-size", "77")
			var listed, generated []string
			for _, b := range bodies(out, "vfs_read") {
				more := "        count + 1 = (long unsigned int)78\n"
				switch {
				case !strings.Contains(b, "count = (size_t)77"):
				case strings.Contains(b, more):
					generated = append(generated, strings.Trim(strings.Replace(b, more, "", 1), "\n,"))
				default:
					listed = append(listed, strings.Trim(b, "\n,"))
				}
			}
			if len(listed) != 3 || len(generated) != 3 {
				t.Fatalf("--attach=%s %q: %d and %d records of 3 calls:\n%s", m, specs, len(listed), len(generated), out)
			}
			for i := range listed {
				if listed[i] != generated[i] {
					t.Errorf("--attach=%s %q: as data say:\n%s\ngenerated:\n%s", m, specs, listed[i], generated[i])
				}
			}
		}
	}
}
