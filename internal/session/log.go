// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// A log holds the received parts of a session's log, in order. Lost parts leave gaps.
type log struct {
	parts []segment
	begin uint32 // everything before was dropped or is not needed
	left  uint32 // calls in the dropped parts
	cut   bool   // something was dropped
	// missed counts values that were looked for in dropped parts.
	missed uint32
	calls  []madeCall // newest call of each depth, while parts are added
}

// A segment is a part of a log. Offsets are those of the session's whole log, modulo 2^32.
type segment struct {
	base  uint32
	data  []byte
	calls uint32       // that start in it
	args  []valuesArgs // in order
}

// A valuesArgs maps the offset of a call's values to that of its arguments. In a trace,
// arguments are logged at the entry and values at the return.
type valuesArgs struct{ values, args uint32 }

// A madeCall is a call whose arguments, if any, have been seen.
type madeCall struct {
	fn, args uint32
	known    bool
}

// part returns a log with a single part.
func part(base uint32, data []byte) *log {
	return &log{parts: []segment{{base: base, data: data}}, begin: base}
}

func (s *segment) end() uint32 { return s.base + uint32(len(s.data)) }

// add appends a part to the log.
func (l *log) add(base uint32, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if n := len(l.parts); n > 0 && l.parts[n-1].end() != base {
		if int32(base-l.parts[n-1].end()) < 0 {
			return fmt.Errorf("decoding a record: a log of %d bytes goes on at %d", l.parts[n-1].end(), base)
		}
		clear(l.calls) // a gap: what follows may belong to other calls
	}
	s := segment{base: base, data: data}
	for at := 0; at < len(data); {
		e, err := bpf.DecodeLog(data[at:])
		if err != nil {
			return fmt.Errorf("decoding a record: %w", err)
		}
		l.index(&s, &e, base+uint32(at))
		at += e.Size
	}
	l.parts = append(l.parts, s)
	return nil
}

// index notes which arguments belong to which values.
func (l *log) index(s *segment, e *bpf.Logged, at uint32) {
	for e.Depth >= len(l.calls) {
		l.calls = append(l.calls, madeCall{})
	}
	c := &l.calls[e.Depth]
	switch e.Kind {
	case bpf.LogEntry:
		s.calls++
		*c = madeCall{}
	case bpf.LogArgs:
		*c = madeCall{fn: e.Func, args: at, known: true}
	case bpf.LogItem:
		if c.known && c.fn == e.Func {
			s.args = append(s.args, valuesArgs{at, c.args})
		}
	}
}

// drop gives up the oldest part.
func (l *log) drop() {
	s := &l.parts[0]
	l.begin, l.cut = s.end(), true
	l.left += s.calls
	*s = segment{}
	l.parts = l.parts[1:]
}

// dropped reports whether an offset is in a dropped part. It cannot tell it from one that
// comes 2 GiB later.
func (l *log) dropped(at uint32) bool { return l.cut && int32(at-l.begin) < 0 }

// clone returns a copy that can be added to.
func (l *log) clone() *log {
	c := *l
	c.parts, c.calls = slices.Clone(l.parts), slices.Clone(l.calls)
	return &c
}

// from drops what is before an offset.
func (l *log) from(at uint32) {
	if int32(at-l.begin) <= 0 {
		return
	}
	l.begin, l.cut = at, false
	l.parts = slices.DeleteFunc(l.parts, func(s segment) bool { return int32(s.end()-at) <= 0 })
	if len(l.parts) > 0 && int32(at-l.parts[0].base) > 0 {
		s := &l.parts[0]
		s.base, s.data = at, s.data[at-s.base:]
	}
}

// find returns the part that contains an offset.
func (l *log) find(at uint32) (s *segment, ok bool) {
	if len(l.parts) == 0 {
		return nil, false
	}
	first := l.parts[0].base
	i, found := slices.BinarySearchFunc(l.parts, at-first, func(s segment, at uint32) int { return cmp.Compare(s.base-first, at) })
	if !found {
		i--
	}
	if i < 0 || at-l.parts[i].base >= uint32(len(l.parts[i].data)) {
		return nil, false
	}
	return &l.parts[i], true
}

var le = binary.LittleEndian

// entry returns the entry at an offset of the whole log.
func (l *log) entry(at uint32) (e bpf.Logged, ok bool) {
	s, ok := l.find(at)
	if !ok {
		return bpf.Logged{}, false
	}
	e, err := bpf.DecodeLog(s.data[at-s.base:])
	return e, err == nil
}

// argsOf returns the offset of the arguments of the call whose values are at an offset.
func (l *log) argsOf(at uint32) (args uint32, ok bool) {
	s, ok := l.find(at)
	if !ok {
		return 0, false
	}
	i, ok := slices.BinarySearchFunc(s.args, at-s.base, func(a valuesArgs, at uint32) int { return cmp.Compare(a.values-s.base, at) })
	if !ok {
		return 0, false
	}
	return s.args[i].args, true
}

// steps decodes a log up to the offset end.
func (d *Decoder) steps(l *log, end uint32) ([]Step, error) {
	t := tracer{decoder: d}
	at := l.begin
	if l.cut {
		t.steps = append(t.steps, Step{Kind: StepLeft, Count: l.left})
	}
	for _, s := range l.parts {
		if s.base != at {
			t.lost()
		}
		at = s.end()
		for b := s.data; len(b) > 0; {
			e, err := bpf.DecodeLog(b)
			if err == nil {
				err = t.add(e)
			}
			if err != nil {
				return nil, fmt.Errorf("decoding a record: %w", err)
			}
			b = b[e.Size:]
		}
	}
	if at != end {
		t.lost()
	}
	return t.shown(), nil
}

// A tracer turns entries into steps.
type tracer struct {
	decoder *Decoder
	steps   []Step
	values  Values // of the next return
	// entered has, for each depth, 1 + the index of the newest call without a return; 0 if
	// there is none.
	entered [bpf.MaxDepth + 1]int
	hidden  int // number of steps taken away
}

// stepHidden marks a step that is not shown.
const stepHidden = StepKind(255)

// shown returns the steps to show.
func (t *tracer) shown() []Step {
	if t.hidden == 0 {
		return t.steps
	}
	return slices.DeleteFunc(t.steps, func(s Step) bool { return s.Kind == stepHidden })
}

// hide takes away a call that did not satisfy a predicate.
func (t *tracer) hide(i int) {
	t.steps[i].Kind = stepHidden
	t.hidden++
	for n := len(t.steps); n > 0 && t.steps[n-1].Kind == stepHidden; n-- { // its caller may become a leaf
		t.steps = t.steps[:n-1]
		t.hidden--
	}
}

func (t *tracer) lost() {
	depth := 0
	if n := len(t.steps); n > 0 {
		depth = t.steps[n-1].Depth
	}
	t.steps = append(t.steps, Step{Kind: StepLost, Depth: depth})
}

func (t *tracer) add(e bpf.Logged) error {
	if int(e.Func) >= len(t.decoder.Plan.Probes) {
		return fmt.Errorf("function %d of %d", e.Func, len(t.decoder.Plan.Probes))
	}
	fn := t.decoder.Plan.Probes[e.Func]
	switch e.Kind {
	case bpf.LogEntry:
		t.values = Values{}
		t.entered[e.Depth] = len(t.steps) + 1
		t.steps = append(t.steps, Step{Kind: StepEntry, Depth: e.Depth, Func: fn, Time: e.Time})
	case bpf.LogArgs:
		if n := len(t.steps); n > 0 && t.steps[n-1].Kind == StepEntry && t.steps[n-1].Func == fn {
			return t.decoder.values(&t.steps[n-1].Values, fn, e)
		}
	case bpf.LogItem:
		return t.decoder.values(&t.values, fn, e)
	case bpf.LogExit:
		t.exit(e, fn)
	case bpf.LogProbe:
		s := Step{Kind: StepProbe, Depth: e.Depth, Probe: fn.Name}
		if err := t.decoder.values(&s.Values, fn, e); err != nil {
			return err
		}
		s.Time = s.Values.Event.Time
		t.steps = append(t.steps, s)
	default:
		return fmt.Errorf("entry of kind %d in a log", e.Kind)
	}
	return nil
}

// exit adds a return. If it directly follows its entry, both become one leaf. If the call
// did not satisfy a predicate, the entry is taken away.
func (t *tracer) exit(e bpf.Logged, fn *plan.Probe) {
	s := Step{Kind: StepExit, Depth: e.Depth, Func: fn, Time: e.Time, Duration: e.Duration,
		Result: e.Result, Failed: e.Flags&bpf.CallFailed != 0, Values: t.values}
	t.values = Values{}
	n, entry := len(t.steps), t.entered[e.Depth]-1
	t.entered[e.Depth] = 0
	if e.Flags&bpf.CallHidden != 0 {
		if entry >= 0 && entry < n && t.steps[entry].Kind == StepEntry && t.steps[entry].Depth == e.Depth {
			t.hide(entry)
		}
		return
	}
	if n > 0 && t.steps[n-1].Kind == StepEntry && t.steps[n-1].Depth == e.Depth && t.steps[n-1].Func == fn {
		s.Kind = StepLeaf
		s.Values.Args = t.steps[n-1].Values.Args
		t.steps[n-1] = s
		return
	}
	t.steps = append(t.steps, s)
}

// values decodes what was captured of a call of fn.
func (d *Decoder) values(v *Values, fn *plan.Probe, e bpf.Logged) error {
	if e.Kind != bpf.LogArgs {
		if len(e.Data) < bpf.ItemHead {
			return fmt.Errorf("decoding a record: values of %s have %d bytes", fn.Func.Name, len(e.Data))
		}
		v.Event = &event.Event{}
		return event.Decode(d.Plan, e.Data[bpf.ItemHead:], v.Event)
	}
	return decodeArgs(v, fn, e.Data)
}

// decodeArgs decodes the arguments of a call: first the words in which they were passed,
// then what some point to.
func decodeArgs(v *Values, fn *plan.Probe, data []byte) error {
	words := 8 * layout.ArgWords(fn.Args)
	if len(data) < words {
		return fmt.Errorf("decoding a record: arguments of %s have %d bytes", fn.Func.Name, len(data))
	}
	var targets []int // indexes of arguments with a target
	for i, a := range fn.Args {
		arg := Arg{Param: a.Param, Beyond: a.Words == 0 && !a.Param.Absent}
		if a.Words > 0 && !a.Ref {
			arg.Value = data[8*a.Word : 8*(a.Word+a.Words)]
		}
		if a.Target != nil {
			targets = append(targets, i)
		}
		v.Args = append(v.Args, arg)
	}
	for b := data[words:]; len(b) > 0; {
		t, rest, err := bpf.DecodeTarget(b)
		if err == nil && t.Index >= len(targets) {
			err = fmt.Errorf("target %d of %d", t.Index, len(targets))
		}
		if err != nil {
			return fmt.Errorf("decoding a record: arguments of %s: %w", fn.Func.Name, err)
		}
		b = rest
		a, arg := &fn.Args[targets[t.Index]], &v.Args[targets[t.Index]]
		switch {
		case a.Ref && !t.Fault:
			arg.Value = t.Data
		case a.Ref:
			arg.Value = nil
		case !t.Fault:
			arg.Target, arg.TargetType, arg.Text = t.Data, a.Target, a.Text
			arg.Cut = a.Cut(len(t.Data))
			if a.Text {
				arg.Target = bytes.TrimRight(arg.Target, "\x00")
			}
			if a.Text && arg.Cut && len(arg.Target) > 0 {
				arg.Target = arg.Target[:len(arg.Target)-1] // the extra byte only tells that the string goes on
			}
		}
	}
	return nil
}
