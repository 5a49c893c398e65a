// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"slices"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/protomsg"
	"github.com/ksnoop/ksnoop/internal/samples"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// AppendSession appends the calls of a session as spans. Of a session that is still open it
// appends a log record: its calls come when it is complete.
func (p *Printer) AppendSession(dst []byte, x *session.Session) ([]byte, error) {
	if x.State == session.Missing || x.State == session.Running {
		return dst, nil
	}
	p.saw(x.Start)
	p.saw(x.End)
	dst, resource := p.resource(dst, x.PID, x.Owner)
	nodes := p.sampler.Nodes(x)
	if x.State == session.Hung {
		p.beginLog(eventOpen, x.Func.Name, x.End, "")
		p.sessionTask(x)
		p.attrs.uint("ksnoop.duration_ns", x.End-min(x.Start, x.End))
		p.chain(nodes, samples.Innermost(nodes))
		return p.append(dst, LogRecord, resource, 1), nil
	}
	p.blame(nodes)
	var parent *bpf.Parent
	if x.HasParent {
		parent = &x.Parent
	}
	t := p.traceOf(x.PID, x.TID, x.CPU, x.Start, x.Func.Name, parent, nodes[0].Entered.Event, nodes[0].Returned.Event)
	base := len(dst)
	for i := range nodes {
		if err := p.span(t, x, nodes, i); err != nil {
			return dst[:base], err
		}
		dst = p.append(dst, Span, resource, 1)
	}
	return dst, nil
}

// blame notes in p.failed which calls made one that failed.
func (p *Printer) blame(nodes []samples.Node) {
	p.failed = append(p.failed[:0], make([]bool, len(nodes))...)
	for i := range nodes {
		if n := &nodes[i]; n.Failed && n.Parent >= 0 {
			p.failed[n.Parent] = true
		}
	}
}

// span makes the span of a call. One whose caller is not known is a child of the entry function.
func (p *Printer) span(t trace, x *session.Session, nodes []samples.Node, i int) error {
	n := &nodes[i]
	parent := n.Parent
	if i == 0 {
		parent = -1
	} else if parent < 0 {
		parent = 0
	}
	failure := ""
	if n.Finished {
		failure = samples.Errno(n.Func.Class, n.Result)
	}
	if i == 0 && failure == "" { // the root stands for the session
		failure = samples.SessionErrno(x)
	}
	p.beginSpan(t, i, parent, n.Func.Name, n.Entry, n.Entry+min(n.Duration, ^n.Entry), failure)
	a := &p.attrs
	a.foreign("code.function.name", n.Func.Name)
	if failure != "" {
		a.foreign("error.type", failure)
	}
	if x.HasOffCPU {
		a.uint("ksnoop.off_cpu_ns", n.OffCPU)
	}
	if i == 0 {
		p.sessionTask(x)
	}
	if err := p.values.Call(a, &n.Entered, n.Finished); err != nil {
		return err
	}
	if n.Finished {
		p.values.Result(a, n.Func, n.Result)
	} else {
		a.foreign("ksnoop.missing", "its return was not seen")
	}
	if err := p.values.Call(a, &n.Returned, true); err != nil {
		return err
	}
	if i == 0 || n.Failed && !p.failed[i] {
		p.chain(nodes, i)
	}
	if i == 0 {
		return p.events(x)
	}
	return nil
}

// sessionTask adds in which thread a session was.
func (p *Printer) sessionTask(x *session.Session) {
	p.task(x.TID, x.Comm, x.CPU, x.Owner, x.HasOwner)
	if why := x.State.Unreturned(); why != "" {
		p.attrs.foreign("ksnoop.state", why)
	}
	if x.Interrupt {
		p.attrs.integer("", "ksnoop.interrupt", anyBool, 1)
	}
}

// chain adds the stack of a call.
func (p *Printer) chain(nodes []samples.Node, i int) {
	if len(nodes) == 0 {
		return
	}
	p.frames = samples.AppendStack(p.frames[:0], nodes, i)
	slices.Reverse(p.frames)
	p.stack("code.stacktrace", p.frames)
}

// events adds to the root span the injected probes of a session, and what is missing in it.
func (p *Printer) events(x *session.Session) error {
	at := x.Start
	for i := range x.Trace {
		s := &x.Trace[i]
		switch s.Kind {
		case session.StepProbe:
			at = s.Time
			if err := p.event(s.Probe, at, func(a *attributes) error { return p.values.Call(a, &s.Values, true) }); err != nil {
				return err
			}
		case session.StepLost:
			p.lostEvent("calls lost", at, 1)
		case session.StepLeft:
			p.lostEvent("calls left out: the session took too much memory", at, uint64(s.Count))
		case session.StepOpen: // its time is that of the entry
		default:
			at = s.Time
		}
	}
	for what, n := range output.LostIn(&x.Lost) {
		p.lostEvent(what, x.End, uint64(n))
	}
	return nil
}

func (p *Printer) lostEvent(what string, at, n uint64) {
	_ = p.event(what, at, func(a *attributes) error { // which returns none
		a.uint("ksnoop.count", n)
		return nil
	})
}

// event adds an event to the span that is being made.
func (p *Printer) event(name string, at uint64, add func(*attributes) error) error {
	a := attributes{field: eventAttributes}
	b, start := protomsg.Begin(p.attrs.body, spanEvents)
	b = protomsg.AppendString(protomsg.AppendFixed(b, eventTime, p.at(at)), eventName, terminal.Name(name))
	a.body = b
	err := add(&a)
	p.attrs.body = protomsg.End(a.body, start)
	return err
}
