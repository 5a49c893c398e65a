// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// calls.ks has three calls of vfs_read(count = 33) of one process, which all return 33: see testdata/calls.txt.
const threeReads = "../../testdata/calls.ks"

// TestReplaySums: a recording is asked for what its calls add up to.
func TestReplaySums(t *testing.T) {
	for _, c := range []struct{ name, spec, format, want string }{
		{"count", "vfs_read(count())", "text", "vfs_read: count()\n    3\n\n"},
		{"keys", "vfs_read(sum(count)[return, $func, $pid])", "text", "vfs_read: sum(count)[return, $func, $pid]\n    return  $func     $pid  sum(count)\n" +
			"    33      vfs_read   156         99B\n\n"},
		{"stacks", "vfs_read(count()[$stack])", "folded", "entry_SYSCALL_64_after_hwframe;do_syscall_64;ksys_read;vfs_read 3\n"},
		{"metrics", "vfs_read(count()[return])", "prometheus", "# HELP ksnoop_calls_total Calls.\n# TYPE ksnoop_calls_total counter\n" +
			`ksnoop_calls_total{table="0",spec="vfs_read(count()[return])",item="count()",return="33"} 3` + "\n# HELP ksnoop_lost_total What is missing in the other metrics, by cause.\n# TYPE ksnoop_lost_total counter\n"},
		{"none", "vfs_read(count > 33, count())", "text", "vfs_read(count > 33): count()\n    no calls\n\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if stdout, stderr, status := ran("replay", "--format", c.format, threeReads, c.spec); status != 0 || stdout != c.want || (stderr == "") != (c.name != "none") {
				t.Errorf("status %d\n%s%s", status, cmp.Diff(c.want, stdout), stderr)
			}
		})
	}
	for format, want := range map[string]string{"pprof": "shows calls", "folded": "$stack or $ustack as a key"} {
		name := filepath.Join(t.TempDir(), "out")
		_, stderr, status := ran("replay", "--format", format, "-o", name, threeReads, "vfs_read(count()[return])")
		if _, err := os.Stat(name); status != 2 || !strings.Contains(stderr, want) || err == nil {
			t.Errorf("--format %s: status %d, %q, %v", format, status, stderr, err)
		}
	}
	if _, stderr, status := ran("replay", "--format", "prometheus", threeReads); status != 2 || !strings.Contains(stderr, "ask for count()") {
		t.Errorf("status %d, %q", status, stderr)
	}
}

// TestSumsOfCutRecording: what a recording still has is added up, and that it was cut off is said.
func TestSumsOfCutRecording(t *testing.T) {
	whole, err := os.ReadFile(threeReads)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.ks")
	for n := len(whole) - 1; n > 0; n -= 512 {
		if err := os.WriteFile(cut, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		calls, _, _ := ran("replay", "--compact", cut)
		shown := strings.Count(calls, "vfs_read(")
		if shown == 0 {
			break
		}
		stdout, stderr, status := ran("replay", cut, "vfs_read(count())")
		if want := fmt.Sprintf("vfs_read: count()\n    %d\n\n", shown); stdout != want || status != 1 || !strings.Contains(stderr, "cut off") {
			t.Errorf("%d bytes: status %d, %s%s", n, status, cmp.Diff(want, stdout), stderr)
		}
	}
}

// TestDwarfKeys: stacks that are unwound from a copy are no keys, which is said with the reason.
func TestDwarfKeys(t *testing.T) {
	_, stderr, status := ran("--ustack=dwarf", "--explain", "--btf", typesFile(t), "vfs_read(count()[$ustack])")
	if status != exitUsage || !strings.Contains(stderr, "a copy of the stack differs from call to call and cannot be a key") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// TestSumsRefused: options about calls that are shown do nothing where all are added up.
func TestSumsRefused(t *testing.T) {
	types := typesFile(t)
	for _, option := range []string{"-c 3", "--rate 1/s", "--expect 0", "--join", "--compact", "--stack", "--caller", "--ustack", "-B=any"} {
		_, stderr, status := ran(append(strings.Fields(option), "--explain", "--btf", types, "vfs_read(count())")...)
		if name, _, _ := strings.Cut(strings.Fields(option)[0], "="); status != exitUsage || stderr != "ksnoop: "+name+" is about calls that are shown, and SPECs that add calls up show none\n" {
			t.Errorf("%s: status %d, %s", option, status, stderr)
		}
		if _, stderr, status := ran(append(strings.Fields(option), "--explain", "--btf", types, "vfs_read(count())", "vfs_read")...); strings.Contains(stderr, "add calls up show none") {
			t.Errorf("%s beside calls that are shown: status %d, %s", option, status, stderr)
		}
	}
	for _, option := range []string{"-c 3", "--grep x", "--expect 0", "--join"} {
		if _, stderr, status := ran(append([]string{"replay", threeReads, "vfs_read(count())"}, strings.Fields(option)...)...); status != exitUsage || !strings.Contains(stderr, "show none") {
			t.Errorf("replay %s: status %d, %s", option, status, stderr)
		}
	}
}

// TestReplaySummary: --summary is of what would be shown.
func TestReplaySummary(t *testing.T) {
	const want = "count()[$func, error]\n    $func     error  count()\n    vfs_read  \"\"           3\n\nquantiles($duration)[$func]\n    no calls\n\n"
	if stdout, stderr, status := ran("replay", "--summary", threeReads); status != 0 || stdout != want || stderr != "" {
		t.Errorf("status %d\n%s%s", status, cmp.Diff(want, stdout), stderr)
	}
	const sessions = "count()[error, leaf]\n    error     leaf                   count()\n    \"EINVAL\"  array_map_alloc_check        1\n"
	if stdout, stderr, status := ran("replay", "--summary", "../../testdata/sessions.ks"); status != 0 || !strings.HasPrefix(stdout, sessions) || !strings.Contains(stdout, "stats(self)[$func]\n") || strings.Contains(stdout, "off_cpu") {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	if stdout, _, status := ran("replay", "--summary", "--format", "json", threeReads); status != 0 || !strings.Contains(stdout, `"rows":[{"keys":{"$func":"vfs_read","error":""},"calls":3}]}`) {
		t.Errorf("status %d\n%s", status, stdout)
	}
	for want, args := range map[string][]string{
		"add them up already": {"replay", "--summary", threeReads, "vfs_read(count())"}, "does not go with --format folded": {"replay", "--summary", "--format", "folded", threeReads},
		"go with --print": {"trace", "--summary", "--record", "x", "vfs_read"},
	} {
		if _, stderr, status := ran(args...); status != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%v: status %d, %q", args, status, stderr)
		}
	}
}
