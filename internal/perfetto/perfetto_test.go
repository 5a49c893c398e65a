// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/session"
)

// printed is a trace with its header and its end.
func printed(t *testing.T, p *Printer, events func(dst []byte) ([]byte, error)) []byte {
	t.Helper()
	out, err := p.AppendHeader(nil)
	if err == nil {
		out, err = events(out)
	}
	if err == nil {
		out, err = p.AppendEnd(out, &output.Totals{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// printCalls prints the calls that records are of.
func printCalls(t *testing.T, k *formattest.Trace, p *Printer, raw ...[]byte) []byte {
	t.Helper()
	return printed(t, p, func(dst []byte) (_ []byte, err error) {
		for c := range k.Joined(raw...) {
			if dst, err = p.AppendCall(dst, c); err != nil {
				return dst, err
			}
		}
		return dst, nil
	})
}

const syscallStack = "entry_SYSCALL_64 entry/entry.S:121 > do_syscall entry/common.c:81 > t_open fs/open.c:1400 > t_read"

// TestCalls: calls with two ends are slices, others are instants; values have their types.
func TestCalls(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_read(count, quick, path, (void *)path, return)", "t_open(flags, return < 0, $duration)", "t_alloc(hex(size))")
	entry := bpf.Event{Kind: bpf.KindEntry, Time: 1000, PID: 7, TID: 8, CPU: 3, Comm: formattest.Comm("cat")}
	returned := entry
	returned.Kind, returned.Time = bpf.KindReturn, 1500
	whole := entry
	whole.Kind, whole.Time, whole.EntryTime, whole.TID, whole.Comm = bpf.KindCall, 9000, 2000, 7, formattest.Comm("sh")
	orphan := returned
	orphan.PID, orphan.TID, orphan.Faults = 0, 0, 1
	single := entry
	single.Time = 1200
	open := entry
	open.Time = 9100
	got := read(t, printCalls(t, k, New(k.Run),
		k.Raw(formattest.Record{Func: "read", Event: entry, Words: []uint64{4096, 1, 0x7000, 0x7000}, Text: "/etc/\npasswd", Stack: []uint64{formattest.Read + 5, formattest.Open + 0x50, formattest.Syscall + 0x60}}),
		k.Raw(formattest.Record{Func: "alloc", Event: single, Words: []uint64{0x1000}}),
		k.Raw(formattest.Record{Func: "read", Event: returned, Words: []uint64{12}}),
		k.Raw(formattest.Record{Func: "read", Event: orphan, Words: []uint64{0}}),
		k.Raw(formattest.Record{Func: "open", Event: whole, Words: []uint64{formattest.Errno(100), formattest.Errno(2), 7000}}),
		k.Raw(formattest.Record{Func: "read", Event: open, Words: []uint64{1, 0, 0}})))
	if diff := cmp.Diff([]string{
		"process 7 sh",
		"thread 7/8 cat",
		`  1000 { t_read call cpu=uint(3) count=uint(4096) quick=bool(true) path="/etc/\\npasswd" (void *)path=pointer(28672) [` + syscallStack + "]",
		`    1200 * t_alloc call cpu=uint(3) hex(size)="0x1000" [t_alloc [mod]]`,
		"  1500 } return=int(12)",
		`  9100 { t_read call cpu=uint(3) incomplete="it had not returned by the end" count=uint(1) quick=bool(false) path="" (void *)path=pointer(0) [t_read]`,
		"cat (CPU 3)",
		`  1500 * t_read call cpu=uint(3) incomplete="its entry was not recorded" return="? (unreadable)" [t_read]`,
		"thread 7/7 sh",
		"  2000 { t_open failed cpu=uint(3) flags=int(-100) return=int(-2) $duration=uint(7000) [t_open fs/open.c:1400]",
		`  9000 } errno="ENOENT"`,
	}, got.lines()); diff != "" {
		t.Error(diff)
	}
	if want := fmt.Sprintf("clocks 3: 0, 1: %d, primary 3", formattest.Boot.UnixNano()); got.tracks[0] != want {
		t.Errorf("%s, want %s", got.tracks[0], want)
	}
}

// printSessions prints sessions.
func printSessions(t *testing.T, p *Printer, sessions ...*session.Session) []byte {
	t.Helper()
	return printed(t, p, func(dst []byte) (_ []byte, err error) {
		for _, x := range sessions {
			if dst, err = p.AppendSession(dst, x); err != nil {
				return dst, err
			}
		}
		return dst, nil
	})
}

// TestSessions: the calls of a session are slices within each other.
func TestSessions(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Sessions(false, "t_open", "t_read", "t_alloc")
	open, probe, alloc := k.Probe("open"), k.Probe("read"), k.Probe("alloc")
	traced := k.Failed()
	traced.PID, traced.TID, traced.Interrupt, traced.CPU = 1, 1, true, 2
	traced.Lost.Deep = 3
	traced.Trace = []session.Step{
		{Kind: session.StepEntry, Func: open, Time: 1000},
		{Kind: session.StepLeaf, Depth: 1, Func: probe, Time: 1300, Duration: 200, Result: 5},
		{Kind: session.StepProbe, Depth: 1, Probe: "tp:x:y", Time: 1350},
		{Kind: session.StepLost, Depth: 1},
		{Kind: session.StepEntry, Depth: 1, Func: probe, Time: 1500},
		{Kind: session.StepLeaf, Depth: 2, Func: alloc, Time: 1700, Duration: 100, Failed: true},
		{Kind: session.StepEntry, Depth: 2, Func: alloc, Time: 1750},
		{Kind: session.StepExit, Depth: 1, Func: probe, Time: 1800, Duration: 300, Result: formattest.Errno(12), Failed: true},
		{Kind: session.StepExit, Func: open, Time: 2000, Duration: 1000, Result: formattest.Errno(12), Failed: true},
	}
	hung := k.Failed()
	hung.State, hung.End = session.Hung, 900
	const outer = "entry_SYSCALL_64 entry/entry.S:121 > do_syscall entry/common.c:81 > t_open fs/open.c:1400"
	nested := []string{
		"  1000 { t_open failed cpu=uint(0) [" + outer + "]",
		"    1500 { t_read failed [" + syscallStack + "]",
		"      1600 { t_alloc failed [" + syscallStack + " > t_alloc [mod]]",
		`      1700 } return=pointer(0) errno="NULL"`,
		`    1800 } return=int(-12) errno="ENOMEM"`,
		`  2000 } return=int(-12) errno="ENOMEM"`,
	}
	withTrace := append([]string{strings.Replace(nested[0], "cpu=uint(0)", "cpu=uint(2)", 1),
		"    1100 { t_read call [" + outer + " > t_read]", "    1300 } return=int(5)", "    1350 * tp:x:y call"},
		append(append([]string{}, nested[1:4]...), "      1750 { t_alloc call ["+syscallStack+" > t_alloc [mod]]", `      1800 } incomplete="its return was not seen"`, nested[4], nested[5])...)
	got := read(t, printSessions(t, New(k.Run), hung, k.Failed(), traced)).lines()
	want := append([]string{"process 7 sh", "thread 7/8 cat", `  900 * t_open call state="still open" [` + syscallStack + " > t_alloc [mod]]"}, nested...)
	want = append(append(append(want, "interrupts, CPU 2"), withTrace...), "lost", "  1350 * calls lost lost count=uint(1)",
		"  2000 * calls were nested deeper than is kept lost count=uint(3)")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestLosses: what is missing is an instant where it is missing, or at the end of what came
// before if that is not known. A call without a return may then be one whose return is lost.
func TestLosses(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_read(count, return)")
	p := New(k.Run)
	entry := bpf.Event{Kind: bpf.KindEntry, Time: 1000, PID: 7, TID: 7, Comm: formattest.Comm("cat")}
	got := read(t, printed(t, p, func(dst []byte) (_ []byte, err error) {
		dst = p.AppendLoss(dst, event.Loss{Cause: bpf.LostRingbuf, Count: 5, Time: 800})
		for c := range k.Joined(k.Raw(formattest.Record{Func: "read", Event: entry, Words: []uint64{1}})) {
			if dst, err = p.AppendCall(dst, c); err != nil {
				return dst, err
			}
		}
		return p.AppendLoss(dst, event.Loss{Cause: bpf.RateLimited, Count: 1}), nil
	})).lines()
	if diff := cmp.Diff([]string{"lost", "  800 * records lost because the ring buffer was full lost count=uint(5)", "  1000 * calls left out by --rate lost count=uint(1)",
		"process 7 cat", "thread 7/7 cat", `  1000 * t_read call cpu=uint(0) incomplete="it had not returned by the end" count=uint(1) [t_read]`}, got); diff != "" {
		t.Error(diff)
	}
}

// TestLimit: tables that have become too large are begun anew, and events mean the same.
func TestLimit(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_read(count)")
	var raw [][]byte
	for i := range uint32(200) {
		raw = append(raw, k.Raw(formattest.Record{Func: "read", Event: bpf.Event{Kind: bpf.KindEntry, Time: uint64(i), PID: i, TID: i + 1, Comm: formattest.Comm(fmt.Sprint("task", i))},
			Words: []uint64{uint64(i)}, Stack: []uint64{formattest.Read + 5, formattest.Open + 0x50}}))
	}
	small := New(k.Run)
	small.limit = 4 << 10
	bounded, free := read(t, printCalls(t, k, small, raw...)), read(t, printCalls(t, k, New(k.Run), raw...))
	if diff := cmp.Diff(free.lines(), bounded.lines()); diff != "" {
		t.Error(diff)
	}
	if free.clears != 1 || bounded.clears < 5 || small.tables.size > small.limit+2000 {
		t.Errorf("begun %d and %d times, %d bytes", free.clears, bounded.clears, small.tables.size)
	}
}

// TestHostile: no name acts on a terminal, whatever reads the trace.
func TestHostile(t *testing.T) {
	k := formattest.New(t, formattest.Evil)
	k.Calls("*read(count)")
	e := bpf.Event{Kind: bpf.KindEntry, Time: ^uint64(0), PID: ^uint32(0), TID: ^uint32(0), CPU: ^uint16(0), Comm: formattest.Comm(formattest.Evil)}
	r := read(t, printCalls(t, k, New(k.Run), k.Raw(formattest.Record{Func: "read", Event: e, Words: []uint64{1}, Stack: []uint64{formattest.Read + 5, formattest.Open + 0x50}})))
	for _, line := range r.lines() {
		if raw := formattest.Unsafe(line); raw != "" {
			t.Errorf("%q is in %q", raw, line)
		}
	}
	if len(r.events) != 1 || r.events[0].time != 1<<63-1 {
		t.Errorf("%+v", r.events)
	}
}

// TestValues: arguments and captures of sessions are annotations of the call, at its begin
// and where its return is known.
func TestValues(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Sessions(true, "t_open", "t_read(quick, exit(count), return)")
	fn := k.Probe("read")
	var e event.Event
	if err := event.Decode(k.Run.Plan, k.Raw(formattest.Record{Func: "read", Event: bpf.Event{Kind: bpf.KindReturn}, Words: []uint64{1, 77, 5}}), &e); err != nil {
		t.Fatal(err)
	}
	count := session.Arg{Param: &fn.Params[1], Value: []byte{9, 0, 0, 0, 0, 0, 0, 0}}
	values := session.Values{Event: &e, Args: []session.Arg{count, {Param: &fn.Params[2]}}}
	x := &session.Session{PID: 7, TID: 7, Comm: "cat", Start: 100, End: 200, Func: k.Probe("open"), State: session.Exited,
		Chain: session.Chain{Frames: []session.Frame{{Func: fn, Entry: 110, Duration: 20, Result: 5, Finished: true, Values: values}, {Func: fn, Entry: 120, Duration: 5, Values: values}}}}
	const args = `count=uint(9) quick="? (unreadable)"`
	if diff := cmp.Diff([]string{"process 7 cat", "thread 7/7 cat",
		`  110 { t_read call cpu=uint(0) state="no return was seen before the thread ended" ` + args + " quick=bool(true) exit(count)=uint(77) [t_read]",
		"    120 { t_read call " + args + " quick=bool(true) [t_read > t_read]", `    125 } incomplete="its return was not seen"`, "  130 } return=int(5)",
	}, read(t, printSessions(t, New(k.Run), x)).lines()); diff != "" {
		t.Error(diff)
	}
}

// TestArrange: slices of a damaged recording do not cross each other.
func TestArrange(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Sessions(false, "t_open", "t_read", "t_alloc")
	open, fn, alloc := k.Probe("open"), k.Probe("read"), k.Probe("alloc")
	x := &session.Session{PID: 7, TID: 7, Start: 100, End: 200, Func: open,
		Chain:   session.Chain{Frames: []session.Frame{{Func: open, Entry: 100, Duration: 50, Finished: true}, {Func: fn, Entry: 90, Duration: ^uint64(0)}, {Func: alloc, Entry: 300, Duration: 1}}},
		Interim: []session.Chain{{Frames: []session.Frame{{Func: open, Entry: 100}, {Func: alloc, Entry: 120, Duration: 10}}}}}
	r := read(t, printSessions(t, New(k.Run), x))
	lines := r.lines() // fails if a slice ends that has not begun
	if len(r.events) != 8 || r.events[0].time != 100 || r.events[7].time != 150 || !strings.HasPrefix(lines[len(lines)-1], "  150 }") {
		t.Errorf("%s", strings.Join(lines, "\n"))
	}
}

// FuzzPrinter: whatever a recording has, a trace can be read, slices end where they began,
// and no name acts on a terminal.
func FuzzPrinter(f *testing.F) {
	formattest.Fuzz(f, "../../testdata/calls.ks", "../../testdata/sessions.ks", func(r output.Run) formattest.Printer {
		p := New(r)
		p.limit = 8 << 10
		return p
	}, func(t *testing.T, out []byte) {
		for _, line := range read(t, out).lines() {
			if raw := formattest.Unsafe(line); raw != "" {
				t.Errorf("%q is in %q", raw, line)
			}
		}
	})
}

// TestRedacted: a value that was not captured is not a number.
func TestRedacted(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Redact = []string{"count"}
	k.Calls("t_read(count, quick)")
	raw := k.Raw(formattest.Record{Func: "read", Event: bpf.Event{Kind: bpf.KindEntry, Time: 100, PID: 7, TID: 7}, Words: []uint64{0, 1}})
	lines := strings.Join(read(t, printCalls(t, k, New(k.Run), raw)).lines(), "\n")
	if !strings.Contains(lines, `count="<redacted>" quick=bool(true)`) {
		t.Error(lines)
	}
}
