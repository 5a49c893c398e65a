// SPDX-License-Identifier: Apache-2.0

package jsonlines

import (
	"encoding/binary"
	"slices"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
)

// stepKinds are the names of what the rows of a call trace are.
var stepKinds = [...]string{session.StepEntry: "entry", session.StepExit: "exit", session.StepLeaf: "leaf", session.StepProbe: "probe",
	session.StepLost: "lost", session.StepLeft: "left", session.StepOpen: "open"}

// AppendSession appends a session, or the next calls of one that is traced live, and before it
// its stacks and its cgroup if they are new.
func (p *Printer) AppendSession(dst []byte, s *session.Session) ([]byte, error) {
	start := len(dst)
	kind := "session"
	if s.State == session.Running {
		kind = "trace"
	}
	var ids []uint64
	if s.State != session.Running {
		ids = make([]uint64, 0, len(s.Interim)+1)
		for i := range s.Interim {
			dst, ids = p.newChainStack(dst, &s.Interim[i], ids)
		}
		dst, ids = p.newChainStack(dst, &s.Chain, ids)
	}
	if s.HasOwner {
		dst = p.newCgroup(dst, s.Owner)
	}
	dst = p.appendSessionHead(p.open(dst, kind), s)
	var err error
	if len(s.Trace) > 0 {
		if dst, err = p.appendTrace(dst, s.Trace); err != nil {
			return dst[:start], err
		}
	}
	if s.State == session.Running {
		return append(dst, "}\n"...), nil
	}
	if dst, err = p.appendChain(dst, &s.Chain, ids[len(s.Interim)]); err != nil {
		return dst[:start], err
	}
	if s.User != nil {
		if of, ok := s.User.Tail.Section(bpf.SectionUserStack); ok {
			dst = p.appendUserStack(dst, s.User, of)
		}
	}
	if len(s.Interim) > 0 {
		dst = append(appendKey(dst, "interim"), '[')
		for i := range s.Interim {
			if dst, err = p.appendChain(append(appendComma(dst), '{'), &s.Interim[i], ids[i]); err != nil {
				return dst[:start], err
			}
			dst = append(dst, '}')
		}
		dst = append(dst, ']')
	}
	return append(dst, "}\n"...), nil
}

// appendSessionHead appends what is known of a session as a whole.
func (p *Printer) appendSessionHead(dst []byte, s *session.Session) []byte {
	dst = p.clock.appendTime(dst, s.Start)
	if s.State != session.Running {
		dst = appendUint(dst, "duration", s.End-s.Start)
	}
	if s.Interrupt { // else it may have been on several
		dst = appendTrue(appendUint(dst, "cpu", uint64(s.CPU)), "interrupt", true)
	}
	dst = appendText(appendTask(dst, s.PID, s.TID, s.Inner), "comm", s.Comm)
	if s.HasOwner {
		dst = p.appendOwner(dst, s.Owner)
	}
	if s.Leader != "" {
		dst = appendText(dst, "leader", s.Leader)
	}
	if s.Func != nil {
		dst = p.appendFunction(dst, s.Func)
	}
	dst = appendText(dst, "state", s.State.String())
	if s.State == session.Running {
		return dst
	}
	dst = appendBool(dst, "failed", s.Failed)
	if !s.Lost.Any() {
		return dst
	}
	l := &s.Lost
	dst = append(appendKey(dst, "lost"), '{')
	for _, of := range [...]struct {
		key string
		n   uint32
	}{{"deep", l.Deep}, {"parts", l.Chunk}, {"values", l.Args}, {"returns", l.Returns}, {"room", l.Room}, {"reasons", l.Reasons}, {"interim", l.Chains}} {
		dst = appendCount(dst, of.key, uint64(of.n))
	}
	return append(appendTrue(dst, "stack", l.Stack), '}')
}

// newChainStack appends the line of a chain's stack, if it has one that is not written yet, and
// appends its ID to ids; 0: it has none.
func (p *Printer) newChainStack(dst []byte, c *session.Chain, ids []uint64) ([]byte, []uint64) {
	if len(c.Stack) == 0 || p.merger == nil {
		return dst, append(ids, 0)
	}
	id, isNew := p.stacks.ofAddresses(c.Stack)
	if !isNew {
		return dst, append(ids, id)
	}
	dst = p.openStack(dst, id)
	for _, row := range slices.Backward(p.merger.Merge(c)) {
		if row.Symbol != nil {
			dst = appendFrame(appendComma(dst), row.Symbol)
		}
	}
	return append(dst, "]}\n"...), append(ids, id)
}

// appendChain appends the calls of a chain, outermost first, and the ID of its stack.
func (p *Printer) appendChain(dst []byte, c *session.Chain, stack uint64) (_ []byte, err error) {
	p.findPlaces(c)
	dst = append(appendKey(dst, "calls"), '[')
	for i := range c.Frames {
		if dst, err = p.appendChainCall(appendComma(dst), &c.Frames[i], i); err != nil {
			return dst, err
		}
	}
	dst = append(dst, ']')
	if stack != 0 {
		dst = appendUint(dst, "stack", stack)
	}
	dst = p.appendBranches(dst, c.Branches, c.AllBranches)
	return appendErrno(dst, "no_branches", uint64(c.NoBranches)), nil
}

// findPlaces notes which frame of its stack each call of a chain has; -1: none.
func (p *Printer) findPlaces(c *session.Chain) {
	p.places = p.places[:0]
	for range c.Frames {
		p.places = append(p.places, -1)
	}
	if len(c.Stack) == 0 || p.merger == nil {
		return
	}
	place, next := 0, len(c.Frames)-1
	for _, row := range slices.Backward(p.merger.Merge(c)) {
		if row.Call != nil { // all calls are there, in their order
			if row.Symbol != nil {
				p.places[next] = place
			}
			next--
		}
		if row.Symbol != nil {
			place++
		}
	}
}

// appendChainCall appends call i of a chain.
func (p *Printer) appendChainCall(dst []byte, f *session.Frame, i int) ([]byte, error) {
	dst = appendUint(p.appendFunction(appendUint(append(dst, '{'), "depth", uint64(i)), f.Func), "time", f.Entry)
	dst = appendUint(dst, "duration", f.Duration)
	when := atEntry
	if f.Finished {
		when = inChain
		var err error
		if dst, err = p.appendReturned(dst, f.Func, f.Result); err != nil {
			return dst, err
		}
	}
	dst = appendTrue(appendTrue(appendTrue(dst, "open", !f.Finished), "failed", f.Failed), "stitched", f.Stitched)
	if at := p.places[i]; at >= 0 {
		dst = appendUint(dst, "frame", uint64(at))
	}
	dst, err := p.appendCaptured(dst, &f.Values, when)
	return append(dst, '}'), err
}

// appendReturned appends the result of a call, of which v is the whole register.
func (p *Printer) appendReturned(dst []byte, f *plan.Probe, v uint64) ([]byte, error) {
	if f.Result == nil {
		return dst, nil
	}
	return p.AppendResult(appendKey(dst, "result"), f, v)
}

// AppendResult appends the object of what a function of a session has returned, of which v is the whole register. Of one
// that returns nothing, there is none.
func (p *Printer) AppendResult(dst []byte, f *plan.Probe, v uint64) ([]byte, error) {
	if f.Result == nil {
		return dst, nil
	}
	s := p.results[f]
	if s == nil {
		made, err := p.records.scalar(f.Result, 0)
		if err != nil {
			return dst, err
		}
		s = &made
		p.results[f] = s
	}
	if s.form == formPrinted { // a register does not hold all of it
		return append(dst, `{"value":null}`...), nil
	}
	var raw [8]byte
	binary.LittleEndian.PutUint64(raw[:], v)
	return p.records.appendResult(dst, s, raw[:]), nil
}

// appendCaptured appends the values of a call.
func (p *Printer) appendCaptured(dst []byte, v *session.Values, when moment) (_ []byte, err error) {
	if len(v.Args) > 0 {
		dst = append(appendKey(dst, "args"), '{')
		if dst, err = p.records.appendArgs(dst, v.Args); err != nil {
			return dst, err
		}
		dst = append(dst, '}')
	}
	if v.Event != nil && v.Event.Record != nil {
		dst = append(appendKey(dst, "values"), '{')
		if dst, err = p.records.appendValues(dst, v.Event, when, false); err != nil {
			return dst, err
		}
		dst = append(dst, '}')
	}
	return p.records.appendGaps(dst), nil
}

// appendTrace appends the rows of a call trace.
func (p *Printer) appendTrace(dst []byte, steps []session.Step) (_ []byte, err error) {
	dst = append(appendKey(dst, "trace"), '[')
	for i := range steps {
		if dst, err = p.appendStep(append(appendComma(dst), '{'), &steps[i]); err != nil {
			return dst, err
		}
		dst = append(dst, '}')
	}
	return append(dst, ']'), nil
}

func (p *Printer) appendStep(dst []byte, s *session.Step) (_ []byte, err error) {
	dst = appendUint(appendText(dst, "step", stepKinds[s.Kind]), "depth", uint64(s.Depth))
	when := inChain
	switch s.Kind {
	case session.StepLost:
		return dst, nil
	case session.StepLeft:
		return appendUint(dst, "count", uint64(s.Count)), nil
	case session.StepProbe:
		dst = appendUint(appendText(dst, "name", s.Probe), "time", s.Time)
		when = always
	default:
		dst = appendUint(p.appendFunction(dst, s.Func), "time", s.Time)
	}
	switch s.Kind {
	case session.StepEntry, session.StepOpen:
		when = atEntry
	case session.StepExit, session.StepLeaf:
		dst = appendUint(dst, "duration", s.Duration)
		if dst, err = p.appendReturned(dst, s.Func, s.Result); err != nil {
			return dst, err
		}
		dst = appendTrue(dst, "failed", s.Failed)
		if s.Kind == session.StepExit && !s.Alone {
			when = atReturn
		}
	}
	return p.appendCaptured(dst, &s.Values, when)
}
