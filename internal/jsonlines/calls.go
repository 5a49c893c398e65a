// SPDX-License-Identifier: Apache-2.0

package jsonlines

import (
	"encoding/binary"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/unwind"
)

// kinds are the names of what one record tells of a call.
var kinds = map[bpf.Kind]string{bpf.KindEntry: "entry", bpf.KindReturn: "return", bpf.KindCall: "call"}

// ends say why half of a call is missing.
var ends = map[calls.End]string{calls.NoEntry: "no entry", calls.Open: "open", calls.Evicted: "given up"}

// AppendCall appends a call, or one end of it, and before it its stack and its cgroup if these are
// new.
func (p *Printer) AppendCall(dst []byte, c *calls.Call) ([]byte, error) {
	start := len(dst)
	last := c.Last()
	dst, stack := p.newStack(dst, c)
	dst = p.newCgroup(dst, last.Owner)
	kind := "call"
	if c.End == calls.Whole {
		kind = kinds[last.Kind]
	}
	dst = p.clock.appendTime(p.open(dst, kind), last.Time)
	switch {
	case c.Entry != nil && c.Return != nil:
		dst = appendUint(dst, "duration", c.Return.Time-c.Entry.Time)
	case last.EntryTime != 0:
		dst = appendUint(dst, "duration", last.Time-last.EntryTime)
	}
	dst = appendTask(appendUint(dst, "cpu", uint64(last.CPU)), last.PID, last.TID, last.Inner)
	dst = p.appendOwner(appendText(dst, "comm", comm(&last.Comm)), last.Owner)
	dst = p.appendFunction(dst, last.Probe)
	if why := ends[c.End]; why != "" {
		dst = appendText(dst, "missing", why)
	}
	dst = append(dst, `,"values":{`...)
	for _, e := range [...]*event.Event{c.Entry, c.Return} {
		if e == nil {
			continue
		}
		var err error
		if dst, err = p.records.appendValues(dst, e, always, e == c.Return && c.Entry != nil); err != nil {
			return dst[:start], err
		}
	}
	dst = p.records.appendGaps(append(dst, '}'))
	if stack != 0 {
		dst = appendUint(dst, "stack", stack)
	}
	for _, e := range [...]*event.Event{c.Entry, c.Return} {
		if e != nil && len(e.Tail) > 0 {
			dst = p.appendTail(dst, e)
		}
	}
	return append(dst, "}\n"...), nil
}

// newStack appends the line of a call's stack, if it has one that is not written yet, and
// returns its ID; 0: it has none.
func (p *Printer) newStack(dst []byte, c *calls.Call) ([]byte, uint64) {
	for _, e := range [...]*event.Event{c.Entry, c.Return} {
		if e == nil || len(e.Tail) == 0 || p.run.Resolver == nil {
			continue
		}
		s, ok := e.Tail.Section(bpf.SectionStack)
		if !ok || len(s.Data) == 0 {
			continue
		}
		// Where the function is in the stack depends on which one it is.
		key := binary.LittleEndian.AppendUint32(p.stacks.key[:0], e.Event.Probe)
		if s.Caller {
			key = append(key, 1)
		}
		p.stacks.key = append(key, s.Data...)
		id, isNew := p.stacks.of(p.stacks.key)
		if isNew {
			p.frames = p.tails.AppendStack(p.frames[:0], e, s)
			dst = p.openStack(dst, id)
			for i := range p.frames {
				dst = appendFrame(appendComma(dst), &p.frames[i])
			}
			dst = append(dst, "]}\n"...)
		}
		return dst, id
	}
	return dst, 0
}

// appendTail appends what is behind the values of a record, but for its stack in the kernel,
// of which there is only said what is missing.
func (p *Printer) appendTail(dst []byte, e *event.Event) []byte {
	if s, ok := e.Tail.Section(bpf.SectionStack); ok {
		dst = appendTrue(dst, "stack_cut", s.Cut && !s.Caller)
		dst = appendErrno(dst, "no_stack", uint64(s.Errno))
	}
	if s, ok := e.Tail.Section(bpf.SectionUserStack); ok {
		dst = p.appendUserStack(dst, e, s)
	}
	if s, ok := e.Tail.Section(bpf.SectionBranches); ok {
		p.list = event.AppendBranches(p.list[:0], s)
		dst = p.appendBranches(dst, p.list, s.All)
		dst = appendErrno(dst, "no_branches", uint64(s.Errno))
	}
	if path, ok := e.Path(); ok {
		dst = p.appendPath(dst, e, &path)
	}
	return dst
}

// appendErrno appends a member with the name of an error, if there was one.
func appendErrno(dst []byte, key string, n uint64) []byte {
	if n == 0 {
		return dst
	}
	name := errno.Name(n)
	if name == "" {
		name = "unknown"
	}
	return appendText(dst, key, name)
}

// appendUserStack appends the stack of the process, innermost first.
func (p *Printer) appendUserStack(dst []byte, e *event.Event, s bpf.Section) []byte {
	if p.run.User == nil {
		return dst
	}
	process := p.run.User(&e.Event, string(comm(&e.Comm)))
	dst = append(appendKey(dst, "user_stack"), '[')
	frames, end := p.tails.UserFrames(s)
	for _, f := range frames {
		dst = appendAddress(append(appendComma(dst), `{"addr":`...), f.Addr())
		p.records.name = process.AppendFrame(p.records.name[:0], f.Addr(), !f.Exact())
		dst = appendText(dst, "text", p.records.name)
		if way := unwind.Way(f.Way()); s.Unwound && way > unwind.ByRegisters {
			dst = appendText(dst, "way", way.String())
		}
		dst = append(p.appendUserLines(dst, p.tails.UserLines(process, f)), '}')
	}
	dst = appendTrue(append(dst, ']'), "user_stack_cut", s.Cut)
	if end != "" {
		dst = appendText(dst, "user_stack_end", end)
	}
	if why := process.Missing(); why != "" {
		dst = appendText(dst, "user_names", why)
	}
	return appendErrno(dst, "no_user_stack", uint64(s.Errno))
}

// appendUserLines appends the source line of a frame, and the functions that were inlined there.
func (p *Printer) appendUserLines(dst []byte, lines []debuginfo.Frame) []byte {
	if len(lines) == 0 {
		return dst
	}
	own := &lines[len(lines)-1]
	dst = p.appendSource(dst, own)
	if len(lines) == 1 {
		return dst
	}
	dst = append(appendKey(dst, "inlined"), '[')
	for i := range lines[:len(lines)-1] {
		dst = appendText(append(appendComma(dst), '{'), "name", lines[i].Func)
		dst = append(p.appendSource(dst, &lines[i]), '}')
	}
	return append(dst, ']')
}

func (p *Printer) appendSource(dst []byte, f *debuginfo.Frame) []byte {
	if f.File == "" {
		return dst
	}
	at := symbols.Frame{File: f.File, Line: int(f.Line), Column: int(f.Column)}
	p.records.name = at.AppendSource(p.records.name[:0])
	return appendText(dst, "source", p.records.name)
}
