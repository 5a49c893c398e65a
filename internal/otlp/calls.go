// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"slices"
	"strconv"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/protomsg"
	"github.com/ksnoop/ksnoop/internal/samples"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/symname"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/layout"
)

// Names of events.
const (
	eventCall = "ksnoop.call"
	eventOpen = "ksnoop.session.open"
)

// missing says why half of a call is not known.
var missing = [...]string{
	calls.NoEntry: "its entry was not recorded",
	calls.Open:    "it had not returned by the end",
	calls.Evicted: "its return was no longer waited for: too many calls were open, or records were lost",
	calls.Gap:     "",
}

// AppendCall appends a call, as a log record or a span.
func (p *Printer) AppendCall(dst []byte, c *calls.Call) ([]byte, error) {
	s, err := p.sampler.Call(c)
	if err != nil || s == nil {
		return dst, err
	}
	last := c.Last()
	p.saw(last.Time)
	dst, resource := p.resource(dst, last.PID, last.Owner)
	entered, timed := samples.Entered(c)
	kind := LogRecord
	if p.options.Spans {
		kind = Span
		if !timed {
			entered = last.Time
		}
		p.beginSpan(p.traceOf(last.PID, last.TID, last.CPU, entered, last.Probe.Name, nil, c.Entry, c.Return), 0, -1, last.Probe.Name, entered, last.Time, s.Errno)
	} else {
		r, ok := p.parent(nil, c.Entry, c.Return)
		p.beginLog(eventCall, last.Probe.Name, last.Time, s.Errno)
		if ok {
			b := protomsg.AppendString(p.attrs.body, logTraceID, r.trace[:])
			p.attrs.body = protomsg.AppendString(b, logSpanID, r.span[:])
		}
	}
	a := &p.attrs
	p.task(last.TID, s.Comm, last.CPU, last.Owner, p.run.Plan.Owner&layout.OwnerUID != 0)
	a.foreign("code.function.name", last.Probe.Name)
	if s.Errno != "" {
		a.foreign("error.type", s.Errno)
	}
	if timed {
		a.uint("ksnoop.duration_ns", s.Time)
	}
	if why := missing[c.End]; why != "" {
		a.foreign("ksnoop.missing", why)
	}
	for _, e := range [...]*event.Event{c.Entry, c.Return} {
		if e == nil {
			continue
		}
		if err := p.values.Record(a, e); err != nil {
			return dst, err
		}
		p.tail(e)
	}
	return p.append(dst, kind, resource, 1), nil
}

// beginLog begins a log record.
func (p *Printer) beginLog(event, name string, at uint64, errno string) {
	a := p.begin(logAttributes)
	b := protomsg.AppendFixed(a.body, logTime, p.at(at))
	b = protomsg.AppendFixed(b, logObserved, p.at(at))
	severity, text := uint64(severityInfo), "INFO"
	p.text = terminal.AppendName(p.text[:0], name)
	if errno != "" {
		severity, text = severityWarn, "WARN"
		p.text = append(append(p.text, ": "...), errno...)
	}
	b = protomsg.AppendString(protomsg.AppendUint(b, logSeverity, severity), logSeverityText, text)
	b, body := protomsg.Begin(b, logBody)
	b = protomsg.End(protomsg.AppendString(b, anyString, p.text), body)
	a.body = protomsg.AppendString(b, logEventName, event)
}

// beginSpan begins span n of a trace, which is a child of another; -1: it is the root.
func (p *Printer) beginSpan(t trace, n, parent int, name string, start, end uint64, errno string) {
	a := p.begin(spanAttributes)
	id := t.span(n)
	b := protomsg.AppendString(protomsg.AppendString(a.body, spanTraceID, t.id[:]), spanID, id[:])
	above := t.parent
	if parent >= 0 {
		above = t.span(parent)
	}
	if above != [8]byte{} {
		b = protomsg.AppendString(b, spanParentID, above[:])
	}
	p.text = terminal.AppendName(p.text[:0], name)
	b = protomsg.AppendUint(protomsg.AppendString(b, spanName, p.text), spanKind, kindInternal)
	b = protomsg.AppendFixed(protomsg.AppendFixed(b, spanStart, p.at(start)), spanEnd, p.at(end))
	if errno != "" {
		var status int
		b, status = protomsg.Begin(b, spanStatus)
		b = protomsg.End(protomsg.AppendUint(protomsg.AppendString(b, statusMessage, errno), statusCode, statusError), status)
	}
	a.body = b
}

// task adds in which thread something happened.
func (p *Printer) task(tid uint32, comm string, cpu uint16, o bpf.Owner, owned bool) {
	a := &p.attrs
	a.uint("thread.id", uint64(tid))
	if comm != "" {
		a.foreign("thread.name", comm)
	}
	a.uint("cpu.logical_number", uint64(cpu))
	if owned {
		p.text = strconv.AppendUint(p.text[:0], uint64(o.UID), 10) // a text by the conventions
		a.text("user.id", p.text)
	}
}

// tail adds what is behind the values of a record: stacks, and the way that a call took.
func (p *Printer) tail(e *event.Event) {
	a := &p.attrs
	if s, ok := e.Tail.Section(bpf.SectionStack); ok {
		p.frames = p.tails.AppendStack(p.frames[:0], e, s)
		p.stack("code.stacktrace", p.frames)
	}
	if s, ok := e.Tail.Section(bpf.SectionUserStack); ok && p.run.User != nil {
		process := p.run.User(&e.Event, terminal.Name(commOf(e)))
		p.text = p.text[:0]
		frames, _ := p.tails.UserFrames(s)
		for _, f := range frames {
			p.text = append(process.AppendFrame(p.text, f.Addr(), !f.Exact()), '\n')
		}
		if len(p.text) > 0 {
			a.text("ksnoop.user_stacktrace", p.text)
		}
	}
	if path, ok := e.Path(); ok && path.Way != nil {
		p.text = p.tails.AppendPassed(p.text[:0], e, &path)
		a.text("ksnoop.path", p.text)
	}
}

// commOf returns the name of an event's thread.
func commOf(e *event.Event) string {
	n := slices.Index(e.Comm[:], 0)
	if n < 0 {
		n = len(e.Comm)
	}
	return string(e.Comm[:n])
}

// stack adds a stack, a line for each frame, innermost first.
func (p *Printer) stack(name string, frames []symbols.Frame) {
	if len(frames) == 0 {
		return
	}
	p.text = p.text[:0]
	for i := range frames {
		f := &frames[i]
		if f.Name == "" || f.Inlined {
			p.text = f.AppendName(p.text)
		} else {
			p.text = symname.Append(p.text, f.Name, f.Module)
		}
		if f.File != "" {
			p.text = f.AppendSource(append(p.text, " "...))
		}
		p.text = append(p.text, '\n')
	}
	p.attrs.text(name, p.text)
}
