// SPDX-License-Identifier: Apache-2.0

package session

import (
	"strings"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/livetest"
)

// A longSession sends parts of a log that has calls of leaf with values in it.
type longSession struct {
	d     Decoder
	base  uint32
	calls int
}

// header is the header of its records.
func (l *longSession) header(kind bpf.SessionRecordKind) bpf.SessionHeader {
	return bpf.SessionHeader{Start: 1, TID: 7, PID: 7, Kind: kind, LogBase: l.base, Failed: true}
}

// part has n calls of inner with arguments and values, at depth 1.
func (l *longSession) part(n int) []byte {
	var log logBuilder
	if l.calls == 0 {
		log.entry(0, 0, 1)
		l.calls++
	}
	for range n {
		log.entry(1, 1, 2)
		log.args(1, "eth0", 3)
		log.item(1, 1, 0, 5)
		log.exit(1, 1, 3, 1, 0, bpf.CallFinished)
	}
	l.calls += n
	return log
}

// send decodes a record with n calls. It checks that all that is kept has a bound.
func (l *longSession) send(t *testing.T, kind bpf.SessionRecordKind, n int, calls ...bpf.SessionCall) *Session {
	t.Helper()
	log := l.part(n)
	s, err := l.d.Decode(record(l.header(kind), log, calls))
	if err != nil {
		t.Fatal(err)
	}
	if kind != bpf.SessionHung {
		l.base += uint32(len(log))
	}
	held := 0
	for o := l.d.oldest; o != nil; o = o.younger {
		for i := range o.log.parts {
			held += len(o.log.parts[i].data)
		}
		for i := range o.chains {
			held += len(o.chains[i].Frames) * 100 // at least
		}
	}
	if held > l.d.Limit/shareOfOne || l.d.size > l.d.Limit {
		t.Fatalf("%d bytes are held of one session, %d are counted; the limit is %d", held, l.d.size, l.d.Limit)
	}
	return s
}

// TestDecodeLongSession: a session that goes on and on is cut at its beginning, and says
// how many of its calls that are.
func TestDecodeLongSession(t *testing.T) {
	l := longSession{d: Decoder{Plan: decoderPlan(), Traced: true, Limit: 1 << 20}}
	for range 500 {
		l.send(t, bpf.SessionChunk, 20)
	}
	// The first call's arguments are gone; those of the last are there.
	last := bpf.SessionCall{Func: 1, Flags: bpf.CallFinished, Values: l.base + 1}
	s := l.send(t, bpf.SessionEnd, 0, bpf.SessionCall{Func: 1, Flags: bpf.CallFinished, Values: 100}, last)
	first, shown := s.Trace[0], 0
	for _, st := range s.Trace[1:] {
		if st.Kind != StepLeaf || len(st.Values.Args) != 2 {
			t.Fatalf("a step of kind %d with %d arguments", st.Kind, len(st.Values.Args))
		}
		shown++
	}
	if first.Kind != StepLeft || int(first.Count)+shown != l.calls || shown < 100 || l.d.LeftOut() != uint64(first.Count) {
		t.Errorf("%d calls left out, %d shown of %d, %d counted", first.Count, shown, l.calls, l.d.LeftOut())
	}
	if s.Lost.Args != 1 {
		t.Errorf("values of %d calls were missed", s.Lost.Args)
	}
	if l.d.size != 0 {
		t.Errorf("%d bytes are held of what has ended", l.d.size)
	}
}

// TestDecodeLongLive: what was shown already is not left out, but it is not kept either.
func TestDecodeLongLive(t *testing.T) {
	l := longSession{d: Decoder{Plan: decoderPlan(), Traced: true, Live: true, Limit: 1 << 20}}
	shown := 1 // the outermost call
	for range 500 {
		for _, st := range l.send(t, bpf.SessionChunk, 20).Trace {
			if st.Kind == StepLeaf {
				shown++
			}
		}
	}
	s := l.send(t, bpf.SessionEnd, 0)
	if shown != l.calls || len(s.Trace) != 0 || l.d.LeftOut() != 0 {
		t.Errorf("%d calls shown of %d, %d steps at the end, %d left out", shown, l.calls, len(s.Trace), l.d.LeftOut())
	}
}

// TestDecodeManyChains: chains that wait for the end of their session count.
func TestDecodeManyChains(t *testing.T) {
	l := longSession{d: Decoder{Plan: decoderPlan(), Limit: 1 << 20}}
	l.calls = 1
	const chains = 5000
	for range chains {
		l.send(t, bpf.SessionChain, 0, bpf.SessionCall{Func: 0}, bpf.SessionCall{Func: 2, Flags: bpf.CallFinished | bpf.CallFailed})
	}
	s := l.send(t, bpf.SessionEnd, 0, bpf.SessionCall{Func: 0, Flags: bpf.CallFinished})
	if len(s.Interim) < 100 || len(s.Interim)+int(s.Lost.Chains) != chains || l.d.LeftOut() != uint64(s.Lost.Chains) {
		t.Errorf("%d chains, %d left out, %d counted", len(s.Interim), s.Lost.Chains, l.d.LeftOut())
	}
}

// TestDecodeHungAgain: who is told again that a session hangs is told what is new.
func TestDecodeHungAgain(t *testing.T) {
	l := longSession{d: Decoder{Plan: decoderPlan(), Traced: true, Limit: 1 << 20}}
	leaves := func(s *Session) (n int) {
		for _, st := range s.Trace {
			if st.Kind == StepLeaf {
				n++
			}
		}
		return n
	}
	l.send(t, bpf.SessionChunk, 20)
	l.send(t, bpf.SessionChain, 0, bpf.SessionCall{Func: 2})
	s := l.send(t, bpf.SessionHung, 0)
	if leaves(s) != 20 || len(s.Interim) != 1 {
		t.Errorf("first: %d calls, %d chains", leaves(s), len(s.Interim))
	}
	s.Interim[0].Frames[0].Func = nil // as somebody does who gives it other values
	l.send(t, bpf.SessionChunk, 3)
	if s := l.send(t, bpf.SessionHung, 0); leaves(s) != 3 || len(s.Interim) != 0 {
		t.Errorf("then: %d calls, %d chains", leaves(s), len(s.Interim))
	}
	if s := l.send(t, bpf.SessionEnd, 0); leaves(s) != 23 || len(s.Interim) != 1 || s.Interim[0].Frames[0].Func == nil {
		t.Errorf("at the end: %d calls, %d chains", leaves(s), len(s.Interim))
	}
}

// TestDecodeHungLate: a thread may go on, and send a part of its log, before the record is written that says that it hangs.
// That tells what was known then, and the next one what is new. None tells again what was told, whatever it claims.
func TestDecodeHungLate(t *testing.T) {
	l := longSession{d: Decoder{Plan: decoderPlan(), Traced: true, Limit: 1 << 20}}
	hung := func(base uint32, log []byte) (leaves int) {
		t.Helper()
		h := l.header(bpf.SessionHung)
		h.LogBase = base
		s, err := l.d.Decode(record(h, log, nil))
		if err != nil {
			t.Fatal(err)
		}
		for _, st := range s.Trace {
			if st.Kind == StepLeaf {
				leaves++
			}
		}
		return leaves
	}
	l.send(t, bpf.SessionChunk, 20)
	base, begun := l.base, l.part(1)
	l.calls--
	l.send(t, bpf.SessionChunk, 5) // begins with what the record has
	for i, c := range []struct {
		base uint32
		log  []byte
		want int
	}{
		{base, begun, 21}, {l.base, nil, 4}, {l.base, nil, 0},
		{base, nil, 0}, {l.base, nil, 0}, {0, nil, 0}, {l.base, nil, 0},
		{l.base + 1<<31 - 1, nil, 0}, {l.base, nil, 0}, {l.base + 1<<31 + 1, nil, 0}, {l.base, nil, 0},
	} {
		if got := hung(c.base, c.log); got != c.want {
			t.Errorf("record %d tells %d calls, want %d", i, got, c.want)
		}
	}
	if s := l.send(t, bpf.SessionEnd, 0); len(s.Trace) != 26 {
		t.Errorf("%d steps at the end", len(s.Trace))
	}
}

// TestDecodeHungArgs: a late record finds the arguments of the calls that were in flight then, whatever the thread has done since. If
// it is so late that they are not known any more, they are counted.
func TestDecodeHungArgs(t *testing.T) {
	var begun, ended, values logBuilder
	begun.entry(0, 0, 100)
	begun.entry(1, 1, 110)
	begun.args(1, "eth0", 3)
	ended.exit(1, 1, 120, 10, 0, bpf.CallFinished)
	ended.entry(1, 1, 130)
	ended.args(1, "eth1", 4)
	values.open(1, 1, 110, 5)
	const found = ` name:000000008088ffff "eth0" count:0300000000000000 ""`
	for late, want := range []string{found, found, "", ""} {
		d := Decoder{Plan: decoderPlan(), Traced: true}
		h := bpf.SessionHeader{Start: 100, End: 200, PID: 7, TID: 8, Kind: bpf.SessionChunk}
		log := begun
		for range 1 + late {
			if _, err := d.Decode(record(h, log, nil)); err != nil {
				t.Fatal(err)
			}
			h.LogBase += uint32(len(log))
			log = ended
		}
		h.Kind, h.LogBase = bpf.SessionHung, uint32(len(begun))
		s, err := d.Decode(record(h, values, []bpf.SessionCall{{Func: 1, Entry: 110, Values: h.LogBase + 1}}))
		if err != nil {
			t.Fatal(err)
		}
		lost := ""
		if want == "" {
			lost = " {Deep:0 Chunk:0 Args:1 Returns:0 Room:0 Reasons:0 Chains:0 Stack:false}"
		}
		got, _, _ := strings.Cut(describeSession(s), "\n 0>")
		if want := "outer 7/8 comm state=2 failed=false" + lost + "\n chain inner=0 for 90" + want + " {0500000000000000} []"; got != want {
			t.Errorf("%d parts late: %q\nwant %q", late, got, want)
		}
	}
}

// TestDecodeHungInTime: records of sessions that hang take no time that grows with all that has come before, whatever part of it
// they claim to go on from.
func TestDecodeHungInTime(t *testing.T) {
	var log logBuilder
	log.entry(1, 1, 1)
	d := Decoder{Plan: decoderPlan(), Traced: true}
	h := bpf.SessionHeader{Start: 1, TID: 1, Kind: bpf.SessionChunk}
	for range 90_000 {
		if _, err := d.Decode(record(h, log, nil)); err != nil {
			t.Fatal(err)
		}
		h.LogBase += uint32(len(log))
	}
	if n := len(d.oldest.log.parts); n != 90_000 {
		t.Fatalf("%d parts", n)
	}
	end := h.LogBase
	h.Kind = bpf.SessionHung
	begun := livetest.CPUTime(t)
	for i := range uint32(5000) {
		h.LogBase = [...]uint32{end, end / 2, 0, end - 100*uint32(len(log))}[i%4]
		s, err := d.Decode(record(h, log[:16*(i%2)], nil))
		if want := 90_000 * int(1-min(i, 1)); err != nil || len(s.Trace) < want || len(s.Trace) > want+1 {
			t.Fatalf("record %d: %d steps, %v", i, len(s.Trace), err)
		}
	}
	if took := livetest.CPUTime(t) - begun; took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestDecodeOthersGiveWay: it is the other sessions that are given up if the oldest grows.
func TestDecodeOthersGiveWay(t *testing.T) {
	var log logBuilder
	for range 100 {
		log.entry(0, 0, 1)
	}
	d := Decoder{Plan: decoderPlan(), Traced: true, Limit: 64 << 10}
	send := func(tid uint32, base int) {
		h := bpf.SessionHeader{Start: 1, TID: tid, PID: 1, Kind: bpf.SessionChunk, LogBase: uint32(base)}
		if _, err := d.Decode(record(h, log, nil)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint32(10) {
		send(i, 0)
	}
	for i := range 20 {
		send(0, (i+1)*len(log))
		if d.size > d.Limit {
			t.Fatalf("%d bytes of %d", d.size, d.Limit)
		}
	}
}

// TestDecodeHiddenInTime: what a session hides takes no time that grows with its square.
func TestDecodeHiddenInTime(t *testing.T) {
	var log logBuilder
	for range 200 {
		log.entry(1, 1, 1)
		log.entry(2, 1, 1)
		log.exit(3, 1, 2, 1, 0, bpf.CallHidden)
		log.exit(1, 1, 2, 1, 0, bpf.CallHidden)
	}
	d := Decoder{Plan: decoderPlan(), Traced: true}
	begun := livetest.CPUTime(t)
	var s *Session
	for i := range 300 {
		h := bpf.SessionHeader{Start: 1, TID: 1, Kind: bpf.SessionChunk, LogBase: uint32(i * len(log))}
		if i == 299 {
			h.Kind = bpf.SessionEnd
		}
		var err error
		if s, err = d.Decode(record(h, log, nil)); err != nil {
			t.Fatal(err)
		}
	}
	if took := livetest.CPUTime(t) - begun; took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	if len(s.Trace) != 300*200 {
		t.Errorf("%d steps, want one for each call that is not hidden", len(s.Trace))
	}
}

// TestDecodeInterrupts: a hard interrupt may have a session while a soft one has, which it has interrupted.
func TestDecodeInterrupts(t *testing.T) {
	d := Decoder{Plan: decoderPlan(), Traced: true}
	var soft, hard logBuilder
	soft.entry(0, 0, 1)
	header := func(kind bpf.SessionRecordKind, start uint64, isHard bool) bpf.SessionHeader {
		return bpf.SessionHeader{Start: start, TID: 7, PID: 7, CPU: 3, Kind: kind, Failed: true, Interrupt: true, Hard: isHard}
	}
	if s, err := d.Decode(record(header(bpf.SessionChunk, 1, false), soft, nil)); err != nil || s != nil {
		t.Fatalf("%v, %v", s, err)
	}
	hard.entry(0, 0, 5)
	ended := []bpf.SessionCall{{Func: 0, Flags: bpf.CallFinished}}
	if s, err := d.Decode(record(header(bpf.SessionEnd, 5, true), hard, ended)); err != nil || s == nil || len(s.Trace) != 1 || !s.Interrupt {
		t.Errorf("the hard one: %+v, %v", s, err)
	}
	last := header(bpf.SessionEnd, 1, false)
	last.LogBase = uint32(len(soft))
	if s, err := d.Decode(record(last, nil, ended)); err != nil || s == nil || len(s.Trace) != 1 || d.Orphans() != 0 {
		t.Errorf("the soft one: %+v, %v; %d were given up", s, err, d.Orphans())
	}
}
