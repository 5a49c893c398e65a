// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
)

// entryOff and exitOff are entries with off-CPU times: of the session so far and, of a return, of the
// call.
func (b *logBuilder) entryOff(depth int, fn uint32, time, sum uint64) {
	b.add(bpf.LogEntry, depth, fn, 0, words(time, sum)...)
}

func (b *logBuilder) exitOff(depth int, fn uint32, time, duration, sum, off uint64) {
	b.add(bpf.LogExit, depth, fn, bpf.CallFinished, words(time, duration, 0, sum, off)...)
}

// recordOff is a record with off-CPU times: of the session, and of each call.
func recordOff(h bpf.SessionHeader, log []byte, calls []bpf.SessionCall, off ...uint64) []byte {
	h.HasOffCPU = true
	return append(record(h, log, calls, 0xa), words(off...)...)
}

// describeOff writes the off-CPU times of a session, its frames and its calls.
func describeOff(s *Session) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%t %d |", s.HasOffCPU, s.OffCPU)
	for _, c := range append(s.Interim, s.Chain) {
		for _, f := range c.Frames {
			fmt.Fprintf(&b, " %s %d of %d", f.Func.Func.Name, f.OffCPU, f.Duration)
		}
		b.WriteString(" |")
	}
	for _, c := range s.Calls() {
		fmt.Fprintf(&b, " %s %d of %d in %d", c.Func.Func.Name, c.OffCPU, c.Duration, c.Parent)
	}
	return b.String()
}

// TestOffCPU: whose off-CPU time is whose, by hand-made records.
func TestOffCPU(t *testing.T) {
	const fin = bpf.CallFinished
	head := bpf.SessionHeader{Start: 100, End: 200, PID: 7, TID: 8, Kind: bpf.SessionEnd}
	of := func(kind bpf.SessionRecordKind) bpf.SessionHeader {
		h := head
		h.Kind = kind
		return h
	}
	returned := func(fn uint32, duration uint64) bpf.SessionCall {
		return bpf.SessionCall{Func: fn, Entry: 100, Duration: duration, Flags: fin}
	}
	var whole, noExit, noEntry logBuilder
	whole.entryOff(0, 0, 100, 0)
	whole.entryOff(1, 1, 110, 5)
	whole.entryOff(2, 2, 120, 5)
	whole.exitOff(2, 2, 150, 30, 25, 20)
	whole.exitOff(1, 1, 160, 50, 27, 22)
	whole.exitOff(0, 0, 200, 100, 40, 40)
	noExit.entryOff(0, 0, 100, 0)
	noExit.entryOff(1, 1, 110, 5)
	noExit.entryOff(2, 2, 120, 6)
	noExit.exitOff(0, 0, 200, 100, 40, 40)
	noEntry.exitOff(1, 1, 160, 50, 27, 22)
	noEntry.entryOff(1, 2, 170, 30)
	outer := []bpf.SessionCall{returned(0, 100)}
	for _, c := range []struct {
		name    string
		traced  bool
		records [][]byte
		want    string
	}{
		{"calls of a trace", true, [][]byte{recordOff(head, whole, outer, 40, 40)},
			"true 40 | outer 40 of 100 | outer 40 of 100 in -1 inner 22 of 50 in 0 leaf 20 of 30 in 1"},
		{"in parts", true, [][]byte{recordOff(of(bpf.SessionChunk), whole[:48], nil, 5), func() []byte {
			h := head
			h.LogBase = 48
			return recordOff(h, whole[48:], outer, 40, 40)
		}()}, "true 40 | outer 40 of 100 | outer 40 of 100 in -1 inner 22 of 50 in 0 leaf 20 of 30 in 1"},
		// Until outer returns, after 40 ns off the CPU.
		{"returns not seen", true, [][]byte{recordOff(head, noExit, outer, 40, 40)},
			"true 40 | outer 40 of 100 | outer 40 of 100 in -1 inner 35 of 90 in 0 leaf 34 of 80 in 1"},
		// leaf is in flight until the session's end.
		{"a call not seen", true, [][]byte{recordOff(head, noEntry, outer, 40, 40)},
			"true 40 | outer 40 of 100 | inner 22 of 50 in -1 leaf 10 of 30 in -1"},
		{"chain", false, [][]byte{recordOff(head, nil, []bpf.SessionCall{returned(0, 100), returned(1, 50), returned(2, 30)}, 40, 40, 22, 20)},
			"true 40 | outer 40 of 100 inner 22 of 50 leaf 20 of 30 |"},
		{"calls in flight", false, [][]byte{recordOff(of(bpf.SessionExit), nil, []bpf.SessionCall{{Func: 0, Entry: 100}, {Func: 1, Entry: 150}}, 40, 0, 15)},
			"true 40 | outer 40 of 100 inner 25 of 50 |"},
		{"interim", false, [][]byte{recordOff(of(bpf.SessionChain), nil, []bpf.SessionCall{{Func: 0, Entry: 100}, returned(2, 30)}, 25, 0, 20), recordOff(head, nil, outer, 40, 40)},
			"true 40 | outer 25 of 100 leaf 20 of 30 | outer 40 of 100 |"},
		{"not recorded", true, [][]byte{record(head, func() (b logBuilder) {
			b.entry(0, 0, 100)
			b.exit(0, 0, 200, 100, 0, fin)
			return b
		}(), outer, 0xa)}, "false 0 | outer 0 of 100 | outer 0 of 100 in -1"},
		{"longer than the calls", true, [][]byte{recordOff(head, func() (b logBuilder) {
			b.entryOff(0, 0, 100, 1<<63)
			b.exitOff(0, 0, 200, 100, 5, 1<<62)
			return b
		}(), outer, 40, 1<<63)}, "true 40 | outer 100 of 100 | outer 100 of 100 in -1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Decoder{Plan: decoderPlan(), Traced: c.traced}
			var got string
			for _, raw := range c.records {
				s, err := d.Decode(raw)
				if err != nil {
					t.Fatal(err)
				}
				if s != nil {
					got = strings.TrimSpace(describeOff(s))
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	raw := recordOff(head, nil, outer, 40, 40)
	d := Decoder{Plan: decoderPlan()}
	if _, err := d.Decode(raw[:len(raw)-8]); err == nil {
		t.Error("a record without the off-CPU time of its call is one")
	}
}
