// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/record"
)

// recorded is what a recording holds of one event of vfs_read(count, return).
type recorded struct {
	kind  bpf.Kind
	time  uint64 // seconds
	value int64
}

// reads plans to trace vfs_read by the types of this kernel.
func reads(t *testing.T) (record.Source, *plan.Plan) {
	t.Helper()
	needBTF(t)
	root := os.DirFS("/")
	view := kernel.Open(root)
	spec, err := expr.Parse("vfs_read(count, return)")
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := plan.Resolve(view, []*expr.Spec{spec}, plan.Options{Arch: hostArch})
	if err != nil {
		t.Fatal(err)
	}
	return record.Source{Root: root, View: view, Arch: hostArch, Writer: "test"}, p
}

// writeRecording records calls of vfs_read by the types of this kernel.
func writeRecording(t *testing.T, ending event.Losses, events ...recorded) string {
	t.Helper()
	source, p := reads(t)
	name := filepath.Join(t.TempDir(), "recording")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w, err := record.NewWriter(file, source, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range events {
		e := bpf.Event{Time: r.time * 1e9, PID: 7, TID: 8, CPU: 1, Kind: r.kind}
		copy(e.Comm[:], "workload")
		raw := binary.LittleEndian.AppendUint64(bpf.AppendEvent(nil, &e), uint64(r.value))
		if err := w.Append(raw); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(ending); err != nil {
		t.Fatal(err)
	}
	return name
}

const (
	replayHeader = "            TASK     PID CPU#        TIMESTAMP FUNCTION\n\n"
	replayHead   = "        workload       7    1 "
)

// The recursive calls of this recording: the inner one fails, and the outer
// one does not return.
func nestedReads(t *testing.T, ending event.Losses) string {
	return writeRecording(t, ending,
		recorded{bpf.KindReturn, 1, 9},
		recorded{bpf.KindEntry, 2, 100},
		recorded{bpf.KindEntry, 3, 200},
		recorded{bpf.KindReturn, 4, -22})
}

func TestReplay(t *testing.T) {
	name := nestedReads(t, event.Losses{Lost: [bpf.Counters]uint64{bpf.LostRingbuf: 3}, Cut: 17})
	const returned = replayHead + "        1.000000 vfs_read(\n        return = (ssize_t)9\n\n);\n"
	const split = replayHeader + returned +
		replayHead + "        2.000000 vfs_read(\n        count = (size_t)100\n\n);\n" +
		replayHead + "        3.000000 vfs_read(\n        count = (size_t)200\n\n);\n" +
		replayHead + "        4.000000 vfs_read(\n        return = (ssize_t)-22 /* -EINVAL */\n\n);\n"
	const joined = replayHeader +
		replayHead + "        1.000000 vfs_read(\n        return = (ssize_t)9\n\n        /* its entry was not recorded */\n\n);\n" +
		replayHead + "        4.000000 vfs_read(\n        count = (size_t)200,\n\n        return = (ssize_t)-22 /* -EINVAL */\n\n);\n" +
		replayHead + "        2.000000 vfs_read(\n        count = (size_t)100\n\n        /* had not returned by the end */\n\n);\n"
	const mark = "--- 3 records lost because the ring buffer was full ---\n"
	const losses = "ksnoop: 3 records lost because the ring buffer was full; try a larger --ringbuf, a narrower SPEC or --rate\n" +
		"ksnoop: 17 records not shown because there was too much to print after the interrupt\n"
	for _, test := range []struct {
		args       []string
		want, errs string
	}{
		{[]string{"replay", name}, split + mark, losses},
		{[]string{"replay", "--join", name}, joined + mark, losses},
		{[]string{"replay", "-c", "1", name}, replayHeader + returned, ""},
	} {
		stdout, stderr, status := ran(test.args...)
		if status != 0 || stdout != test.want || stderr != test.errs {
			t.Errorf("%q: status %d, stdout:\n%s\nwant:\n%s\nstderr: %s", test.args, status, stdout, test.want, stderr)
		}
	}
}

// What is no recording, or not all of one, ends with one clear line.
func TestReplayRefuses(t *testing.T) {
	whole, err := os.ReadFile(nestedReads(t, event.Losses{}))
	if err != nil {
		t.Fatal(err)
	}
	all, _, _ := ran("replay", nestedReads(t, event.Losses{}))
	damaged := append([]byte(nil), whole...)
	damaged[len(damaged)/2] ^= 1
	newer := append([]byte(nil), whole...)
	newer[16] += 2
	for _, test := range []struct {
		name, data, want string
		printed          string
	}{
		{"empty", "", "the file is empty", ""},
		{"script", "#!/bin/sh\nexit 0\n", "not a recording of ksnoop", ""},
		{"newer", string(newer), "the recording has format 7, this ksnoop reads formats 3 to 6", ""},
		{"head", string(whole[:100]), "the recording was cut off", ""},
		{"files only", string(whole[:len(whole)/2]), "the recording was cut off", ""},
		{"without its end", string(whole[:len(whole)-20]), "after 4 records: the recording was cut off", all},
		{"damaged", string(damaged), "the recording is damaged: a block has a wrong checksum", ""},
		{"two", string(whole) + string(whole), "the recording is damaged: something follows its end", all},
	} {
		name := filepath.Join(t.TempDir(), "recording")
		if err := os.WriteFile(name, []byte(test.data), 0o666); err != nil {
			t.Fatal(err)
		}
		stdout, stderr, status := ran("replay", name)
		if want := "ksnoop: " + name + ": " + test.want; status != exitFailed || !strings.HasPrefix(stderr, want) || strings.Count(stderr, "\n") != 1 || stdout != test.printed {
			t.Errorf("%s: status %d, stderr %q, want %q, stdout:\n%s", test.name, status, stderr, want, stdout)
		}
	}
	dir := t.TempDir()
	for _, test := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"replay"}, exitUsage, "replay takes a FILE"},
		{[]string{"replay", filepath.Join(dir, "none")}, exitFailed, "no such file"},
		{[]string{"replay", dir}, exitFailed, "is a directory"},
		{[]string{"trace", "--print", "vfs_read"}, exitUsage, "--print goes with --record"},
		{[]string{"trace", "--force", "vfs_read"}, exitUsage, "--force goes with --record"},
		{[]string{"trace", "--record", "-", "vfs_read"}, exitUsage, "write /dev/stdout"},
		{[]string{"trace", "--record", "/dev/stdout", "--print", "vfs_read"}, exitUsage, "does not go with --print"},
		{[]string{"trace", "--record", "/dev/stdout", "vfs_read", "--", "true"}, exitUsage, "does not go with a command"},
	} {
		if stdout, stderr, status := ran(test.args...); status != test.status || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%q: status %d, stderr %q, stdout %q", test.args, status, stderr, stdout)
		}
	}
}

// A recording that was not begun leaves nothing behind, and does not touch what
// was there.
func TestRecordingFile(t *testing.T) {
	needBTF(t)
	source := record.Source{Root: os.DirFS("/"), View: kernel.Open(os.DirFS("/"))}
	name := filepath.Join(t.TempDir(), "recording")
	f, force := recordFlags{file: name}, false
	r, err := f.open(&plan.Plan{}, source, force)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := f.open(&plan.Plan{}, source, force); err == nil || !strings.HasSuffix(err.Error(), "file exists; --force replaces it") {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("what was not begun is there: %v", err)
	}
	for range 2 {
		force = true
		if r, err = f.open(&plan.Plan{}, source, force); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.Begin(&plan.Plan{}), r.Close()); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
}

// TestFullDisk: that nothing can be written is said once, and it is an error.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	file, _ := symProgram(t)
	types := typesFile(t)
	for _, args := range [][]string{
		{"replay", hostileRecording(t, "name", false)},
		{"replay", hostileRecording(t, "name", true)},
		{"info", "--btf", types, "vfs_read"},
		{"trace", "--explain", "--btf", types, "vfs_read"},
		{"trace", "--dry-run", "--btf", types, "vfs_read"},
		{"print", "--btf", types, "size_t", "/dev/zero"},
		{"sym", "-e", file, "main"},
		{"--help"},
		{"trace", "--help"},
		{"help", "print"},
		{"--version"},
	} {
		var stderr bytes.Buffer
		status := run(args, full, &stderr)
		said := stderr.String()
		if status != exitFailed || strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "ksnoop: ") || strings.Count(said, "no space left on device") != 1 {
			t.Errorf("%q: status %d, %q", args, status, said)
		}
	}
	var stderr bytes.Buffer
	cmd := newSymCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"-e", file})
	cmd.SetIn(strings.NewReader("main\n"))
	cmd.SetOut(full)
	cmd.SetErr(&stderr)
	if err := cmd.Execute(); err == nil || strings.Count(err.Error(), "no space left on device") != 1 {
		t.Errorf("sym: %v", err)
	}
}

// TestReplayTree: of sessions that were recorded with -T, the stacks alone can be shown; the calls of others are not
// there to be shown.
func TestReplayTree(t *testing.T) {
	const traced = "../../testdata/sessions.ks"
	whole, _, _ := ran("replay", traced)
	head, rest, _ := strings.Cut(whole, "\n\n")
	calls, stack, found := strings.Cut(rest, "\n\n")
	if !found || !strings.HasPrefix(calls, "FUNCTION CALLS") {
		t.Fatalf("a session without calls, or without a stack:\n%s", whole)
	}
	untraced, of := hostileRecording(t, "harmless", true), hostileRecording(t, "harmless", false)
	for _, c := range []struct{ option, file, stdout, says string }{
		{"-T", traced, whole, ""},
		{"-T=no", traced, head + "\n\n" + stack, ""},
		{"-T", untraced, "", "ksnoop: " + untraced + ": -T goes with what was recorded with -T: these sessions have the calls of their stacks only\n"},
		{"-T", of, "", "ksnoop: " + of + ": -T is about sessions, and calls were recorded\n"},
	} {
		if stdout, stderr, _ := ran("replay", c.option, c.file); stdout != c.stdout || stderr != c.says {
			t.Errorf("%s %s: %q, %q", c.option, c.file, stdout, stderr)
		}
	}
	if stdout, _, _ := ran("replay", "-T=no", "--format", "json", traced); strings.Contains(stdout, `"trace":`) || !strings.Contains(stdout, `"calls":`) {
		t.Errorf("JSON has what was left out: %s", stdout)
	}
}

// TestReplayNoStack: sessions that were recorded without calls and branches are nothing but a
// stack, as trace says of them, and calls have none of that kind.
func TestReplayNoStack(t *testing.T) {
	for _, c := range []struct {
		sessions bool
		says     string
	}{
		{true, ": --no-stack goes with what was recorded with -T or --lbr: these sessions are nothing but a stack\n"},
		{false, ": --no-stack is about sessions, and calls were recorded\n"},
	} {
		name := hostileRecording(t, "harmless", c.sessions)
		stdout, stderr, status := ran("replay", "--no-stack", name)
		if status != exitUsage || stdout != "" || stderr != "ksnoop: "+name+c.says {
			t.Errorf("status %d, %q, %q", status, stdout, stderr)
		}
	}
}

// TestOutputFile: what -o names is the owner's alone, has what would be printed, and is only
// replaced if that is asked for.
func TestOutputFile(t *testing.T) {
	recording := nestedReads(t, event.Losses{})
	want, _, _ := ran("replay", recording)
	name := filepath.Join(t.TempDir(), "out")
	for _, args := range [][]string{{"-o", name}, {"-o", name, "--force", "--format", "text"}} {
		stdout, stderr, status := ran(append([]string{"replay", recording}, args...)...)
		got, err := os.ReadFile(name)
		if stdout != "" || stderr != "" || status != 0 || err != nil || string(got) != want {
			t.Errorf("%q: %q, %q, status %d, %v, wrote\n%s", args, stdout, stderr, status, err, got)
		}
	}
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-o", name}, "--force replaces it"},
		{[]string{"-o", "-"}, "leave it out to print to the standard output"},
		{[]string{"--format", "xml"}, "there are text"},
	} {
		if stdout, stderr, status := ran(append([]string{"replay", recording}, c.args...)...); stdout != "" || status == 0 || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: %q, %q, status %d", c.args, stdout, stderr, status)
		}
	}
}

// TestReplayJSON: a recording is printed as JSON, with its end even where it was cut off.
func TestReplayJSON(t *testing.T) {
	name := nestedReads(t, event.Losses{Lost: [bpf.Counters]uint64{bpf.LostRingbuf: 3}})
	kinds := func(text string) (kinds []string) {
		for line := range strings.Lines(text) {
			var l struct{ Kind, Error string }
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Errorf("%v: %s", err, line)
			}
			kinds = append(kinds, strings.TrimSpace(l.Kind+" "+l.Error))
		}
		return kinds
	}
	stdout, _, status := ran("replay", "--format", "json", name)
	if got, want := kinds(stdout), []string{"header", "return", "entry", "entry", "return", "loss", "end"}; !slices.Equal(got, want) || status != 0 {
		t.Errorf("status %d, %q, want %q", status, got, want)
	}
	if stdout, _, _ := ran("replay", "--format", "json", "--join", name); !strings.Contains(stdout, `"missing":"no entry","values":{"return":{"value":9}}`) {
		t.Errorf("joined:\n%s", stdout)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut")
	if err := os.WriteFile(cut, data[:len(data)-4], 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, status := ran("replay", "--format", "json", cut)
	got := kinds(stdout)
	if last := got[len(got)-1]; status != exitFailed || !strings.HasPrefix(last, "end after ") || !strings.Contains(stderr, strings.TrimPrefix(last, "end ")) {
		t.Errorf("cut off: status %d, %q, %q", status, got, stderr)
	}
	for args, want := range map[string]string{
		"replay --format json --compact":              "--compact does not go with --format json",
		"replay --json-strings":                       "--json-strings goes with --format json",
		"trace --format json --record x vfs_read":     "--record alone prints nothing",
		"trace --format json --dry-run vfs_read":      "--explain and --dry-run print none",
		"trace --force vfs_read":                      "--force goes with --record or -o",
		"trace -o x --format json --explain vfs_read": "--explain and --dry-run print none",
	} {
		if stdout, stderr, status := ran(append(strings.Fields(args), name)...); status != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %q, want %q", args, status, stderr, want)
		}
	}
	if stdout, _, status := ran("schema"); status != 0 || !json.Valid([]byte(stdout)) {
		t.Errorf("schema: status %d:\n%s", status, stdout)
	}
}
