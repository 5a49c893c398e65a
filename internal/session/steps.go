// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"slices"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/plan"
)

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
	// values are those of the call of the function valued that began at the time began. They are for its return, which comes next.
	values Values
	valued *plan.Probe
	began  uint64
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
		t.steps = append(t.steps, Step{Kind: StepEntry, Depth: e.Depth, Func: fn, Time: e.Time, OffSum: e.OffSum})
	case bpf.LogArgs:
		if n := len(t.steps); n > 0 && t.steps[n-1].Kind == StepEntry && t.steps[n-1].Func == fn && t.steps[n-1].Depth == e.Depth {
			return t.decoder.values(&t.steps[n-1].Values, fn, e)
		}
	case bpf.LogItem:
		t.valued, t.began = fn, e.Entered()
		return t.decoder.values(&t.values, fn, e)
	case bpf.LogOpen:
		return t.open(e, fn)
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

// entry returns the index of the step at which a call of fn began that has no return yet. It is not known if that is not among
// the steps: then the newest one of this depth, if any, is that of another call.
func (t *tracer) entry(depth int, fn *plan.Probe, began uint64) (i int, known bool) {
	i = t.entered[depth] - 1
	if i < 0 || i >= len(t.steps) {
		return i, false
	}
	s := &t.steps[i]
	return i, s.Kind == StepEntry && s.Func == fn && s.Depth == depth && s.Time == began
}

// open gives an entry the values of its call, whose return is not in the log.
func (t *tracer) open(e bpf.Logged, fn *plan.Probe) error {
	s := Step{Kind: StepOpen, Depth: e.Depth, Func: fn}
	if err := t.decoder.values(&s.Values, fn, e); err != nil {
		return err
	}
	s.Time = s.Values.Event.EntryTime
	if i, known := t.entry(e.Depth, fn, s.Time); known {
		t.steps[i].Values.Event = s.Values.Event
		return nil
	}
	t.steps = append(t.steps, s)
	return nil
}

// exit adds a return. If it directly follows its entry, both become one leaf. If the call
// did not satisfy a predicate, the entry is taken away.
func (t *tracer) exit(e bpf.Logged, fn *plan.Probe) {
	s := Step{Kind: StepExit, Depth: e.Depth, Func: fn, Time: e.Time, Duration: e.Duration, OffCPU: min(e.OffCPU, e.Duration), OffSum: e.OffSum,
		Result: e.Result, Failed: e.Flags&bpf.CallFailed != 0}
	if t.valued == fn && t.began == e.Time-e.Duration {
		s.Values = t.values
	}
	t.values = Values{}
	entry, known := t.entry(e.Depth, fn, e.Time-e.Duration)
	t.entered[e.Depth] = 0
	switch {
	case e.Flags&bpf.CallHidden != 0:
		if known {
			t.hide(entry)
		}
		return
	case known && entry == len(t.steps)-1:
		s.Kind = StepLeaf
		s.Values.Args = t.steps[entry].Values.Args
		t.steps[entry] = s
		return
	case known:
		t.steps[entry].Values.Event = s.Values.Event // has what was read at entry, too
	default:
		s.Alone = true
	}
	t.steps = append(t.steps, s)
}
