// SPDX-License-Identifier: Apache-2.0

package samples

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/layout"
)

// A Sample is a call with the stack that led to it.
type Sample struct {
	// Stack has the functions, outermost first; the last is the one that was called.
	Stack []symbols.Frame
	Calls uint64
	Time  uint64 // ns in the function itself; 0 if unknown
	// OffCPU are the ns of Time in which the thread was off the CPU, in a session that has this.
	OffCPU uint64
	// Errors is 1 if the call is where a failure began.
	Errors uint64
	PID    uint32
	Comm   string // name of the thread
	Errno  string // of a call that failed: ENOENT; NULL for a pointer; "" otherwise
	// Unknown says that the call may have failed: its result was not captured, or is not to
	// be shown.
	Unknown bool
}

// Function returns the name of the function that was called.
func (s *Sample) Function() string { return s.Stack[len(s.Stack)-1].Name }

// A Sampler makes samples. A Sample is valid until the next one is made.
type Sampler struct {
	resolver output.Resolver
	tails    *output.Tails
	merger   *output.Merger
	fields   *output.Fields

	sample Sample
	frames []symbols.Frame
}

// New returns a Sampler for the calls or sessions of a run.
func New(run *output.Run) *Sampler {
	r := run.Resolver
	if r == nil { // there are no stacks
		r = symbols.New(run.Kernel, nil, symbols.LevelNone)
	}
	return &Sampler{resolver: r, tails: &output.Tails{Kernel: r}, merger: output.NewMerger(r), fields: output.NewFields(output.Names{})}
}

// Call returns the sample of a call; nil if it is a mark of losses.
func (s *Sampler) Call(c *calls.Call) (*Sample, error) {
	if c.End == calls.Gap {
		return nil, nil
	}
	last := c.Last()
	s.sample = Sample{Stack: s.sample.Stack[:0], Calls: 1, PID: last.PID, Comm: comm(last)}
	if entered, ok := Entered(c); ok {
		s.sample.Time = last.Time - entered
		if measured, ok := measured(last); ok {
			s.sample.Time = measured
		}
	}
	for _, e := range [...]*event.Event{c.Entry, c.Return} {
		if e == nil {
			continue
		}
		if stack, ok := e.Tail.Section(bpf.SectionStack); ok && len(s.sample.Stack) == 0 {
			s.frames = s.tails.AppendStack(s.frames[:0], e, stack)
			slices.Reverse(s.frames)
			s.sample.Stack = append(s.sample.Stack, s.frames...)
		}
	}
	var err error
	if s.sample.Errno, s.sample.Unknown, err = s.Failure(c); err != nil {
		return nil, err
	}
	if s.sample.Errno != "" {
		s.sample.Errors = 1
	}
	s.sample.Stack = append(s.sample.Stack, s.frame(last.Probe))
	return &s.sample, nil
}

// Failure returns the name of a call's error, as Errno does. unknown says that the call may have failed: its result
// was not captured, or is not to be shown.
func (s *Sampler) Failure(c *calls.Call) (name string, unknown bool, err error) {
	last := c.Last()
	class := layout.ClassOf(last.Probe.Func.Name, last.Probe.Result)
	unknown = class != layout.NeverFails
	for _, e := range [...]*event.Event{c.Entry, c.Return} {
		if e == nil {
			continue
		}
		result, ok, err := s.result(e)
		if err != nil {
			return "", false, err
		}
		if ok {
			name, unknown = Errno(class, result), false
		}
	}
	return name, unknown, nil
}

// Entered returns when a call was entered; ok is false if that is unknown.
func Entered(c *calls.Call) (ns uint64, ok bool) {
	switch {
	case c.Return == nil || c.End == calls.Gap:
		return 0, false
	case c.Entry != nil:
		ns = c.Entry.Time
	default:
		ns = c.Return.EntryTime
	}
	return ns, ns != 0 && ns <= c.Return.Time
}

// measured returns the $duration that a record has. Records themselves have times of when they were sent, which is
// later if the task was interrupted on the way.
func measured(e *event.Event) (ns uint64, ok bool) {
	if e.Record == nil {
		return 0, false
	}
	for i := range e.Record.Slots {
		s := &e.Record.Slots[i]
		if c, is := s.Term.(*expr.ContextTerm); is && c.Var == expr.ContextDuration {
			return e.Value(s)
		}
	}
	return 0, false
}

// comm returns the name of an event's thread.
func comm(e *event.Event) string {
	name, _, _ := bytes.Cut(e.Comm[:], []byte{0})
	return string(name)
}

// result returns the result of a call, if its record has it.
func (s *Sampler) result(e *event.Event) (v uint64, ok bool, err error) {
	fields, err := s.fields.Of(e)
	if err != nil {
		return 0, false, err
	}
	for _, f := range fields {
		if scalar, _ := f.Slots(); scalar != nil && expr.IsResult(scalar.Term) {
			v, ok = e.Value(scalar)
			return v, ok, nil
		}
	}
	return 0, false, nil
}

// Errno returns the name of the error in a result of a class: ENOENT, NULL, a number if it
// has no name, and "" if the call did not fail.
func Errno(class layout.ErrorClass, result uint64) string {
	if !class.Failed(result) {
		return ""
	}
	if class == layout.FailsInt32 {
		result = uint64(int32(result))
	}
	if result == 0 {
		return "NULL"
	}
	if name := errno.Name(-result); name != "" {
		return name
	}
	return strconv.FormatUint(-result, 10)
}

// frame returns the frame of a function that was called, at its begin.
func (s *Sampler) frame(p *plan.Probe) symbols.Frame {
	name, module := p.Named()
	f := symbols.Frame{Addr: p.Func.Addr, Name: name, Module: module}
	if f.Name == "" {
		f.Name = p.Name
	}
	if f.Addr == 0 {
		return f
	}
	s.frames = s.resolver.Frames(s.frames[:0], f.Addr, false)
	at := s.frames[len(s.frames)-1]
	f.File, f.Line = at.File, at.Line
	return f
}
