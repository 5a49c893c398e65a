// SPDX-License-Identifier: Apache-2.0

package show

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"runtime"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/symbols"
)

// testKernel is a kernel that has
//
//	int send(int count)
func testKernel(t *testing.T) *kernel.View {
	t.Helper()
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	b, err := btf.NewBuilder([]btf.Type{&btf.Func{Name: "send", Linkage: btf.StaticFunc,
		Type: &btf.FuncProto{Return: integer, Params: []btf.FuncParam{{Name: "count", Type: integer}}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	view, err := kernel.OpenBTF(bytes.NewReader(bytes.Clone(raw)), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// sent are the records of calls of send(count), and the mark of losses behind them.
func sent(t *testing.T, k *kernel.View, lost uint64, counts ...uint64) (*plan.Plan, iter.Seq2[[]byte, error]) {
	t.Helper()
	spec, err := expr.Parse("send(count)")
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := plan.Resolve(k, []*expr.Spec{spec}, plan.Options{Arch: runtime.GOARCH})
	if err != nil {
		t.Fatal(err)
	}
	return p, func(yield func([]byte, error) bool) {
		for i, n := range counts {
			e := bpf.Event{PID: 7, TID: 7, Time: uint64(i)}
			copy(e.Comm[:], "a task")
			if !yield(binary.LittleEndian.AppendUint64(bpf.AppendEvent(nil, &e), n), nil) {
				return
			}
		}
		if lost > 0 {
			mark := bpf.Event{Kind: bpf.KindLost, Probe: uint32(bpf.LostRingbuf)}
			yield(binary.LittleEndian.AppendUint64(bpf.AppendEvent(nil, &mark), lost), nil)
		}
	}
}

// lines prints a line for each record.
func lines(k *kernel.View) *output.Calls {
	return output.NewCompactCalls(output.Names{Symbol: symbols.Appender(k)}, 160)
}

// TestCalls: what is written, and counted, is what came, up to the count that was asked for.
func TestCalls(t *testing.T) {
	k := testKernel(t)
	for _, c := range []struct {
		most, lost uint64
		want       string
		records    uint64
	}{
		{0, 0, "5 6 7", 3}, {2, 0, "5 6", 2}, {0, 4, "5 6 7 4 lost", 3}, {3, 4, "5 6 7", 3},
	} {
		p, records := sent(t, k, c.lost, 5, 6, 7)
		v := Calls{Plan: p, Printer: lines(k), Count: c.most}
		var out strings.Builder
		if err := v.Write(&out, records, func() bool { return true }); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			switch {
			case strings.Contains(line, "send(count = "):
				_, n, _ := strings.Cut(strings.TrimSuffix(line, ")\n"), "count = ")
				got = append(got, n)
			case strings.HasPrefix(line, "--- "):
				got = append(got, strings.Fields(line)[1], "lost")
			}
		}
		marked := c.lost
		if !strings.HasSuffix(c.want, "lost") {
			marked = 0
		}
		if tally := v.Tally(); strings.Join(got, " ") != c.want || tally.Records != c.records || tally.marked[bpf.LostRingbuf] != marked {
			t.Errorf("%q, %d records, %d marked; want %q", got, tally.Records, tally.marked[bpf.LostRingbuf], c.want)
		}
	}
}

// TestIdle: before it is waited for the next record, all that came before is written.
func TestIdle(t *testing.T) {
	k := testKernel(t)
	p, records := sent(t, k, 0, 5, 6)
	var out strings.Builder
	v := Calls{Plan: p, Printer: lines(k)}
	came := 0
	err := v.Write(&out, records, func() bool {
		if came++; came == 2 && (!strings.Contains(out.String(), "count = 5") || strings.Contains(out.String(), "count = 6")) {
			t.Errorf("written when the second record has come:\n%s", out.String())
		}
		return came == 1
	})
	if err != nil || came != 2 {
		t.Fatal(came, err)
	}
	failing := failingWriter{}
	if err := (&Calls{Plan: p, Printer: lines(k)}).Write(failing, records, nil); err == nil || strings.Count(err.Error(), errFull.Error()) != 1 {
		t.Errorf("a writer that fails: %v", err)
	}
}

var errFull = errors.New("no space left")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errFull }

// TestReport: each loss is told once: by a mark in the output where it happened, what is left
// behind the last record, and the sum at the end.
func TestReport(t *testing.T) {
	k := testKernel(t)
	p, records := sent(t, k, 4, 5)
	v := Calls{Plan: p, Printer: lines(k)}
	var out, notes strings.Builder
	if err := v.Write(&out, records, nil); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := v.End(&out, event.Losses{Lost: [bpf.Counters]uint64{bpf.LostRingbuf: 7, bpf.Truncated: 2}, Cut: 5}, nil); err != nil {
		t.Fatal(err)
	}
	if err := v.Tally().Report(&notes, false); err != nil {
		t.Fatal(err)
	}
	if out.String() != "--- 3 records lost because the ring buffer was full ---\n" || !strings.Contains(notes.String(), "ksnoop: 7 records lost because the ring buffer was full") ||
		!strings.Contains(notes.String(), "ksnoop: 5 records not shown because") || strings.Contains(notes.String(), "captured") || strings.Contains(notes.String(), "1 record ") {
		t.Errorf("%q, %q", out.String(), notes.String())
	}
	notes.Reset()
	if err := v.Tally().Report(&notes, true); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(notes.String(), "ksnoop: 1 record printed or written\n") || !strings.Contains(notes.String(), "ksnoop: 2 strings and buffers of which only the beginning was captured") {
		t.Errorf("%q", notes.String())
	}
}

// TestReportUnread: where losses could not be read it says why, and no number but that of what was cut off.
func TestReportUnread(t *testing.T) {
	const want = "ksnoop: what was lost is not known: detached\nksnoop: 2 records not shown because there was too much to print after the interrupt\n"
	var tally Tally
	tally.Unread, tally.Cut = errors.New("detached"), 2
	for _, all := range []bool{false, true} {
		var notes strings.Builder
		if err := tally.Report(&notes, all); err != nil || !strings.Contains(notes.String(), want) || strings.Contains(notes.String(), "ring buffer") {
			t.Errorf("%v, %q", err, notes.String())
		}
	}
}

// An ended is a printer that keeps what it is told at the end.
type ended struct {
	*output.Calls
	totals output.Totals
}

func (e *ended) AppendEnd(dst []byte, t *output.Totals) ([]byte, error) {
	e.totals = *t
	return append(dst, "the end\n"...), nil
}

// TestEnd: a format has its end after an error too, unless it is the output that failed.
func TestEnd(t *testing.T) {
	k := testKernel(t)
	cut := errors.New("cut off")
	p, whole := sent(t, k, 0, 5)
	records := func(yield func([]byte, error) bool) {
		for raw := range whole {
			if !yield(raw, nil) {
				return
			}
		}
		yield(nil, cut)
	}
	printer := &ended{Calls: lines(k)}
	v := Calls{Plan: p, Printer: printer}
	var out strings.Builder
	err := v.Write(&out, records, nil)
	if !errors.Is(err, cut) {
		t.Fatal(err)
	}
	if err := v.End(&out, event.Losses{}, err); err != nil || !strings.HasSuffix(out.String(), "send(count = 5)\nthe end\n") || !errors.Is(printer.totals.Failed, cut) || printer.totals.Records != 1 {
		t.Errorf("%v, %q, %+v", err, out.String(), printer.totals)
	}
	v = Calls{Plan: p, Printer: printer}
	err = v.Write(failingWriter{}, records, nil)
	out.Reset()
	if end := v.End(&out, event.Losses{}, err); !errors.Is(err, errFull) || end != nil || out.Len() > 0 {
		t.Errorf("an output that fails: %v, %v, %q", err, end, out.String())
	}
}

// TestCounted: marks of losses are no records.
func TestCounted(t *testing.T) {
	for most, want := range map[uint64]uint64{0: 3, 2: 2, 9: 3} {
		p, records := sent(t, testKernel(t), 4, 1, 2, 3)
		c := Counted{Plan: p, Count: most}
		if err := c.Write(nil, records, nil); c.Tally().Records != want || c.Tally().Calls != want || err != nil {
			t.Errorf("%d: %d records, %d calls, %v", most, c.Tally().Records, c.Tally().Calls, err)
		}
	}
}

// sessionPlan is the plan of sessions that calls of send open.
func sessionPlan(t *testing.T) *plan.Plan {
	t.Helper()
	spec, err := expr.Parse("send")
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := plan.ResolveSession(testKernel(t), plan.SessionRequest{Entry: []*expr.Spec{spec}}, plan.Options{Arch: runtime.GOARCH})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestOrphans: a thread whose next session begins has lost the end of the one
// before, of which a part had come. That is said at the end, and not otherwise.
func TestOrphans(t *testing.T) {
	s := sessionPlan(t)
	part := bpf.SessionHeader{Kind: bpf.SessionChunk, PID: 1, TID: 1, Start: 100}
	end := bpf.SessionHeader{Kind: bpf.SessionDrop, PID: 1, TID: 1, Start: 100}
	next := bpf.SessionHeader{Kind: bpf.SessionDrop, PID: 1, TID: 1, Start: 200}
	for _, c := range []struct {
		headers []bpf.SessionHeader
		want    string
	}{
		{[]bpf.SessionHeader{part, end, next}, ""},
		{[]bpf.SessionHeader{part, next}, "ksnoop: 1 session given up: its end was lost, or its parts took too much memory\n"},
	} {
		v := Sessions{Plan: s, Traced: true, Printer: output.NewSessions(output.SessionOptions{Trace: true})}
		records := func(yield func([]byte, error) bool) {
			for _, h := range c.headers {
				if !yield(bpf.AppendSession(nil, &h), nil) {
					return
				}
			}
		}
		var out, errs strings.Builder
		if err := v.Write(&out, records, nil); err != nil {
			t.Fatal(err)
		}
		if err := v.End(&out, event.Losses{}, nil); err != nil {
			t.Fatal(err)
		}
		if err := v.Tally().Report(&errs, false); err != nil {
			t.Fatal(err)
		}
		if errs.String() != c.want || out.String() != "" {
			t.Errorf("%d records: %q, want %q; printed %q", len(c.headers), errs.String(), c.want, out.String())
		}
	}
}

// TestHungCounts: a session that is reported as hung, perhaps again, and ends later counts once.
func TestHungCounts(t *testing.T) {
	s := sessionPlan(t)
	at := func(kind bpf.SessionRecordKind, tid uint32, start uint64) *bpf.SessionHeader {
		return &bpf.SessionHeader{Kind: kind, PID: tid, TID: tid, Start: start, End: start + 50, Failed: kind == bpf.SessionEnd}
	}
	all := []*bpf.SessionHeader{at(bpf.SessionHung, 1, 100), at(bpf.SessionHung, 1, 100), at(bpf.SessionHung, 2, 100), at(bpf.SessionEnd, 1, 100), at(bpf.SessionEnd, 1, 300), at(bpf.SessionEnd, 3, 300)}
	for most, want := range map[uint64]uint64{0: 4, 2: 2, 3: 3} {
		v := Sessions{Plan: s, Printer: output.NewSessions(output.SessionOptions{}), Count: most}
		err := v.Write(io.Discard, func(yield func([]byte, error) bool) {
			for _, h := range all {
				if !yield(bpf.AppendSession(nil, h), nil) {
					return
				}
			}
		}, nil)
		if err != nil || v.Tally().Calls != want || v.Tally().Records != want {
			t.Errorf("-c %d: %d sessions, %d records, %v; want %d", most, v.Tally().Calls, v.Tally().Records, err, want)
		}
	}
}

// TestUnseen: calls and sessions that were lost may be more than were written. What was left out as the user asked, or is shown
// without something of it, may not.
func TestUnseen(t *testing.T) {
	for _, cause := range []bpf.Counter{bpf.LostRingbuf, bpf.LostReturn, bpf.LostSession, bpf.LostNMI, bpf.LostInner, bpf.Missed, bpf.MissedReturn, bpf.RateLimited} {
		var tally Tally
		if tally.Lost[cause] = 9; tally.Unseen() != 9 {
			t.Errorf("9 %s: %d unseen", output.LossText(cause), tally.Unseen())
		}
	}
	for _, cause := range []bpf.Counter{bpf.LeftFine, bpf.LeftError, bpf.LeftShort, bpf.LeftUnmet, bpf.LostValues, bpf.LostBranches, bpf.Unreadable, bpf.Truncated} {
		var tally Tally
		if tally.Lost[cause] = 9; tally.Unseen() != 0 {
			t.Errorf("9 %s: %d unseen", output.LossText(cause), tally.Unseen())
		}
	}
}

// TestUnseenTime: of a time that was not looked at, nobody knows what was in it.
func TestUnseenTime(t *testing.T) {
	for _, cause := range []bpf.Counter{bpf.PausedTime, bpf.LostFamily, bpf.MissedTask, bpf.SwitchedOff} {
		var tally Tally
		if tally.Lost[cause] = 1; tally.Unseen() != Unknown {
			t.Errorf("1 %s: %d unseen", output.LossText(cause), tally.Unseen())
		}
	}
}

// TestUnseenWraps: numbers that only a damaged recording has do not add up to few.
func TestUnseenWraps(t *testing.T) {
	var tally Tally
	tally.Lost[bpf.LostRingbuf], tally.Lost[bpf.LeftError], tally.Orphans = 3, 100, 2
	if n := tally.Unseen(); n != 5 {
		t.Errorf("%d unseen, want 5", n)
	}
	tally.Lost[bpf.LostRingbuf], tally.Lost[bpf.LostDepth] = 1<<63, 1<<63
	if n := tally.Unseen(); n != Unknown {
		t.Errorf("%d unseen of what wraps", n)
	}
}
