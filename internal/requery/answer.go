// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"encoding/binary"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// An answer is a probe of the new plan, and how its records are made of those of a recorded
// probe.
type answer struct {
	probe *plan.Probe
	id    uint32
	// asIs says that the records are those of the recorded probe.
	asIs bool
	// atEntry are the predicates that are decided at entry, in rewritten form; atReturn are
	// the others.
	atEntry, atReturn []expr.Term
	entry, ret        *half
	// sums are what calls are added to, if late is set when they return. Nothing is sent then.
	sums    []addition
	late    bool
	machine machine
	raw     []byte // of the last record
}

// A half is a record that an answer sends.
type half struct {
	record *layout.Record
	fills  []fill
}

// newAnswer returns how a probe's records are made of recorded ones. The faults name what was
// not recorded.
func (r *recording) newAnswer(p *plan.Probe) (*answer, []*expr.Error) {
	a := &answer{probe: p, machine: machine{arch: r.arch, sources: r.sources}}
	bad := make([]bool, len(p.Items))
	for i, it := range p.Items {
		if g := it.Aggregation; g != nil {
			add, ok := r.newAddition(g, i)
			a.sums, bad[i] = append(a.sums, add), !ok
			a.late = a.late || it.Phase == expr.AtReturn
		}
		if it.Path {
			bad[i] = p.Way == nil
		}
		if it.Predicate == nil {
			continue
		}
		t, ok := r.rewrite(it.Predicate)
		bad[i] = !ok
		if it.Phase == expr.AtReturn {
			a.atReturn = append(a.atReturn, t)
		} else {
			a.atEntry = append(a.atEntry, t)
		}
	}
	wantsReturn := p.Return != nil
	if len(a.sums) > 0 {
		wantsReturn = a.late || len(a.atReturn) > 0
		a.late = wantsReturn || !r.entry
	} else {
		a.entry, a.ret = r.newHalf(p.Entry, bad), r.newHalf(p.Return, bad)
	}
	var faults []*expr.Error
	for i := range bad {
		if bad[i] {
			faults = append(faults, r.blame(p.Spec, i))
		}
	}
	if len(faults) == 0 && !r.ret && wantsReturn {
		faults = append(faults, notRecorded(p.Spec.Selector.Span, "record `return` too", "the returns of %s were not recorded", p.Name))
	}
	return a, faults
}

// newHalf returns how the record of a half is made. It notes the items of which something was
// not recorded.
func (r *recording) newHalf(h *layout.Half, bad []bool) *half {
	if !sends(h) {
		return nil
	}
	out := &half{record: h.Record}
	for _, s := range h.Record.Slots {
		if s.Capture < 0 {
			continue // it only helps to compute others, and those are made in another way
		}
		f, ok := r.newFill(s, unkeep(s.Term, h.Record))
		bad[s.Item] = bad[s.Item] || !ok
		out.fills = append(out.fills, f)
	}
	return out
}

// A verdict says what became of a call's predicates.
type verdict uint8

const (
	holds   verdict = iota
	fails           // or one of them met unreadable memory
	faulted         // this is why
	unknown         // what was recorded of this call does not tell
)

// decide computes predicates over the machine's call.
func (a *answer) decide(predicates []expr.Term) verdict {
	for _, t := range predicates {
		v, err := a.machine.eval(t)
		switch {
		case err != nil && (a.machine.missing || a.machine.unsure):
			return unknown
		case err != nil:
			return faulted
		case v == 0:
			return fails
		}
	}
	return holds
}

// make makes a record. head is the record that gives the header and the tail.
func (a *answer) make(h *half, kind bpf.Kind, head *event.Event) (raw []byte, unsure bool) {
	e := head.Event
	e.Probe, e.Kind, e.Faults = a.id, kind, 0
	a.raw = bpf.AppendEvent(a.raw[:0], &e)
	start := len(a.raw)
	a.raw = append(a.raw, make([]byte, h.record.Size)...)
	if a.probe.Owner != 0 {
		bpf.AppendOwner(a.raw[:start], head.Owner)
	}
	if h.record.Placed {
		binary.LittleEndian.PutUint64(a.raw[start+int(h.record.Place):], head.Place)
	}
	m := &a.machine
	for i := range h.fills {
		f := &h.fills[i]
		m.missing, m.unsure, m.unreadableArg = false, false, false
		if !f.into(a.raw[start:], m) {
			e.Faults |= 1 << f.slot.Index
			unsure = unsure || m.unsure || m.missing
		}
	}
	if e.Faults != 0 { // the header comes first
		bpf.AppendEvent(a.raw[:0], &e)
	}
	return append(a.raw, head.Tail...), unsure
}

// pass returns a recorded record under the answer's number.
func (a *answer) pass(e *event.Event) []byte {
	head := e.Event
	head.Probe = a.id
	a.raw = append(append(bpf.AppendEvent(a.raw[:0], &head), e.Data...), e.Tail...)
	return a.raw
}
