// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"

	"github.com/ksnoop/ksnoop/internal/plan"
)

// A Call is a call of a trace, made of its steps.
type Call struct {
	Func   *plan.Probe
	Parent int    // index of the call that made it; -1 for none
	Entry  uint64 // CLOCK_MONOTONIC ns
	// Duration in ns is up to the return or, if that was not seen, to the next step that only
	// its caller can have made, or to the session's end.
	Duration uint64
	OffCPU   uint64 // ns of Duration
	Result   uint64
	Finished bool // its return was seen, so Duration and Result are final
	Failed   bool
	Entered  Values // known at entry
	Returned Values // known at return
}

// Calls returns the calls of the session's trace, callers before what they call. A call whose
// entry was lost is there too, but what it called belongs to its caller then.
func (s *Session) Calls() []Call {
	t := callTree{}
	for i := range s.Trace {
		t.step(&s.Trace[i])
	}
	t.leave(0, moment{s.End, s.OffCPU})
	return t.calls
}

// A callTree matches the steps of a trace.
type callTree struct {
	calls []Call
	open  []openStep // outermost first
}

// An openStep is a call that has not returned.
type openStep struct {
	depth, call int
	offSum      uint64 // Step.OffSum at its entry
}

// A moment is a time, with Session.OffCPU as it was then.
type moment struct{ time, offSum uint64 }

func (t *callTree) step(s *Step) {
	now := moment{s.Time, s.OffSum}
	switch s.Kind {
	case StepEntry:
		t.leave(s.Depth, now)
		t.open = append(t.open, openStep{s.Depth, t.add(s, s.Time), s.OffSum})
		t.calls[len(t.calls)-1].Entered = s.Values
	case StepLeaf:
		t.leave(s.Depth, now)
		t.finish(t.add(s, s.Time-min(s.Duration, s.Time)), s)
	case StepExit:
		t.leave(s.Depth+1, now)
		if n := len(t.open); n > 0 && t.open[n-1].depth == s.Depth && t.calls[t.open[n-1].call].Func == s.Func {
			t.finish(t.open[n-1].call, s)
			t.open = t.open[:n-1]
			return
		}
		t.leave(s.Depth, now)
		t.finish(t.add(s, s.Time-min(s.Duration, s.Time)), s)
	}
}

// add adds a call and returns its index.
func (t *callTree) add(s *Step, entry uint64) int {
	c := Call{Func: s.Func, Parent: -1, Entry: entry}
	if n := len(t.open); n > 0 {
		c.Parent = t.open[n-1].call
	}
	t.calls = append(t.calls, c)
	return len(t.calls) - 1
}

// finish completes a call with its return.
func (t *callTree) finish(i int, s *Step) {
	c := &t.calls[i]
	c.Duration, c.OffCPU, c.Result, c.Finished, c.Failed, c.Returned = s.Duration, s.OffCPU, s.Result, true, s.Failed, s.Values
}

// leave ends the calls from a depth on, whose returns were not seen.
func (t *callTree) leave(depth int, now moment) {
	at := slices.IndexFunc(t.open, func(o openStep) bool { return o.depth >= depth })
	if at < 0 {
		return
	}
	for _, o := range t.open[at:] {
		c := &t.calls[o.call]
		c.Duration = now.time - min(c.Entry, now.time)
		c.OffCPU = min(now.offSum-min(o.offSum, now.offSum), c.Duration)
	}
	t.open = t.open[:at]
}
