// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/formattest"
)

// A recordedCall is a call of t_open(flags, return).
type recordedCall struct {
	time, flags, result uint64
}

// recordedOpens writes a recording of calls.
func recordedOpens(t *testing.T, name string, calls ...recordedCall) string {
	t.Helper()
	return recordedOn(t, "6.12.0", name, calls...)
}

// recordedOn is recordedOpens with a release of the kernel.
func recordedOn(t *testing.T, release, name string, calls ...recordedCall) string {
	t.Helper()
	k := formattest.New(t, "t_")
	k.Release = release
	k.Calls("t_open(flags, return)", "t_read(count, return)")
	var raw [][]byte
	for _, c := range calls {
		for i, kind := range []bpf.Kind{bpf.KindEntry, bpf.KindReturn} {
			e := bpf.Event{Time: c.time + 10*uint64(i), PID: 7, TID: 7, Kind: kind, Comm: formattest.Comm("cat")}
			raw = append(raw, k.Raw(formattest.Record{Func: "open", Event: e, Words: []uint64{[]uint64{c.flags, c.result}[i]}}))
		}
	}
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, k.Recording(nil, raw...), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestDiff: statuses are those of diff(1), and times are not compared.
func TestDiff(t *testing.T) {
	failed := formattest.Errno(2)
	good := recordedOpens(t, "good.ks", recordedCall{100, 0, 3}, recordedCall{200, 1, 4})
	later := recordedOpens(t, "later.ks", recordedCall{5100, 0, 3}, recordedCall{5300, 1, 4})
	bad := recordedOpens(t, "bad.ks", recordedCall{100, 0, 3}, recordedCall{200, 2, failed})
	for _, c := range []struct {
		name   string
		args   []string
		status int
		out    string
	}{
		{"the same file", []string{good, good}, 0, ""},
		{"other times", []string{good, later}, 0, ""},
		{"other times, exactly", []string{"--exact", good, later}, 0, ""},
		{"real ones", []string{recordedSessions, recordedSessions}, 0, ""},
		{"different", []string{good, bad}, 1, `first difference: t_open(flags) is 1 in GOOD, 2 in BAD
first in what was done: t_open returned 4 in GOOD, -ENOENT in BAD

--- GOOD
+++ BAD
@@ cat 7/7, cat 7/7 @@
  ... 1 alike
  t_open
-   › flags = 1
+   › flags = 2
- t_open = 4
+ t_open = -ENOENT
`},
		{"brief", []string{"--brief", "--ignore", "flags", good, bad}, 1, "first difference: t_open returned 4 in GOOD, -ENOENT in BAD\n"},
		{"a value", []string{"--brief", "--ignore", "t_*(return)", good, bad}, 1, "first difference: t_open(flags) is 1 in GOOD, 2 in BAD\n"},
		{"nothing of it", []string{"--ignore", "flags", "--ignore", "return", good, bad}, 0, ""},
		{"calls", []string{"--ignore", "t_open()", good, bad}, 0, ""},
		{"a SPEC", []string{good, bad, "t_open(flags < 1, return)"}, 0, ""},
		{"a filter", []string{"--until", "+50ns", good, bad}, 0, ""},
		{"the first", []string{"--nth", "1", good, bad}, 0, ""},
		{"the second", []string{"--nth", "2", "--entry", "t_*", "--brief", "--ignore", "flags", good, bad}, 1, "first difference: t_open returned 4 in GOOD, -ENOENT in BAD\n"},
		{"halves", []string{"--ignore", "flags", bad}, 1, `first difference: t_open returned 3 in good, -ENOENT in bad

--- good: t_open at 0.000000100
+++ bad: t_open at 0.000000200
@@ cat 7/7, cat 7/7 @@
- t_open = 3
+ t_open = -ENOENT
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			stdout, stderr, status := ran(append([]string{"diff"}, c.args...)...)
			got := strings.NewReplacer(good, "GOOD", bad, "BAD").Replace(stdout)
			if diff := cmp.Diff(c.out, got); diff != "" || status != c.status || stderr != "" {
				t.Errorf("status %d, want %d, %q\n%s", status, c.status, stderr, diff)
			}
		})
	}
	stdout, _, status := ran("diff", "--format", "json", good, bad)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	var last struct {
		Kind        string
		Differences int
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Kind != "end" || last.Differences != len(lines)-2 || last.Differences != 2 || status != 1 {
		t.Errorf("status %d, %v:\n%s", status, err, stdout)
	}
}

// TestDiffKernels: that recordings are of different kernels is said once, and JSON has both.
func TestDiffKernels(t *testing.T) {
	old, hostile := recordedOpens(t, "old.ks", recordedCall{100, 0, 3}), recordedOn(t, "7.3\x1b[31m", "new.ks", recordedCall{100, 0, 3})
	for _, format := range []string{"text", "json"} {
		out, errs, status := ran("diff", "--format", format, old, hostile)
		if want := "ksnoop: the kernels differ, Linux 6.12.0 in " + old + " and 7.3\\x1b[31m in " + hostile + ": calls and values may differ for that alone\n"; errs != want || status != 0 {
			t.Errorf("%s: status %d, %s", format, status, errs)
		}
		if json := strings.Contains(out, `"kernel":"6.12.0"`) && strings.Contains(out, `"kernel":"7.3\u001b[31m"`); json != (format == "json") {
			t.Errorf("%s: %s", format, out)
		}
	}
}

// TestDiffTrouble: what keeps recordings from being compared is told, with status 2.
func TestDiffTrouble(t *testing.T) {
	good := recordedOpens(t, "good.ks", recordedCall{100, 0, 3})
	whole, err := os.ReadFile(threeReads)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.ks")
	if err := os.WriteFile(cut, whole[:len(whole)-600], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "diff takes two recordings, GOOD and BAD, or one"},
		{[]string{"-"}, "diff reads files"},
		{[]string{"none.ks"}, "none.ks: no such file"},
		{[]string{t.TempDir()}, "is a directory"},
		{[]string{good, good, good}, "these are 3"},
		{[]string{good, "none.ks"}, "none.ks: no such file"},
		{[]string{good}, "has 1 call, of which none failed: give another"},
		{[]string{recordedSessions}, "sessions that succeed are recorded with -S"},
		{[]string{good, recordedSessions}, recordedSessions + " has sessions, and " + good + " has calls"},
		{[]string{"--nth", "3", good, good}, "good.ks has 1 call, and call 3 is asked for\n"},
		{[]string{"-", good}, "ksnoop: diff reads files: give the name of a recording in place of -\n"},
		{[]string{"--nth", "0", good, good}, "--nth counts from 1"},
		{[]string{"--entry", "nope", good, good}, "neither recording has calls of nope"},
		{[]string{"-n", "nope", good, good}, "neither recording has calls to compare"},
		{[]string{"-p", "99", good, recordedOpens(t, "other.ks", recordedCall{100, 7, 3})}, "neither recording has calls to compare"},
		{[]string{"--ignore", "(", good, good}, "--ignore takes a glob: VALUE, FUNC(VALUE) or FUNC()\n  (\n  ^\n  column 1: a name is missing"},
		{[]string{"--ignore", "[", good, good}, "  [\n  ^\n  column 1: a name is missing before `[`"},
		{[]string{"--ignore", "t_open(flags", good, good}, "--ignore takes a glob"},
		{[]string{"--ignore", "flags)", good, good}, "--ignore takes a glob"},
		{[]string{"--format", "pprof", good, good}, "there are text and json"},
		{[]string{"--format", "json", "--brief", good, good}, "--brief does not go"},
		{[]string{good, good, "t_open(nope)"}, "nope"},
		{[]string{good, good, "t_open(count())"}, "add them up"},
		{[]string{"--vmlinux", "none", good, good}, "open debug info none: "},
		{[]string{"-x", "ENOENT", good, good}, "are about sessions"},
		{[]string{threeReads, cut}, "cut.ks: "},
		{[]string{"--nth", "7", good, recordedOpens(t, "twin.ks", recordedCall{100, 0, 3})}, "good.ks has 1 call, and call 7 is asked for\nksnoop: "},
		{[]string{"--nth", "7", recordedOpens(t, "bad.ks", recordedCall{100, 0, 3}, recordedCall{200, 2, formattest.Errno(2)})}, "bad.ks has 2 calls, of which 1 failed, and failure 7 is asked for\n"},
	} {
		_, stderr, status := ran(append([]string{"diff"}, c.args...)...)
		once := strings.HasPrefix(c.want, "ksnoop: ") || strings.HasSuffix(c.want, "asked for\n")
		if status != exitUsage || !strings.Contains(stderr, c.want) || once && strings.Count(stderr, "\n") > 1 {
			t.Errorf("%q: status %d, %s", c.args, status, stderr)
		}
	}
	// What helps is said of what has failed alone: one call that succeeded needs another recording.
	if _, stderr, _ := ran("diff", "--nth", "9", recordedSessions); strings.Contains(stderr, "-S") || !strings.Contains(stderr, "failure 9 is asked for") {
		t.Error(stderr)
	}
	// Of what was cut off, what is there is compared. That is said first.
	stdout, stderr, _ := ran("diff", threeReads, cut)
	if !strings.HasPrefix(stdout, "first difference: vfs_read is called in "+threeReads+" only\n") || !strings.HasPrefix(stderr, "ksnoop: "+cut+" ends early: ") {
		t.Error(stderr, stdout)
	}
	// A wrong checksum is told of one recording as of two, besides that it lacks what is asked for.
	damaged := bytes.Clone(whole)
	damaged[len(damaged)-300] ^= 1
	bad := filepath.Join(t.TempDir(), "damaged.ks")
	if err := os.WriteFile(bad, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"diff", bad}, {"diff", threeReads, bad}} {
		if _, stderr, status := ran(args...); status == 0 || strings.Count(stderr, "the recording is damaged: a block has a wrong checksum") != 1 {
			t.Errorf("%q: status %d, %s", args, status, stderr)
		}
	}
	const kernel = `","kernel":"6.12.117+deb12-cloud-amd64","calls":`
	want := `"good":{"file":"` + threeReads + kernel + `3},"bad":{"file":"` + cut + kernel + `0,"incomplete":true}}`
	if stdout, _, status := ran("diff", "--format", "json", threeReads, cut); status != exitUsage || !strings.Contains(stdout, want) {
		t.Errorf("status %d:\n%s", status, stdout)
	}
}

// TestSourceOf: a jump has the line of the code that was inlined there, which comes first, and those that it was inlined at.
func TestSourceOf(t *testing.T) {
	own, inlined := debuginfo.Frame{Func: "map_create", File: "syscall.c", Line: 1644}, debuginfo.Frame{Func: "map_create_alloc", File: "syscall.c", Line: 1436}
	for want, frames := range map[string][]debuginfo.Frame{
		"": nil, "syscall.c:1644": {own}, "syscall.c:1436, inlined at syscall.c:1644": {inlined, own}, "syscall.c:1436": {inlined, {Func: "map_create"}},
	} {
		if got := strings.Join(sourceOf(frames), ", inlined at "); got != want {
			t.Errorf("%v: %q, want %q", frames, got, want)
		}
	}
}

// TestDiffCompletion: names of recordings and formats are completed.
func TestDiffCompletion(t *testing.T) {
	for line, want := range map[string]string{"diff --format ": "text\njson\n", "diff " + threeReads + " vfs_r": "vfs_read"} {
		args := append([]string{"__complete"}, strings.Split(line, " ")...)
		if stdout, _, _ := ran(args...); !strings.Contains(stdout, want) {
			t.Errorf("%s: %q", line, stdout)
		}
	}
}
