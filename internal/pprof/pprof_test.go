// SPDX-License-Identifier: Apache-2.0

package pprof

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/output"
)

// end returns the profile that a printer appends at the end.
func end(t *testing.T, p *Printer) ([]byte, *profile.Profile) {
	t.Helper()
	raw, err := p.AppendEnd(nil, &output.Totals{})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := profile.Parse(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return raw, parsed
}

// text writes samples with their labels.
func text(p *profile.Profile) (lines []string) {
	for _, s := range p.Sample {
		var stack []string
		for _, l := range slices.Backward(s.Location) {
			for _, line := range slices.Backward(l.Line) {
				stack = append(stack, fmt.Sprintf("%s %s:%d %x", line.Function.Name, line.Function.Filename, line.Line, l.Address))
			}
		}
		lines = append(lines, fmt.Sprintf("%s | %v | %v %v %v %v", strings.Join(stack, " > "), s.Value, s.NumLabel["pid"], s.Label["comm"], s.Label["function"], s.Label["errno"]))
	}
	return lines
}

// sessions prints the failed session twice.
func sessions(t *testing.T) *Printer {
	k := formattest.New(t, "t_")
	k.Sessions(false, "t_open", "t_read", "t_alloc")
	p := New(k.Run)
	for range 2 {
		if out, err := p.AppendSession(nil, k.Failed()); len(out) > 0 || err != nil {
			t.Fatalf("%q, %v", out, err)
		}
	}
	return p
}

func TestSession(t *testing.T) {
	_, got := end(t, sessions(t))
	const below = "entry_SYSCALL_64 entry/entry.S:121 ffffffff81000060 > do_syscall entry/common.c:81 ffffffff81000060 > t_open fs/open.c:1400 ffffffff81001050"
	const read, alloc = " > t_read :0 ffffffff81002040", " > t_alloc [mod] :0 ffffffff81003000"
	if diff := cmp.Diff([]string{
		below + " | [2 1400 0] | [7] [cat] [t_open] [ENOMEM]",
		below + read + " | [2 400 0] | [7] [cat] [t_read] [ENOMEM]",
		below + read + alloc + " | [2 200 2] | [7] [cat] [t_alloc] [NULL]",
	}, text(got)); diff != "" {
		t.Error(diff)
	}
	if got.DefaultSampleType != "time" || got.DurationNanos != 1000 || got.TimeNanos != formattest.Boot.UnixNano()+1000 {
		t.Errorf("by default %s, %d ns at %d", got.DefaultSampleType, got.DurationNanos, got.TimeNanos)
	}
}

// TestTool: go tool pprof opens a profile, and says of functions what was in them.
func TestTool(t *testing.T) {
	raw, _ := end(t, sessions(t))
	file := filepath.Join(t.TempDir(), "profile.pb.gz")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		want []string // fields of lines
	}{
		{"-top -sample_index=time", []string{"1400ns 70.00% 70.00% 2000ns 100% t_open", "400ns 20.00% 90.00% 600ns 30.00% t_read", "200ns 10.00% 100% 200ns 10.00% t_alloc [mod]", "0 0% 100% 2000ns 100% do_syscall (inline)"}},
		{"-top -sample_index=errors", []string{"2 100% 100% 2 100% t_alloc [mod]", "0 0% 100% 2 100% t_open"}},
		{"-top -sample_index=calls -tagfocus=errno=NULL", []string{"2 33.33% 33.33% 2 33.33% t_alloc [mod]"}},
		{"-raw", []string{"calls/count time/nanoseconds[dflt] errors/count", "2 1400 0: 1 2", "comm:[cat] errno:[ENOMEM] function:[t_open]"}},
	} {
		out, err := exec.Command("go", append(append([]string{"tool", "pprof"}, strings.Fields(c.args)...), file)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", c.args, err, out)
		}
		var lines []string
		for line := range strings.Lines(string(out)) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		for _, want := range c.want {
			if !slices.Contains(lines, want) {
				t.Errorf("%s: no line %q in\n%s", c.args, want, out)
			}
		}
	}
}

// printCalls prints three calls of read that two processes make.
func printCalls(t *testing.T, k *formattest.Trace, p *Printer) {
	t.Helper()
	e := bpf.Event{Kind: bpf.KindEntry, Time: 1000, PID: 7, TID: 8, Comm: formattest.Comm(formattest.Evil)}
	other := e
	other.PID = 9
	stack := []uint64{formattest.Read + 5, formattest.Open + 0x50, formattest.Syscall + 0x60}
	for c := range k.Joined(k.Raw(formattest.Record{Func: "read", Event: e, Words: []uint64{1}, Stack: stack}),
		k.Raw(formattest.Record{Func: "read", Event: e, Words: []uint64{2}, Stack: stack}), k.Raw(formattest.Record{Func: "read", Event: other, Words: []uint64{3}})) {
		if _, err := p.AppendCall(nil, c); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHostile: no name acts on a terminal that a profile is shown on.
func TestHostile(t *testing.T) {
	k := formattest.New(t, formattest.Evil)
	k.Calls("*read(count)")
	p := New(k.Run)
	printCalls(t, k, p)
	_, got := end(t, p)
	if len(got.Sample) != 2 || got.Sample[0].Value[0] != 2 || got.Sample[1].Value[0] != 1 || got.DefaultSampleType != "calls" {
		t.Errorf("%v", got)
	}
	for _, line := range append(text(got), got.String()) {
		if raw := formattest.Unsafe(line); raw != "" {
			t.Errorf("%q is in %q", raw, line)
		}
	}
}

// TestLimit: samples for which there is no room are counted together.
func TestLimit(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_read(count)")
	for limit, want := range map[int][]string{
		0:    {others + " :0 0 | [3 0 0] | [] [] [] []"},
		2800: {"entry_SYSCALL_64 entry/entry.S:121 ffffffff81000060 > do_syscall entry/common.c:81 ffffffff81000060 > t_open fs/open.c:1400 ffffffff81001050 > t_read :0 ffffffff81002000 | [2 0 0] | [7]", others + " :0 0 | [1 0 0] | [] [] [] []"},
	} {
		p := New(k.Run)
		p.table = newTable(limit)
		printCalls(t, k, p)
		_, got := end(t, p)
		lines := text(got)
		for i := range want {
			if i >= len(lines) || !strings.HasPrefix(lines[i], want[i]) {
				t.Errorf("limit %d:\n%s", limit, strings.Join(lines, "\n"))
			}
		}
		if len(got.Comments) != 2 || !strings.Contains(got.Comments[0], "merged in "+others) || len(lines) != len(want) {
			t.Errorf("limit %d: %q, comments %q", limit, lines, got.Comments)
		}
	}
}

// TestUnknownErrors: a result that is redacted, or not captured, is not taken for a success.
func TestUnknownErrors(t *testing.T) {
	for _, c := range []struct {
		spec    string
		redact  []string
		unknown bool
	}{{"t_read(return)", nil, false}, {"t_read(return)", []string{"return"}, true}, {"t_read(return)", []string{"*"}, true}, {"t_read(count)", nil, true}} {
		k := formattest.New(t, "t_")
		k.Redact = c.redact
		k.Calls(c.spec)
		kind := bpf.KindReturn
		if c.spec == "t_read(count)" {
			kind = bpf.KindEntry
		}
		p := New(k.Run)
		for call := range k.Joined(k.Raw(formattest.Record{Func: "read", Event: bpf.Event{Kind: kind, Time: 100, PID: 7, TID: 7}, Words: []uint64{0}})) {
			if _, err := p.AppendCall(nil, call); err != nil {
				t.Fatal(err)
			}
		}
		_, got := end(t, p)
		if said := slices.Equal(got.Comments, []string{"errors: unknown for 1 call, whose result was not captured"}); said != c.unknown {
			t.Errorf("%s, --redact %q: comments %q", c.spec, c.redact, got.Comments)
		}
	}
}

// FuzzPrinter: whatever a recording has, the profile is one.
func FuzzPrinter(f *testing.F) {
	formattest.Fuzz(f, "../../testdata/calls.ks", "../../testdata/sessions.ks", func(r output.Run) formattest.Printer { return New(r) }, func(t *testing.T, out []byte) {
		p, err := profile.ParseData(out)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range text(p) {
			if raw := formattest.Unsafe(line); raw != "" {
				t.Errorf("%q is in %q", raw, line)
			}
		}
		for _, s := range p.Sample {
			if slices.Min(s.Value) < 0 {
				t.Errorf("values %v", s.Value)
			}
		}
	})
}
