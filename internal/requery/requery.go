// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/suggest"
)

// A Question is what a recording of calls is asked.
type Question struct {
	Specs  []*expr.Spec // none: the records as they are
	Filter Filter
	Arch   string // of the recording's kernel
}

// An Answer turns recorded records into those that the question asks for.
type Answer struct {
	recorded *plan.Plan
	plan     *plan.Plan
	filter   Filter
	answers  [][]*answer // by the number of the recorded probe
	notes    []Note
	pairs    bool
	counts   Counts

	span    span
	summing summing
}

// A Note says why a function, or a SPEC of the recording, is left out of what is shown.
type Note struct {
	Func string
	Why  error
}

// Counts say what was left out because the recording does not tell.
type Counts struct {
	Faults  uint64 // calls of which a predicate met unreadable memory or divided by zero
	NoEntry uint64 // calls of which only the return was recorded
	Unsure  uint64 // calls whose predicates need what was unreadable as a whole, or cut short
	Partial uint64 // records that lack a value for that reason
	Evicted uint64 // calls whose return was not waited for
}

// New resolves a question, of which the range was checked. Faults of the SPECs come back
// joined, as *expr.ErrorList values.
func New(p *plan.Plan, view *kernel.View, q Question) (*Answer, error) {
	a := &Answer{recorded: p, filter: q.Filter, answers: make([][]*answer, len(p.Probes)), plan: &plan.Plan{Owner: p.Owner}}
	if len(q.Specs) == 0 {
		for i, probe := range p.Probes {
			a.add(i, &answer{probe: probe, asIs: true})
		}
	}
	var errs []error
	for _, spec := range q.Specs {
		errs = append(errs, a.ask(spec, view, q.Arch))
	}
	return a, errors.Join(errs...)
}

// Plan returns the plan that the answer's records belong to.
func (a *Answer) Plan() *plan.Plan { return a.plan }

// Notes returns what is left out though the SPECs select it.
func (a *Answer) Notes() []Note { return a.notes }

// Pairs reports whether both records of a call come from one, so that they belong together.
func (a *Answer) Pairs() bool { return a.pairs }

// Counts returns what was counted so far.
func (a *Answer) Counts() Counts { return a.counts }

// add adds an answer that is made of the records of recorded probe i.
func (a *Answer) add(i int, ans *answer) {
	probe := *ans.probe
	probe.ID = len(a.plan.Probes)
	ans.probe, ans.id = &probe, uint32(probe.ID)
	a.plan.Probes = append(a.plan.Probes, ans.probe)
	a.answers[i] = append(a.answers[i], ans)
}

// ask adds the answers to one SPEC. A function that was recorded for several SPECs is answered
// from the first of these that has what is asked for. Without parentheses nothing in particular
// is asked for, and all that was recorded is shown.
func (a *Answer) ask(spec *expr.Spec, view *kernel.View, arch string) error {
	selected, err := selects(a.recorded, spec, view)
	if err != nil {
		return err
	}
	answered := map[target]bool{}
	var refused []refusal
	for _, i := range selected {
		was := a.recorded.Probes[i]
		if !spec.Parens {
			a.add(i, &answer{probe: was, asIs: true})
			answered[targetOf(was)] = true
			continue
		}
		if answered[targetOf(was)] {
			a.notes = append(a.notes, Note{was.Name, errors.New("it was recorded for several SPECs; the answer is from the first that has the values, not from " + was.Spec.Text)})
			continue
		}
		r := newRecording(was, view, arch)
		probe, err := r.resolve(spec)
		if err == nil {
			ans, faults := r.newAnswer(probe)
			if len(faults) == 0 {
				a.pairs = a.pairs || !r.entry && ans.entry != nil && ans.ret != nil
				a.add(i, ans)
				answered[targetOf(was)] = true
				continue
			}
			err = &expr.ErrorList{Text: spec.Text, Errors: faults}
		}
		refused = append(refused, refusal{was, ofRecording(err)})
	}
	if len(answered) == 0 {
		return refused[0].err
	}
	for _, r := range refused {
		if !answered[targetOf(r.probe)] {
			a.notes = append(a.notes, Note{r.probe.Name, r.err})
		}
	}
	return nil
}

type refusal struct {
	probe *plan.Probe
	err   error
}

// Records yields the answer's records. A record is valid until the next one is yielded.
func (a *Answer) Records(records iter.Seq2[[]byte, error]) iter.Seq2[[]byte, error] {
	a.summing.begin(a.plan)
	return func(yield func([]byte, error) bool) {
		more := true
		put := func(raw []byte, e *event.Event) bool {
			more = more && (!a.span.has(e.Time) || yield(raw, nil))
			return more
		}
		var j calls.Joiner
		for call, err := range j.Join(a.entries(records, put)) {
			if err != nil {
				yield(nil, err)
				break
			}
			if !more || call.Return != nil && call.End != calls.Gap && !a.returned(call, put) {
				break
			}
		}
		a.counts.Evicted = j.Counts().Evicted
	}
}

// A sink takes a record; e has its time. It returns false if no more are wanted.
type sink func(raw []byte, e *event.Event) bool

// entries decodes records and passes them on to be joined. What is asked of entries is put at
// once, as it was sent.
func (a *Answer) entries(records iter.Seq2[[]byte, error], put sink) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		var e event.Event
		for raw, err := range records {
			if err == nil {
				err = event.Decode(a.recorded, raw, &e)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			a.span.begin(&a.filter.Range, e.Time)
			a.summing.seen(e.Time)
			switch {
			case e.Kind == bpf.KindLost:
				if !put(raw, &e) {
					return
				}
				continue
			case e.Kind == bpf.KindEntry && !a.entered(&e, put):
				return
			}
			if !yield(&e, nil) {
				return
			}
		}
	}
}

func (a *Answer) passes(e *event.Event) bool {
	return a.filter.passes(e.PID, e.TID, e.Inner, e.Comm[:], e.Owner)
}

// entered puts what is asked of an entry.
func (a *Answer) entered(e *event.Event, put sink) bool {
	if !a.passes(e) {
		return true
	}
	for _, ans := range a.answers[e.Probe.ID] {
		switch {
		case ans.asIs:
			if !put(ans.pass(e), e) {
				return false
			}
		case len(ans.sums) > 0 && !ans.late:
			ans.machine.reset(e, nil)
			if a.hold(ans, ans.atEntry, true) {
				a.addUp(ans, e)
			}
		case ans.entry != nil:
			ans.machine.reset(e, nil)
			if a.hold(ans, ans.atEntry, true) && !a.put(ans, ans.entry, bpf.KindEntry, e, put) {
				return false
			}
		}
	}
	return true
}

// returned puts what is asked of a call that has returned. Its entry may have a record of its
// own or, if there is none, be told by the record of return.
func (a *Answer) returned(c *calls.Call, put sink) bool {
	e := c.Return
	decisive := e // its task is the one that the filter is for
	if c.Entry != nil {
		decisive = c.Entry
	}
	if !a.passes(decisive) {
		return true
	}
	for _, ans := range a.answers[e.Probe.ID] {
		ok := true
		switch {
		case ans.asIs:
			ok = put(ans.pass(e), e)
		case len(ans.sums) > 0:
			a.sumReturned(ans, c)
		case c.End == calls.Whole:
			ans.machine.reset(nil, e)
			ok = a.whole(ans, e, put)
		default:
			ans.machine.reset(c.Entry, e)
			ok = a.joined(ans, c, put)
		}
		if !ok {
			return false
		}
	}
	return true
}

// sumReturned adds up a call that has returned.
func (a *Answer) sumReturned(ans *answer, c *calls.Call) {
	switch {
	case !ans.late:
		return
	case c.End == calls.Whole:
		ans.machine.reset(nil, c.Return)
	case c.Entry == nil && ans.probe.Stashed:
		a.counts.NoEntry++
		return
	default:
		ans.machine.reset(c.Entry, c.Return)
	}
	if a.hold(ans, ans.atEntry, true) && a.hold(ans, ans.atReturn, true) {
		a.addUp(ans, c.Return)
	}
}

// whole puts the records of a call that was recorded as one.
func (a *Answer) whole(ans *answer, e *event.Event, put sink) bool {
	if !a.hold(ans, ans.atEntry, true) || !a.hold(ans, ans.atReturn, true) {
		return true
	}
	if ans.probe.Joined {
		return a.put(ans, ans.ret, bpf.KindCall, e, put)
	}
	if ans.entry != nil && !a.put(ans, ans.entry, bpf.KindEntry, e, put) {
		return false
	}
	return ans.ret == nil || a.put(ans, ans.ret, bpf.KindReturn, e, put)
}

// joined puts what is sent at the return of a call that was recorded at both ends. The entry
// may be missing: the call began before the run, or the record was lost.
func (a *Answer) joined(ans *answer, c *calls.Call, put sink) bool {
	if ans.ret == nil {
		return true
	}
	kind := bpf.KindReturn
	if ans.probe.Joined {
		kind = bpf.KindCall
	}
	if c.Entry == nil && (ans.probe.Joined || ans.probe.Stashed) {
		a.counts.NoEntry++
		return true
	}
	// Faults of predicates of entry were counted then, if it had a record.
	if !a.hold(ans, ans.atEntry, ans.entry == nil) || !a.hold(ans, ans.atReturn, true) {
		return true
	}
	return a.put(ans, ans.ret, kind, c.Return, put)
}

// hold reports whether predicates hold for the machine's call, and counts why not.
func (a *Answer) hold(ans *answer, predicates []expr.Term, count bool) bool {
	v := ans.decide(predicates)
	if count {
		switch v {
		case faulted:
			a.counts.Faults++
		case unknown:
			a.counts.Unsure++
		}
	}
	return v == holds
}

// put makes a record and puts it.
func (a *Answer) put(ans *answer, h *half, kind bpf.Kind, head *event.Event, put sink) bool {
	raw, unsure := ans.make(h, kind, head)
	if unsure {
		a.counts.Partial++
	}
	return put(raw, head)
}

// A target is what a probe is on.
type target struct {
	name, module string
	addr, offset uint64
	kind         expr.Kind
}

func targetOf(p *plan.Probe) target {
	name := p.Name
	if p.Kind == expr.UserFunction { // whose name tells SPECs of calls from SPECs of returns
		name = p.Hook.File + ":" + p.Hook.Name
	}
	return target{name, p.Func.Module, p.Func.Addr, p.Hook.Offset, p.Kind}
}

// selects returns the numbers of the probes that a SPEC's selector selects.
func selects(p *plan.Plan, spec *expr.Spec, view *kernel.View) ([]int, error) {
	of, err := plan.Selecting(view, spec.Selector)
	if err != nil {
		return nil, &expr.ErrorList{Text: spec.Text, Errors: []*expr.Error{notRecorded(spec.Selector.Span, "", "%v", err)}}
	}
	var found []int
	var names []string
	for i, probe := range p.Probes {
		if of(probe) {
			found = append(found, i)
		}
		names = append(names, probe.Name)
	}
	if len(found) == 0 {
		slices.Sort(names)
		names = slices.Compact(names)
		return nil, &expr.ErrorList{Text: spec.Text, Errors: []*expr.Error{
			notRecorded(spec.Selector.Span, recordedHint(spec.Selector, names), "no calls of %s were recorded", spec.Selector)}}
	}
	return found, nil
}

// maxNames is how many recorded functions a hint lists.
const maxNames = 4

// recordedHint says which function may have been meant.
func recordedHint(sel expr.Selector, names []string) string {
	if near := suggest.Hint(sel.String(), slices.Values(names)); near != "" {
		return near
	}
	more := ""
	if len(names) > maxNames {
		names, more = names[:maxNames], ", ..."
	}
	return "recorded are " + strings.Join(names, ", ") + more
}
