// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/jsonlines"
	"github.com/ksnoop/ksnoop/internal/record"
)

// TestReplayMerged: recordings of one boot are printed together, by time, whichever is named
// first. What is asked for holds for each.
func TestReplayMerged(t *testing.T) {
	local := time.Local
	time.Local = time.UTC // as in the guest
	defer func() { time.Local = local }()
	const dir = "../../testdata/"
	var want string
	for _, name := range []string{"calls.txt", "sessions.txt"} { // in this order they were made
		text, err := os.ReadFile(dir + name)
		if err != nil {
			t.Fatal(err)
		}
		want += string(text)
	}
	for _, args := range [][]string{{dir + "calls.ks", dir + "sessions.ks"}, {dir + "sessions.ks", dir + "calls.ks"}} {
		if stdout, stderr, status := ran(append([]string{"replay"}, args...)...); stdout != want || stderr != "" || status != 0 {
			t.Errorf("%q: status %d, %q\n%s\nwant\n%s", args, status, stderr, stdout, want)
		}
	}
	twice, stderr, status := ran("replay", "--compact", dir+"calls.ks", dir+"calls.ks")
	once, _, _ := ran("replay", "--compact", dir+"calls.ks")
	if status != 0 || stderr != "" || strings.Count(twice, "vfs_read(") != 2*strings.Count(once, "vfs_read(") || strings.Count(twice, "TIMESTAMP") != 1 {
		t.Errorf("status %d, %q\n%s", status, stderr, twice)
	}
}

// TestReplayMergedJSON: the lines of each run are those of the run alone, with its number, and the
// calls and sessions of all are in the order of time.
func TestReplayMergedJSON(t *testing.T) {
	const dir = "../../testdata/"
	schema, err := formattest.CompileSchema(jsonlines.Schema())
	if err != nil {
		t.Fatal(err)
	}
	names := []string{dir + "sessions.ks", dir + "calls.ks"}
	stdout, stderr, status := ran(append([]string{"replay", "--format", "json"}, names...)...)
	if stderr != "" || status != 0 {
		t.Fatalf("status %d, %q", status, stderr)
	}
	lines := make([]string, len(names))
	var last float64
	for line := range strings.Lines(stdout) {
		if err := schema.Check(strings.TrimSuffix(line, "\n")); err != nil {
			t.Errorf("%s%v", line, err)
		}
		var event struct {
			Kind           string
			Run            int
			Time, Duration float64
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil || event.Run < 1 || event.Run > len(names) {
			t.Fatalf("%v in %s", err, line)
		}
		lines[event.Run-1] += strings.Replace(line, fmt.Sprintf(`,"run":%d`, event.Run), "", 1)
		switch event.Kind {
		case "session":
			event.Time += event.Duration // it is sent when it ends
			fallthrough
		case "call":
			if event.Time < last {
				t.Errorf("too late: %s", line)
			}
			last = event.Time
		}
	}
	for i, name := range names {
		if alone, _, _ := ran("replay", "--format", "json", name); lines[i] != alone {
			t.Errorf("%s alone:\n%s\ntogether with the other:\n%s", name, alone, lines[i])
		}
	}
}

// TestMergedSums: what is added up of several hosts is said to be of them.
func TestMergedSums(t *testing.T) {
	other := hostileRecording(t, "harmless", false)
	for _, args := range [][]string{{"--summary"}, {"*(count())"}} {
		stdout, stderr, _ := ran(append([]string{"replay", "../../testdata/calls.ks", other}, args...)...)
		if marks := regexp.MustCompile(`(?m)^--- on .*\n.*count\(\)`).FindAllString(stdout, -1); len(marks) != 2 || !strings.HasPrefix(marks[0], "--- on guest, ") {
			t.Errorf("%q: %q in\n%s%s", args, marks, stdout, stderr)
		}
	}
}

// TestMergedStacks: stacks of several recordings are added up.
func TestMergedStacks(t *testing.T) {
	const calls, sessions = "../../testdata/calls.ks", "../../testdata/sessions.ks"
	const enter = "entry_SYSCALL_64_after_hwframe;do_syscall_64;"
	const want = enter + "__x64_sys_bpf;__sys_bpf 1\n" + enter + "__x64_sys_bpf;__sys_bpf;map_create;array_map_alloc_check 1\n" + enter + "ksys_read;vfs_read 6\n"
	if stdout, stderr, status := ran("replay", "--format", "folded", calls, sessions, calls); stdout != want || stderr != "" || status != 0 {
		t.Errorf("status %d\n%s%s", status, cmp.Diff(want, stdout), stderr)
	}
	if stdout, _, status := ran("replay", "--format", "folded", calls, calls, "vfs_read(sum(count)[$stack])"); stdout != enter+"ksys_read;vfs_read 198\n" || status != 0 {
		t.Errorf("status %d, %s", status, stdout)
	}
	name := filepath.Join(t.TempDir(), "profile")
	if _, stderr, status := ran("replay", "--format", "pprof", "-o", name, calls, sessions); status != 0 {
		t.Fatal(stderr)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p, err := profile.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int64{}
	for _, s := range p.Sample {
		counts[s.Location[0].Line[0].Function.Name] += s.Value[0]
	}
	if diff := cmp.Diff(map[string]int64{"vfs_read": 3, "__sys_bpf": 1, "array_map_alloc_check": 1}, counts); diff != "" {
		t.Error(diff)
	}
}

// TestMergedSays: of several recordings, what is said is said once, of the right one, and a fault is marked in its SPEC.
func TestMergedSays(t *testing.T) {
	const calls, sessions = "../../testdata/calls.ks", "../../testdata/sessions.ks"
	if _, stderr, _ := ran("replay", calls, sessions, "-c", "2"); stderr != "" {
		t.Errorf("-c: %s", stderr)
	}
	const fault = sessions + ":\n  vfs_read(count)\n  ^~~~~~~~\n"
	if _, stderr, _ := ran("replay", calls, sessions, "vfs_read(count)"); !strings.Contains(stderr, fault) {
		t.Errorf("no %s in %s", fault, stderr)
	}
	for _, files := range [][]string{{calls}, {calls, sessions}} {
		if _, stderr, status := ran(append([]string{"replay", "-o", "/dev/full"}, files...)...); status == 0 || strings.Count(stderr, "no space left on device") != 1 {
			t.Errorf("%q: status %d, %s", files, status, stderr)
		}
	}
}

// TestMergedPerfetto: several recordings are in one trace, each below a row of its own.
func TestMergedPerfetto(t *testing.T) {
	const calls, sessions = "../../testdata/calls.ks", "../../testdata/sessions.ks"
	name := filepath.Join(t.TempDir(), "trace")
	if _, stderr, status := ran("replay", "--format", "perfetto", "-o", name, sessions, calls); status != 0 || stderr != "" {
		t.Fatalf("status %d, %s", status, stderr)
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	formattest.ReadTrace(t, raw)
	for _, label := range []string{calls, sessions} {
		if n := strings.Count(string(raw), label); n != 1 {
			t.Errorf("%s is the name of %d rows", label, n)
		}
	}
}

// TestMarkHosts: what is said of a host's calls tells it from all others.
func TestMarkHosts(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	defer func() { time.Local = local }()
	early, late := time.Date(2026, 11, 24, 8, 0, 0, 1, time.UTC), time.Date(2026, 11, 24, 8, 0, 0, 2, time.UTC)
	for _, c := range []struct {
		hosts []record.Origin
		want  []string
	}{
		{[]record.Origin{{Host: "a", BootID: "1"}, {Host: "a", BootID: "1"}}, []string{"", ""}},
		{[]record.Origin{{Host: "a", BootID: "1"}, {Host: "b", BootID: "2"}}, []string{"a", "b"}},
		{[]record.Origin{{Host: "a", BootID: "1", Boot: early}, {Host: "a", BootID: "2", Boot: late.Add(time.Hour)}, {Host: "b", BootID: "3"}},
			[]string{"a, booted 2026-11-24 08:00:00", "a, booted 2026-11-24 09:00:00", "b"}},
		{[]record.Origin{{Host: "a", BootID: "1", Boot: early}, {Host: "a", BootID: "2", Boot: late}, {Host: "a", BootID: "1", Boot: late}},
			[]string{"a, booted 2026-11-24 08:00:00, 1", "a, booted 2026-11-24 08:00:00, 2", "a, booted 2026-11-24 08:00:00, 1"}},
		{[]record.Origin{{Host: "a", Boot: early}, {Host: "a", Boot: late}}, []string{"a, booted 2026-11-24 08:00:00, file0", "a, booted 2026-11-24 08:00:00, file1"}},
	} {
		var runs []*mergedRun
		for i := range c.hosts {
			runs = append(runs, &mergedRun{name: fmt.Sprint("file", i), origin: c.hosts[i]})
		}
		markHosts(runs)
		for i, m := range runs {
			if m.Host != c.want[i] {
				t.Errorf("%+v: %q, want %q", c.hosts[i], m.Host, c.want[i])
			}
		}
	}
}

func TestReplayMergedRefuses(t *testing.T) {
	const calls = "../../testdata/calls.ks"
	data, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.ks")
	if err := os.WriteFile(cut, data[:len(data)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--follow goes with one FILE":                           {"--follow", calls, calls},
		"--expect goes with one FILE, or":                       {"--expect", "3", calls, calls},
		"gone.ks: no such file or directory":                    {calls, "gone.ks"},
		cut + ": after 3 records: the recording was cut off":    {calls, cut},
		"--no-stack is about sessions, and calls were recorded": {"--no-stack", calls, calls},
		"goes with one FILE, or the parts of one run: several":  {"--format", "prometheus", calls, calls, "vfs_read(count())"},
		"the standard input, -, goes with no other recording":   {calls, "-"},
	} {
		_, stderr, status := ran(append([]string{"replay"}, args...)...)
		if status == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, %q, want %s", args, status, stderr, want)
		}
	}
}

// TestReplayParts: the parts of one run are printed in every format, as one recording of it
// would be, but each with its own time of day.
func TestReplayParts(t *testing.T) {
	source, p := reads(t)
	dir := t.TempDir()
	shelf, err := record.OpenShelf(dir, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	// The clock is set behind the first block.
	source.Boot = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	looked, set := 0, source.Boot.Add(time.Hour)
	source.Booted = func() time.Time {
		if looked++; looked > 2 {
			return set
		}
		return source.Boot
	}
	const calls = 6000
	r := record.NewRecordings(shelf, source)
	if err := r.Begin(p); err != nil {
		t.Fatal(err)
	}
	for _, err := range r.Tee(func(yield func([]byte, error) bool) {
		for i := range uint64(2 * calls) {
			e := bpf.Event{Time: 1e9 + i, PID: 7, TID: 8, Kind: [...]bpf.Kind{bpf.KindEntry, bpf.KindReturn}[i%2]}
			if !yield(binary.LittleEndian.AppendUint64(bpf.AppendEvent(nil, &e), i), nil) {
				return
			}
		}
	}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(r.End(&event.Losses{}), r.Close()); err != nil {
		t.Fatal(err)
	}
	parts, err := filepath.Glob(filepath.Join(dir, "*.ks"))
	if err != nil || len(parts) < 2 {
		t.Fatalf("%v, %d parts", err, len(parts))
	}
	stdout, stderr, status := ran(append([]string{"replay", "--format", "json", "--expect", strconv.Itoa(calls)}, parts...)...)
	if got := strings.Count(stdout, `{"kind":"header"`); status != 0 || stderr != "" || got != 1 || strings.Count(stdout, "\n") != 2*calls+2 {
		t.Errorf("status %d, %s, %d headers, %d lines", status, stderr, got, strings.Count(stdout, "\n"))
	}
	stdout, stderr, status = ran(append([]string{"replay", "--format", "folded"}, parts...)...)
	if want := fmt.Sprintf("vfs_read %d\n", calls); status != 0 || stderr != "" || stdout != want {
		t.Errorf("status %d, %s%s, want %s", status, stderr, stdout, want)
	}
	for since, want := range map[string]string{"2026-01-01T01:00": "01:00:01", "2026-01-01T00:30": "01:00:01", "2026-01-01T02:30": ""} {
		stdout, stderr, status = ran(append([]string{"replay", "--compact", "--fields", "wall", "-c", "1", "--since", since}, parts...)...)
		if want != "" && !strings.Contains(stdout, "2026-01-01T"+want) || want == "" && strings.Contains(stdout, "vfs_read") {
			t.Errorf("since %s: status %d, %s%s", since, status, stdout, stderr)
		}
	}
	if _, stderr, status = ran(append([]string{"replay", "--format", "folded"}, parts[:len(parts)-1]...)...); status != 0 || !strings.Contains(stderr, "the run goes on in a recording that is not here") {
		t.Errorf("without the last: status %d, %s", status, stderr)
	}
}
