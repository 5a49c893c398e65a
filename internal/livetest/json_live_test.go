// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// A jsonLine is what the tests look at of a line.
type jsonLine struct {
	Kind     string
	Stack    int
	ID       int
	Name     string
	Comm     string
	Count    uint64
	Records  int
	Losses   map[string]uint64
	Values   map[string]json.RawMessage
	Duration uint64
	Calls    []struct {
		Name   string
		Result struct{ Error string }
		Frame  *int
	}
	Frames []struct{ Symbol string }
	Trace  []struct{ Step, Name string }
}

// jsonLines holds each line to the schema and returns all.
func jsonLines(t *testing.T, text string) (lines []jsonLine) {
	t.Helper()
	for line := range strings.Lines(text) {
		err := schemaOfLines(t).Check(line)
		var l jsonLine
		if err == nil {
			err = json.Unmarshal([]byte(line), &l)
		}
		if err != nil {
			t.Errorf("%v:\n%.2000s", err, line)
			continue
		}
		lines = append(lines, l)
	}
	if n := len(lines); n < 2 || lines[0].Kind != "header" || lines[n-1].Kind != "end" {
		t.Fatalf("no header or no end:\n%.2000s", text)
	}
	return lines
}

// of returns the lines of a kind.
func of(lines []jsonLine, kind string) []jsonLine {
	return slices.DeleteFunc(slices.Clone(lines), func(l jsonLine) bool { return l.Kind != kind })
}

// TestLiveJSON: every line meets the schema, and replay prints what trace has printed, to the
// byte.
func TestLiveJSON(t *testing.T) {
	guest.Require(t)
	reads := quiet("read -size 33 -count 3")
	for i, c := range []struct {
		name  string
		trace []string
		look  []string // for replay as well
		work  []string
		check func(lines []jsonLine) error
	}{
		{"calls", []string{"--stack", "vfs_read(count == 33, file->f_flags, *file, str(file->f_path.dentry->d_name.name), return)"}, nil, reads, func(lines []jsonLine) error {
			entries, returns, stacks := of(lines, "entry"), of(lines, "return"), of(lines, "stack")
			if len(entries) != 3 || len(returns) != 3 || string(returns[0].Values["return"]) != `{"value":33}` || string(entries[0].Values["count"]) != "33" {
				return fmt.Errorf("%d entries, %d returns", len(entries), len(returns))
			}
			if len(stacks) == 0 || stacks[0].Frames[0].Symbol != "ksys_read" || entries[0].Stack != stacks[0].ID {
				return fmt.Errorf("stacks %+v, entry %+v", stacks, entries[0])
			}
			return nil
		}},
		{"joined", []string{"vfs_read(count == 33, $duration, return == 33)", "vfs_read(count == 33, hex(pos), diff(file->f_pos))"}, []string{"--join", "--json-strings"}, reads, func(lines []jsonLine) error {
			if got := of(lines, "call"); len(got) != 6 || string(got[0].Values["count"]) != `"33"` {
				return fmt.Errorf("%+v", got)
			}
			return nil
		}},
		{"sessions", []string{"-T", "-A", "-I", "-e", "*sys_bpf", "-a", "map_create", "array_map_alloc_check(attr->max_entries, return)", "-J", "kretprobe:map_create"}, nil, quiet("map-array-zero"), func(lines []jsonLine) error {
			got := of(lines, "session")
			if len(got) != 1 || len(got[0].Calls) < 3 || len(got[0].Trace) < 4 {
				return fmt.Errorf("%+v", got)
			}
			last := got[0].Calls[len(got[0].Calls)-1]
			if last.Name != "array_map_alloc_check" || last.Result.Error != "EINVAL" || last.Frame != nil || got[0].Calls[0].Frame == nil {
				return fmt.Errorf("%+v", got[0].Calls)
			}
			return nil
		}},
		{"live", []string{"-T", "--live", "-e", "*sys_bpf", "-a", "map_create", "-a", "array_map_alloc_check"}, nil, quiet("map-array-zero"), func(lines []jsonLine) error {
			if len(of(lines, "trace")) == 0 || len(of(lines, "session")) != 1 {
				return fmt.Errorf("%d pieces, %d sessions", len(of(lines, "trace")), len(of(lines, "session")))
			}
			return nil
		}},
		{"losses", []string{"--rate", "5/h", "-n", "workload", "vfs_read(count == 53)"}, nil, quiet("read -size 53 -count 100"), func(lines []jsonLine) error {
			sum := uint64(0)
			for _, l := range of(lines, "loss") {
				sum += l.Count
			}
			end := lines[len(lines)-1]
			if end.Records != 5 || sum != end.Losses["rate"] || sum < 95 || sum > 105 {
				return fmt.Errorf("marks of %d, end %+v", sum, end)
			}
			return nil
		}},
	} {
		if !livetest.Mine(t, i) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			file := recordingFile(t)
			args := slices.Concat([]string{"trace", "-s", "none", "--format", "json", "--record", file, "--force", "--print"}, c.look, c.trace, c.work)
			want, errs, status := ksnoop(t, args...)
			if status != 0 {
				t.Fatalf("status %d: %s", status, errs)
			}
			if err := c.check(jsonLines(t, want)); err != nil {
				t.Errorf("%v\n%.5000s", err, want)
			}
			got, _, status := replayed(t, slices.Concat([]string{file, "--format", "json"}, c.look)...)
			if got != want || status != 0 {
				t.Errorf("replay, status %d:\n%.5000s\ntrace:\n%.5000s", status, got, want)
			}
		})
	}
}

// TestLiveJSONInterrupted: the end comes after an interrupt too, and -o takes what is printed.
func TestLiveJSONInterrupted(t *testing.T) {
	guest.Require(t)
	file := recordingFile(t)
	r := startSessions(t, "-s", "none", "--format", "json", "-o", file, "-S", "-e", "vfs_read(count == 33)")
	traced := func() bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), `"kind":"session"`)
	}
	for !traced() {
		workload(t, "read", "-size", "33")
	}
	if err := r.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if out, status := r.wait(t); out != "" || status != 0 {
		t.Errorf("status %d, printed %q", status, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := jsonLines(t, string(text))
	if got := of(lines, "session"); len(got) == 0 || len(got) != lines[len(lines)-1].Records {
		t.Errorf("%d sessions, end %+v", len(got), lines[len(lines)-1])
	}
}
