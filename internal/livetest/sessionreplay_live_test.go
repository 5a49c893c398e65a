// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveSessionReplay: what sessions looked like is what replay prints, to the
// byte, and what was only recorded is there as well.
func TestLiveSessionReplay(t *testing.T) {
	guest.Require(t)
	file := recordingFile(t)
	request := []string{"-s", "none", "-T", "-A", "-e", "*sys_bpf", "-a", "map_create", "array_map_alloc_check(attr->max_entries, return)",
		"-J", "kretprobe:map_create", "--args", "multiline", "--record", file, "--force", "--print"}
	want, errs, status := ksnoop(t, append(request, quiet("map-array-zero")...)...)
	if status != 0 || strings.Count(want, "› attr->max_entries = 0\n") != 2 || strings.Count(want, "◎ kretprobe:map_create") != 1 {
		t.Errorf("status %d:\n%s%s", status, want, errs)
	}
	got, gotErrs, status := replayed(t, file, "--args", "multiline")
	if got != want || gotErrs != errs || status != 0 {
		t.Errorf("replay, status %d:\n%s%s\ntrace:\n%s%s", status, got, gotErrs, want, errs)
	}
	if os.Getenv("KSNOOP_SOAK") == "" {
		return // a recording of its own takes long
	}
	args := append([]string{"-s", "none", "-e", "vfs_read(count == 33)", "-S", "--record", file, "--force"}, quiet("read -size 33 -count 20")...)
	if out := traced(t, args...); out != "" {
		t.Errorf("--record alone prints\n%s", out)
	}
	if out, errs, status := replayed(t, file); status != 0 || strings.Count(out, " (workload/workload):") != 20 || errs != "" {
		t.Errorf("status %d, %s:\n%.2000s", status, errs, out)
	}
}
