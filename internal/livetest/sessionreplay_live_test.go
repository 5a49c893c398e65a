// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"os"
	"regexp"
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

// TestLiveAskSessions: what a recording of sessions answers to SPECs is what a run with these
// SPECs prints of the same calls.
func TestLiveAskSessions(t *testing.T) {
	guest.Require(t)
	session := []string{"trace", "-s", "none", "-T", "-a", "map_create"}
	work := []string{"--", "sh", "-c", "workload map-array-zero >/dev/null; workload prog-type >/dev/null; workload map-array-key >/dev/null"}
	file := recordingFile(t)
	wide := append(append([]string{}, session...), "-e", "__sys_bpf(cmd, size)", "array_map_alloc_check(*attr, return)", "--record", file, "--force")
	if _, errs, status := ksnoop(t, append(wide, work...)...); status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	for _, c := range []struct {
		entry, inside string
		n             int
	}{
		{"__sys_bpf(cmd == 0, size)", "array_map_alloc_check(attr->max_entries, attr->key_size * 2)", 2},
		{"__sys_bpf(+(cmd + 1))", "array_map_alloc_check(attr->key_size, +(attr->max_entries > 3))", 3},
	} {
		want, errs, status := ksnoop(t, append(append(append([]string{}, session...), "-e", c.entry, c.inside), work...)...)
		if status != 0 {
			t.Fatalf("status %d: %s", status, errs)
		}
		got, errs, status := replayed(t, file, c.entry, c.inside)
		if ruled(got) != ruled(want) || status != 0 || strings.Count(got, "(workload/workload):") != c.n {
			t.Errorf("%s %s: replay, status %d: %s\n%s\ntrace, %d sessions expected:\n%s", c.entry, c.inside, status, errs, got, c.n, want)
		}
	}
	askedArguments(t, session, work)
	_, errs, status := replayed(t, file, "array_map_alloc_check(attr->max_entries == 0)")
	if status != exitUsage || !strings.Contains(errs, "array_map_alloc_check does not open sessions") {
		t.Errorf("a predicate of a call inside: status %d: %s", status, errs)
	}
}

// askedArguments asks a recording of all arguments, those of a system call and those of a function.
func askedArguments(t *testing.T, session, work []string) {
	t.Helper()
	file := recordingFile(t)
	if _, errs, status := ksnoop(t, append(append(append([]string{}, session...), "-A", "-e", "__sys_bpf", "-a", "array_map_alloc_check", "--record", file, "--force"), work...)...); status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	specs := []string{"__sys_bpf(cmd == 0, size)", "array_map_alloc_check(attr->max_entries, attr->key_size * 2)"}
	want, errs, status := ksnoop(t, append(append(append([]string{}, session...), "-A", "-e", specs[0], specs[1]), work...)...)
	if status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	got, errs, status := replayed(t, append([]string{file}, specs...)...)
	if ruled(got) != ruled(want) || status != 0 || errs != "" || strings.Count(got, "(workload/workload):") != 2 {
		t.Errorf("all arguments, replay, status %d: %s\n%s\ntrace:\n%s", status, errs, got, want)
	}
}

// ruled is masked without the lengths of rules, which are as wide as the columns, and without
// addresses of user space.
func ruled(out string) string {
	return regexp.MustCompile(`(-)-*|(\.user=)0x[0-9a-f]+`).ReplaceAllString(masked(out), "$1$2")
}
