// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/layout"
)

// An Inside answers SPECs from the values that sessions have of their calls.
//
// Values are answered for every function that was recorded with a SPEC. Predicates are only
// for functions that open sessions, and decide which sessions are shown: a run would leave
// calls inside out that do not meet them, and the stack of the call before was not recorded.
type Inside struct {
	recorded, plan *plan.Plan
	answers        []*answer // by the number of the probe; nil: as it was recorded
	conditional    bool      // some SPEC has predicates
	notes          []Note
	counts         Counts
}

// NewInside resolves SPECs for a recording of sessions. live says that its sessions are printed
// call by call. Faults of the SPECs come back joined, as *expr.ErrorList values.
func NewInside(p *plan.Plan, view *kernel.View, q Question, live bool) (*Inside, error) {
	probes := *p
	probes.Probes = slices.Clone(p.Probes)
	a := &Inside{recorded: p, plan: &probes, answers: make([]*answer, len(p.Probes))}
	specs := slices.Clone(q.Specs)
	slices.SortStableFunc(specs, func(x, y *expr.Spec) int { return globs(x) - globs(y) }) // a full name counts first
	var errs []error
	for _, spec := range specs {
		errs = append(errs, a.ask(spec, view, q.Arch, live))
	}
	return a, errors.Join(errs...)
}

func globs(s *expr.Spec) int {
	return min(1, strings.Count(s.Selector.String(), "*")+strings.Count(s.Selector.String(), "?"))
}

// Plan returns the plan of what is shown.
func (a *Inside) Plan() *plan.Plan { return a.plan }

// Notes returns what the SPECs select and is shown as it was recorded.
func (a *Inside) Notes() []Note { return a.notes }

// Counts returns what was counted so far.
func (a *Inside) Counts() Counts { return a.counts }

// ask adds the answers to one SPEC. Without parentheses all that was recorded is shown.
func (a *Inside) ask(spec *expr.Spec, view *kernel.View, arch string, live bool) error {
	selected, err := selects(a.recorded, spec, view)
	if err != nil || !spec.Parens {
		return err
	}
	var refused []refusal
	answered := false
	for _, i := range selected {
		was := a.recorded.Probes[i]
		if was.Role.Injected() || a.answers[i] != nil {
			continue
		}
		ans, err := a.answer(was, spec, view, arch, live)
		if err != nil {
			refused = append(refused, refusal{was, ofRecording(err)})
			continue
		}
		a.answers[i], a.plan.Probes[i], answered = ans, ans.probe, true
		a.conditional = a.conditional || ans.probe.Conditional()
	}
	if !answered && len(refused) > 0 {
		return refused[0].err
	}
	for _, r := range refused {
		a.notes = append(a.notes, Note{r.probe.Name, r.err})
	}
	return nil
}

// answer resolves a SPEC for one function of sessions.
func (a *Inside) answer(was *plan.Probe, spec *expr.Spec, view *kernel.View, arch string, live bool) (*answer, error) {
	r := newRecording(was, view, arch)
	r.inside = true
	r.addArgs()
	probe, err := r.resolve(spec)
	if err != nil {
		return nil, err
	}
	var faults []*expr.Error
	for i := range probe.Items {
		switch it := &probe.Items[i]; {
		case it.Aggregation != nil:
			faults = append(faults, notRecorded(it.Pos, "ask a recording of calls", "calls of sessions are not added up"))
		case it.Predicate == nil:
		case was.Role != layout.RoleEntry:
			faults = append(faults, notRecorded(it.Pos, "record with this predicate, or ask for `+("+probe.ItemText(i)+")`",
				"%s does not open sessions: a recording does not tell what they look like without some of its calls", was.Name))
		case live:
			faults = append(faults, notRecorded(it.Pos, "", "these sessions were recorded with --live: they are printed before it is known what they have"))
		}
	}
	var ans *answer
	if len(faults) == 0 {
		ans, faults = r.newAnswer(probe)
	}
	if len(faults) > 0 {
		return nil, &expr.ErrorList{Text: spec.Text, Errors: faults}
	}
	probe.ID, probe.Args = was.ID, was.Args
	ans.id = uint32(was.ID)
	return ans, nil
}

// Keep reports whether a session is shown, and gives its calls the values that are asked for.
func (a *Inside) Keep(s *session.Session) (bool, error) {
	if a.conditional && !a.meets(s) {
		return false, nil
	}
	if ans := a.answers[s.Func.ID]; ans != nil {
		s.Func = ans.probe
	}
	var errs []error
	for _, frames := range append([]session.Chain{s.Chain}, s.Interim...) {
		for i := range frames.Frames {
			f := &frames.Frames[i]
			errs = append(errs, a.replace(&f.Func, &f.Values, f.Values.Args, s, f.Finished))
		}
	}
	entered := map[int]*session.Step{} // by depth, calls that have not returned yet
	for i := range s.Trace {
		step := &s.Trace[i]
		if step.Func == nil {
			continue
		}
		args, entry := step.Values.Args, entered[step.Depth]
		switch step.Kind {
		case session.StepEntry:
			entered[step.Depth] = step // which gets the values of the whole call if that returns
		case session.StepExit:
			if delete(entered, step.Depth); step.Alone {
				entry = nil
			}
			if entry != nil {
				args = entry.Values.Args
			}
		}
		finished := step.Kind != session.StepEntry && step.Kind != session.StepOpen
		errs = append(errs, a.replace(&step.Func, &step.Values, args, s, finished))
		if step.Kind == session.StepExit && entry != nil {
			entry.Values.Event = step.Values.Event
		}
	}
	return true, errors.Join(errs...)
}

// meets reports whether the call that opened a session meets the predicates.
func (a *Inside) meets(s *session.Session) bool {
	ans := a.answers[s.Func.ID]
	if ans == nil || !ans.probe.Conditional() {
		return false
	}
	v, finished := opening(s)
	if v.Event == nil && v.Args == nil || len(ans.atReturn) > 0 && !finished {
		a.counts.Unsure++
		return false
	}
	mine := withIDs(head(&v, s), s)
	ans.machine.reset(&mine, &mine)
	ans.machine.args = v.Args
	switch ans.decide(slices.Concat(ans.atEntry, ans.atReturn)) {
	case holds:
		return true
	case faulted:
		a.counts.Faults++
	case unknown:
		a.counts.Unsure++
	}
	return false
}

// opening returns the values of the call that opened a session, as far as they are there, and
// whether it has returned.
func opening(s *session.Session) (v session.Values, finished bool) {
	if f := s.Chain.Frames; len(f) > 0 && f[0].Func == s.Func && (f[0].Values.Event != nil || f[0].Values.Args != nil) {
		return f[0].Values, f[0].Finished
	}
	for i := range s.Trace {
		step := &s.Trace[i]
		if step.Depth > 0 || step.Func != s.Func {
			continue
		}
		if step.Values.Args != nil {
			v.Args = step.Values.Args
		}
		if step.Kind != session.StepEntry && step.Kind != session.StepOpen {
			return session.Values{Event: step.Values.Event, Args: v.Args}, true
		}
	}
	return v, false
}

// head returns the record that has a call's values or, if only its arguments were captured, one
// that says as much of its thread.
func head(v *session.Values, s *session.Session) *event.Event {
	if v.Event != nil {
		return v.Event
	}
	e := &event.Event{Event: bpf.Event{Kind: bpf.KindCall, Time: s.Start, EntryTime: s.Start, PID: s.PID, TID: s.TID, CPU: s.CPU}}
	copy(e.Comm[:], s.Comm)
	return e
}

// withIDs returns an event with the thread's numbers in the namespace of ksnoop.
func withIDs(e *event.Event, s *session.Session) event.Event {
	mine := *e
	mine.Inner = s.Inner
	return mine
}

// replace gives a call the function and the values of the new plan. args are what -A has captured
// of it.
func (a *Inside) replace(fn **plan.Probe, v *session.Values, args []session.Arg, s *session.Session, finished bool) error {
	ans := a.answers[(*fn).ID]
	if ans == nil {
		return nil
	}
	*fn = ans.probe
	if v.Event == nil && args == nil || ans.ret == nil {
		return nil
	}
	e := head(v, s)
	mine := withIDs(e, s)
	ans.machine.reset(&mine, &mine)
	ans.machine.args = args
	raw, unsure := ans.make(ans.ret, mine.Kind, e)
	if unsure && finished {
		a.counts.Partial++
	}
	v.Event = &event.Event{}
	return event.Decode(a.plan, bytes.Clone(raw), v.Event)
}
