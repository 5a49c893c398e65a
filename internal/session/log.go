// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// A log is what has come of a session's log, in order and with gaps where
// parts were lost.
type log []segment

type segment struct {
	base uint32 // offset in the session's log
	data []byte
}

// with returns the log with a copy of another part at its end.
func (l log) with(base uint32, data []byte) log {
	if len(data) == 0 {
		return l
	}
	return append(l, segment{base, bytes.Clone(data)})
}

// A logEntry is one entry of a log. data is without the head.
type logEntry struct {
	kind  bpf.LogKind
	depth int
	size  int
	fn    uint32
	flags uint8
	data  []byte
}

const logHead = 8

var le = binary.LittleEndian

// entry returns the entry at an offset of the whole log.
func (l log) entry(at uint32) (e logEntry, ok bool) {
	for _, s := range l {
		if at >= s.base && at-s.base < uint32(len(s.data)) {
			e, err := decodeEntry(s.data[at-s.base:])
			return e, err == nil
		}
	}
	return logEntry{}, false
}

// argsBefore returns where the arguments of the call are that has the values at
// an offset: in a trace they come with the call, and values at its return.
// Where a part of the log is missing in between, they may be those of another.
func (l log) argsBefore(at uint32) (args uint32, ok bool) {
	values, known := l.entry(at)
	if !known || values.kind != bpf.LogItem {
		return 0, false
	}
	pos := uint32(0)
	for _, s := range l {
		ok = ok && pos == s.base
		pos = s.base
		for b := s.data; len(b) > 0 && pos < at; {
			e, err := decodeEntry(b)
			if err != nil {
				break
			}
			switch {
			case e.kind == bpf.LogEntry && e.depth <= values.depth:
				ok = false
			case e.kind == bpf.LogArgs && e.depth == values.depth && e.fn == values.fn:
				args, ok = pos, true
			}
			b, pos = b[e.size:], pos+uint32(e.size)
		}
	}
	return args, ok
}

func decodeEntry(b []byte) (logEntry, error) {
	if len(b) < logHead {
		return logEntry{}, fmt.Errorf("entry of a log has %d bytes", len(b))
	}
	word := le.Uint32(b[4:])
	e := logEntry{kind: bpf.LogKind(b[0]), depth: int(b[1]), size: int(le.Uint16(b[2:])), fn: word & (1<<24 - 1), flags: uint8(word >> 24)}
	if e.size < logHead || e.size > len(b) {
		return e, fmt.Errorf("entry of a log has %d bytes, there are %d", e.size, len(b))
	}
	if e.depth > bpf.MaxDepth {
		return e, fmt.Errorf("entry of a log is of a call below %d others", e.depth)
	}
	e.data = b[logHead:e.size]
	need := map[bpf.LogKind]int{bpf.LogEntry: 8, bpf.LogExit: 24}[e.kind]
	if len(e.data) < need {
		return e, fmt.Errorf("entry of kind %d of a log has %d bytes", e.kind, e.size)
	}
	return e, nil
}

// steps decodes a log whose length is end, or not known if that is 0.
func (d *Decoder) steps(l log, end uint32) ([]Step, error) {
	t := tracer{decoder: d}
	at := uint32(0)
	if len(l) > 0 && end == 0 {
		at = l[0].base
	}
	for _, s := range l {
		if s.base > at {
			t.lost()
		}
		at = s.base + uint32(len(s.data))
		for b := s.data; len(b) > 0; {
			e, err := decodeEntry(b)
			if err == nil {
				err = t.add(e)
			}
			if err != nil {
				return nil, fmt.Errorf("decoding a record: %w", err)
			}
			b = b[e.size:]
		}
	}
	if at < end {
		t.lost()
	}
	return t.steps, nil
}

// A tracer makes steps of entries.
type tracer struct {
	decoder *Decoder
	steps   []Step
	values  Values // of the return that comes next
}

func (t *tracer) lost() {
	depth := 0
	if n := len(t.steps); n > 0 {
		depth = t.steps[n-1].Depth
	}
	t.steps = append(t.steps, Step{Kind: StepLost, Depth: depth})
}

func (t *tracer) add(e logEntry) error {
	if int(e.fn) >= len(t.decoder.Plan.Functions) {
		return fmt.Errorf("function %d of %d", e.fn, len(t.decoder.Plan.Functions))
	}
	fn := t.decoder.Plan.Functions[e.fn]
	switch e.kind {
	case bpf.LogEntry:
		t.values = Values{}
		t.steps = append(t.steps, Step{Kind: StepEntry, Depth: e.depth, Func: fn, Time: le.Uint64(e.data)})
	case bpf.LogArgs:
		if n := len(t.steps); n > 0 && t.steps[n-1].Kind == StepEntry && t.steps[n-1].Func == fn {
			return t.decoder.values(&t.steps[n-1].Values, fn, e)
		}
	case bpf.LogItem:
		return t.decoder.values(&t.values, fn, e)
	case bpf.LogExit:
		t.exit(e, fn)
	case bpf.LogProbe:
		s := Step{Kind: StepProbe, Depth: e.depth, Probe: fn.Probe.Name()}
		if err := t.decoder.values(&s.Values, fn, e); err != nil {
			return err
		}
		s.Time = s.Values.Event.Time
		t.steps = append(t.steps, s)
	default:
		return fmt.Errorf("entry of kind %d in a log", e.kind)
	}
	return nil
}

// exit adds a return. Directly after its entry it makes a leaf of that; one
// that did not meet a predicate takes its entry away.
func (t *tracer) exit(e logEntry, fn *plan.Function) {
	s := Step{Kind: StepExit, Depth: e.depth, Func: fn, Time: le.Uint64(e.data), Duration: le.Uint64(e.data[8:]),
		Result: le.Uint64(e.data[16:]), Failed: e.flags&bpf.CallFailed != 0, Values: t.values}
	t.values = Values{}
	n := len(t.steps)
	if e.flags&bpf.CallHidden != 0 {
		for i := n - 1; i >= 0; i-- {
			if t.steps[i].Kind == StepEntry && t.steps[i].Depth == e.depth {
				t.steps = append(t.steps[:i], t.steps[i+1:]...)
				return
			}
		}
		return
	}
	if n > 0 && t.steps[n-1].Kind == StepEntry && t.steps[n-1].Depth == e.depth && t.steps[n-1].Func == fn {
		s.Kind = StepLeaf
		s.Values.Args = t.steps[n-1].Values.Args
		t.steps[n-1] = s
		return
	}
	t.steps = append(t.steps, s)
}

// values decodes what was captured of a call of fn.
func (d *Decoder) values(v *Values, fn *plan.Function, e logEntry) error {
	if e.kind != bpf.LogArgs {
		if len(e.data) < bpf.ItemHead {
			return fmt.Errorf("decoding a record: values of %s have %d bytes", fn.Func.Name, len(e.data))
		}
		v.Event = &event.Event{}
		return event.Decode(d.Plan.Plan, e.data[bpf.ItemHead:], v.Event)
	}
	return decodeArgs(v, fn, e.data)
}

// decodeArgs decodes all arguments of a call: the words they were passed in,
// then what some of them point to.
func decodeArgs(v *Values, fn *plan.Function, data []byte) error {
	words := 8 * plan.ArgWords(fn.Args)
	if len(data) < words {
		return fmt.Errorf("decoding a record: arguments of %s have %d bytes", fn.Func.Name, len(data))
	}
	var targets []int // indices of the arguments that have one
	for i, a := range fn.Args {
		arg := Arg{Param: a.Param}
		if a.Words > 0 && !a.Ref {
			arg.Value = data[8*a.Word : 8*(a.Word+a.Words)]
		}
		if a.Target != nil {
			targets = append(targets, i)
		}
		v.Args = append(v.Args, arg)
	}
	const head = 8 // struct arg_bytes
	for b := data[words:]; len(b) >= head; {
		size, flags, index := int(le.Uint16(b)), b[2], int(b[3])
		if len(b) < head+size || index >= len(targets) {
			return fmt.Errorf("decoding a record: argument %d of %s has %d bytes", index, fn.Func.Name, size)
		}
		a, arg := &fn.Args[targets[index]], &v.Args[targets[index]]
		switch {
		case a.Ref && flags&argFault == 0:
			arg.Value = b[head : head+size]
		case a.Ref:
			arg.Value = nil
		case flags&argFault == 0:
			arg.Target, arg.TargetType, arg.Text = b[head:head+size], a.Target, a.Text
			arg.Cut = a.Cut(size)
			if a.Text {
				arg.Target = bytes.TrimRight(arg.Target, "\x00")
			}
			if a.Text && arg.Cut && len(arg.Target) > 0 {
				arg.Target = arg.Target[:len(arg.Target)-1] // whether this is the last is not known
			}
		}
		b = b[min(len(b), head+(size+7)&^7):]
	}
	return nil
}

const argFault = 1
