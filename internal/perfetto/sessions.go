// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"cmp"
	"slices"

	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/samples"
	"github.com/ksnoop/ksnoop/internal/session"
)

// AppendSession appends the calls of a session as slices within each other. Of a session
// that is still open it appends an instant: its calls come when it is complete.
func (p *Printer) AppendSession(dst []byte, x *session.Session) (_ []byte, err error) {
	if x.State == session.Missing || x.State == session.Running {
		return dst, nil
	}
	base := len(dst)
	dst = p.bounded(dst)
	on := threadTrack(x.PID, x.TID, x.CPU)
	if x.Interrupt {
		on = track{kind: trackOfInterrupts, cpu: x.CPU}
	}
	dst = p.appendTrack(dst, on, x.Comm, x.Leader)
	nodes := p.sampler.Nodes(x)
	if x.State == session.Hung {
		p.name(x.Func.Name, categoryCall)
		p.frames = samples.AppendStack(p.frames[:0], nodes, samples.Innermost(nodes))
		p.callstack(p.frames)
		p.string("state", "still open")
		return p.appendEvent(dst, x.End, on, typeInstant), nil
	}
	if dst, err = p.appendNodes(dst, x, nodes, on); err != nil {
		return dst[:base], err
	}
	if dst, err = p.appendMarks(dst, x, on); err != nil {
		return dst[:base], err
	}
	return p.appendLosses(dst, x), nil
}

// arrange gives each call its place in time: within its caller, and after what its caller
// called before. Recordings may be damaged, and slices that cross each other would be drawn
// in the wrong places.
func (p *Printer) arrange(nodes []samples.Node) {
	p.slices = p.slices[:0]
	for i := range nodes {
		n := &nodes[i]
		s := slice{node: i, begin: n.Entry, end: n.Entry + min(n.Duration, ^n.Entry)}
		if n.Parent >= 0 {
			outer := &p.slices[n.Parent]
			s.begin = min(max(s.begin, outer.begin), outer.end)
			s.end = min(max(s.end, s.begin), outer.end)
		}
		p.slices = append(p.slices, s)
	}
	// Callers have smaller indexes than what they call, so they stay before it.
	slices.SortStableFunc(p.slices, func(a, b slice) int { return cmp.Compare(a.begin, b.begin) })
}

// appendNodes appends the calls of a session.
func (p *Printer) appendNodes(dst []byte, x *session.Session, nodes []samples.Node, on track) (_ []byte, err error) {
	p.arrange(nodes)
	p.open = p.open[:0] // indexes of slices, outermost first
	for i := range p.slices {
		s := &p.slices[i]
		for len(p.open) > 0 && p.slices[p.open[len(p.open)-1]].node != nodes[s.node].Parent {
			if dst, err = p.leave(dst, nodes, on, s.begin); err != nil {
				return dst, err
			}
		}
		if dst, err = p.enter(dst, x, nodes, s, on); err != nil {
			return dst, err
		}
		p.open = append(p.open, i)
	}
	for len(p.open) > 0 {
		if dst, err = p.leave(dst, nodes, on, ^uint64(0)); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// enter appends the begin of a call.
func (p *Printer) enter(dst []byte, x *session.Session, nodes []samples.Node, s *slice, on track) ([]byte, error) {
	n := &nodes[s.node]
	p.name(n.Func.Name, categoryOf(n))
	p.frames = samples.AppendStack(p.frames[:0], nodes, s.node)
	p.callstack(p.frames)
	if n.Parent < 0 {
		p.uint("cpu", uint64(x.CPU))
		if x.HasOwner {
			p.owner(x.Owner)
		}
		if why := x.State.Unreturned(); why != "" {
			p.string("state", why)
		}
	}
	if err := p.values.Call(p.annotations(), &n.Entered, n.Finished); err != nil {
		return dst, err
	}
	return p.appendEvent(dst, s.begin, on, typeBegin), nil
}

func categoryOf(n *samples.Node) string {
	if n.Failed {
		return categoryFailed
	}
	return categoryCall
}

// leave appends the end of the innermost open call, at a time at the latest.
func (p *Printer) leave(dst []byte, nodes []samples.Node, on track, latest uint64) ([]byte, error) {
	s := &p.slices[p.open[len(p.open)-1]]
	p.open = p.open[:len(p.open)-1]
	n := &nodes[s.node]
	p.body = p.body[:0]
	if n.Finished {
		p.values.Result(p.annotations(), n.Func, n.Result)
		if errno := samples.Errno(n.Func.Class, n.Result); errno != "" && n.Func.Result != nil {
			p.string("errno", errno)
		}
	} else {
		p.string("incomplete", "its return was not seen")
	}
	if err := p.values.Call(p.annotations(), &n.Returned, true); err != nil {
		return dst, err
	}
	return p.appendEvent(dst, min(s.end, latest), on, typeEnd), nil
}

// appendMarks appends the injected probes of a trace, and where calls are missing in it.
func (p *Printer) appendMarks(dst []byte, x *session.Session, on track) ([]byte, error) {
	at := x.Start
	for i := range x.Trace {
		s := &x.Trace[i]
		switch s.Kind {
		case session.StepProbe:
			at = s.Time
			p.name(s.Probe, categoryCall)
			if err := p.values.Call(p.annotations(), &s.Values, true); err != nil {
				return dst, err
			}
			dst = p.appendEvent(dst, at, on, typeInstant)
		case session.StepLost:
			dst = p.appendLost(dst, at, "calls lost", 1)
		case session.StepLeft:
			dst = p.appendLost(dst, at, "calls left out: the session took too much memory", uint64(s.Count))
		case session.StepOpen: // its time is that of the entry
		default:
			at = s.Time
		}
	}
	return dst, nil
}

// appendLosses appends what is missing in a session.
func (p *Printer) appendLosses(dst []byte, x *session.Session) []byte {
	for what, n := range output.LostIn(&x.Lost) {
		dst = p.appendLost(dst, x.End, what, uint64(n))
	}
	return dst
}
