// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
)

// Lay decides what is done at entry and what at return, and gives every
// value its slot. There are two shapes. If an item is decided at return, or is
// computed then from what only entry can read, a call is one record: what
// entry reads is stashed and completed at return. If not, entry and return are
// sent separately as they happen.
func (p *Probe) Lay() error {
	p.Entry, p.Return, p.Stashed, p.Timed = nil, nil, false, p.wantsDuration()
	switch p.Role {
	case RoleInjectedReturn:
		return p.layReturn()
	case RoleEntry, RoleInside:
		return p.laySession()
	}
	p.Joined = p.decidedAtReturn()
	if p.Joined {
		return p.layJoined()
	}
	return p.laySplit()
}

// laySession lays out a record that stays with the call while it is in
// flight. Both halves are always there: a session follows its calls.
func (p *Probe) laySession() error {
	p.Joined = true
	err := p.layJoined()
	p.Stashed = true
	if p.Entry == nil {
		p.Entry = &Half{}
	}
	return err
}

func (p *Probe) decidedAtReturn() bool {
	return slices.ContainsFunc(p.Items, func(it expr.Item) bool {
		return it.Predicate != nil && it.Phase == expr.AtReturn ||
			slices.ContainsFunc(it.Captures, func(c expr.Capture) bool { return c.After != nil || p.keepsFor(c.Value) || p.keepsFor(c.Target) })
	})
}

// keepsFor reports whether t is computed at return from something that has to
// be read at entry.
func (p *Probe) keepsFor(t expr.Term) bool {
	return t != nil && expr.PhaseOf(t) == expr.AtReturn &&
		slices.ContainsFunc(entryParts(t), func(x *expr.Term) bool { return !p.Method.argsAtReturn() || !fixed(*x) })
}

func (p *Probe) wantsDuration() bool {
	wants := false
	for t := range p.terms() {
		wants = wants || !expr.Walk(t, func(t expr.Term) bool {
			c, ok := t.(*expr.ContextTerm)
			return !ok || c.Var != expr.ContextDuration
		})
	}
	return wants
}

// terms yields every predicate and every captured term.
func (p *Probe) terms() func(yield func(expr.Term) bool) {
	return func(yield func(expr.Term) bool) {
		for _, it := range p.Items {
			if it.Predicate != nil && !yield(it.Predicate) {
				return
			}
			for _, c := range it.Captures {
				if c.Value != nil && !yield(c.Value) || c.Target != nil && !yield(c.Target) {
					return
				}
			}
		}
	}
}

func (p *Probe) layJoined() error {
	entry, ret := &Half{}, &Half{Record: &Record{}}
	l := &allocator{rec: ret.Record, method: p.Method, entry: entry}
	first := entry // where what belongs to entry is done
	if p.Role == RoleCall && p.allAtReturn() {
		first = ret
	}
	for i, it := range p.Items {
		if it.Predicate != nil {
			half, pred := first, it.Predicate
			if it.Phase == expr.AtReturn {
				half, pred = ret, l.keep(pred, i)
			}
			half.Predicates = append(half.Predicates, Predicate{pred, i})
		}
		for j := range it.Captures {
			c := &it.Captures[j]
			half := first
			if c.Phase() == expr.AtReturn {
				half = ret
			}
			half.Stores = append(half.Stores, l.capture(i, j, c, PartTarget)...)
			if c.After != nil {
				ret.Stores = append(ret.Stores, l.capture(i, j, c.After, PartAfter)...)
			}
		}
	}
	sortPredicates(entry)
	sortPredicates(ret)
	p.Return = ret
	if p.Timed || len(entry.Predicates)+len(entry.Stores) > 0 {
		p.Entry, p.Stashed = entry, true
	}
	return p.check(l)
}

// allAtReturn reports whether everything can be done at return, without
// anything from entry.
func (p *Probe) allAtReturn() bool {
	if !p.Method.argsAtReturn() || p.Timed {
		return false
	}
	for t := range p.terms() {
		if expr.PhaseOf(t) == expr.AtEntry && !fixed(t) || p.keepsFor(t) {
			return false
		}
	}
	return true
}

func (p *Probe) laySplit() error {
	entry, ret := &Half{Record: &Record{}}, &Half{Record: &Record{}}
	le, lr := &allocator{rec: entry.Record, method: p.Method}, &allocator{rec: ret.Record, method: p.Method}
	captures := 0
	for i, it := range p.Items {
		if it.Predicate != nil {
			entry.Predicates = append(entry.Predicates, Predicate{it.Predicate, i})
		}
		for j := range it.Captures {
			c := &it.Captures[j]
			captures++
			if c.Phase() == expr.AtReturn {
				ret.Stores = append(ret.Stores, lr.capture(i, j, c, PartTarget)...)
			} else {
				entry.Stores = append(entry.Stores, le.capture(i, j, c, PartTarget)...)
			}
		}
	}
	sortPredicates(entry)
	p.Entry, p.Return = entry, ret
	everything := p.Everything()
	if len(ret.Stores) == 0 && !(everything && p.returnsVoid()) {
		p.Return = nil
		return p.check(le)
	}
	sendsEntry := captures == 0 || len(entry.Stores) > 0 || everything
	switch {
	case p.Paired && sendsEntry:
		p.Stashed = true
	case !p.Timed && len(entry.Predicates) == 0:
	case !p.Timed && p.Method.argsAtReturn() && allFixed(entry.Predicates):
		ret.Predicates = entry.Predicates // they hold at return as they did at entry
	default:
		p.Stashed = true
	}
	if !sendsEntry {
		entry.Record = nil
		if !p.Stashed {
			p.Entry = nil
		}
	}
	if err := p.check(le); err != nil {
		return err
	}
	return p.check(lr)
}

// Everything reports whether a call is asked for with all that it is called with
// and returns. Both its ends are sent then, be there any values or not.
func (p *Probe) Everything() bool {
	return p.Spec != nil && !p.Spec.Parens && p.Role == RoleCall && p.IsCall()
}

// returnsVoid reports whether the function returns, and returns nothing.
func (p *Probe) returnsVoid() bool {
	return p.Result == nil && !slices.Contains(noReturn, p.Function)
}

// noReturn are functions that return nothing because they do not return: those
// of void in noreturn_deny of kernel/bpf/verifier.c, which refuses programs at
// their end. The list need not be whole: of others no return will come.
var noReturn = []string{"__kunit_abort", "kunit_try_catch_throw", "__module_put_and_kthread_exit", "do_exit", "do_group_exit",
	"kthread_complete_and_exit", "kthread_exit", "make_task_dead"}

// fixed reports whether t has the same value at return as at entry: nothing
// but arguments and what a task keeps for life.
func fixed(t expr.Term) bool {
	return !expr.ReadsMemory(t) && expr.Walk(t, func(t expr.Term) bool {
		switch t := t.(type) {
		case *expr.ContextTerm:
			return t.Var == expr.ContextPID || t.Var == expr.ContextTID
		case *expr.Match, *expr.Text: // $comm, which exec changes
			return false
		}
		return true
	})
}

func allFixed(preds []Predicate) bool {
	return !slices.ContainsFunc(preds, func(p Predicate) bool { return !fixed(p.Term) })
}

// entryParts returns the largest parts of a term of return that are computed
// at entry: not constant, and nothing of return in them.
func entryParts(t expr.Term) []*expr.Term {
	var parts []*expr.Term
	for _, x := range expr.Operands(t) {
		if _, constant := (*x).(*expr.Const); constant {
			continue
		}
		if expr.PhaseOf(*x) == expr.AtReturn {
			parts = append(parts, entryParts(*x)...)
			continue
		}
		parts = append(parts, x)
	}
	return parts
}

// sortPredicates puts those that read no memory first. No item can observe the
// order: a predicate that is not reached cannot have held.
func sortPredicates(h *Half) {
	slices.SortStableFunc(h.Predicates, func(a, b Predicate) int {
		return cost(a.Term) - cost(b.Term)
	})
}

func cost(t expr.Term) int {
	n := 0
	expr.Walk(t, func(t expr.Term) bool {
		switch t.(type) {
		case *expr.Load:
			n += 10
		case *expr.Match, *expr.Buffer:
			n += 100
		case *expr.ContextTerm:
			n += 5
		case *expr.Kept:
			n += 4
		}
		return true
	})
	return n
}

// An allocator hands out the slots of one record.
type allocator struct {
	rec    *Record
	method Method
	entry  *Half // which stores what is kept for return
}

func (l *allocator) add(s Slot) Slot {
	s.Index, s.Off = len(l.rec.Slots), l.rec.Size
	l.rec.Size += (s.Size + 7) &^ 7
	l.rec.Slots = append(l.rec.Slots, s)
	return s
}

// capture gives a capture its slots. part is that of the target: PartTarget,
// or PartAfter for the second half of a diff.
func (l *allocator) capture(item, index int, c *expr.Capture, part Part) []Slot {
	var slots []Slot
	add := func(t expr.Term, size uint32, part Part) {
		if expr.PhaseOf(t) == expr.AtReturn {
			t = l.keep(t, item)
		}
		slots = append(slots, l.add(Slot{Term: t, Size: size, Item: item, Capture: index, Part: part}))
	}
	if c.Value != nil {
		valuePart := PartValue
		if part == PartAfter {
			valuePart = PartAfter
		}
		add(c.Value, 8, valuePart)
	}
	if c.Target != nil {
		add(c.Target, targetSize(c.Target), part)
	}
	return slots
}

// targetSize returns how many bytes a target takes in a record. A string behind
// a pointer has one more than is shown of it: the helpers that copy it return
// the same for one that just fits as for one that was cut.
func targetSize(t expr.Term) uint32 {
	switch t := t.(type) {
	case *expr.Text:
		if t.Terminated() {
			return t.Max + 1
		}
		return t.Max
	case *expr.Buffer:
		return t.Max + 8 // preceded by its length
	}
	size, err := btf.Sizeof(t.Type())
	if err != nil || size < 0 {
		return 0
	}
	return uint32(min(size, MaxObject))
}

// keep replaces the parts of a term of return that are computed at entry by
// the slots in which they are kept, unless they are the same at return.
func (l *allocator) keep(t expr.Term, item int) expr.Term {
	t = expr.Clone(t)
	for _, x := range entryParts(t) {
		if l.method.argsAtReturn() && fixed(*x) {
			continue
		}
		*x = l.kept(*x, item)
	}
	return t
}

// kept stores a scalar at entry and returns the term that loads it. What one item
// needs more than once is kept once.
func (l *allocator) kept(t expr.Term, item int) expr.Term {
	for _, s := range l.entry.Stores {
		if s.Part == PartKept && s.Item == item && expr.Same(s.Term, t) {
			return &expr.Kept{T: t.Type(), Slot: s.Index}
		}
	}
	s := l.add(Slot{Term: t, Size: 8, Item: item, Capture: -1, Part: PartKept})
	l.entry.Stores = append(l.entry.Stores, s)
	return &expr.Kept{T: t.Type(), Slot: s.Index}
}

// check returns a fault of the SPEC if a record holds too much.
func (p *Probe) check(l *allocator) error {
	over := slices.IndexFunc(l.rec.Slots, func(s Slot) bool { return s.Off+s.Size > MaxRecord })
	msg := fmt.Sprintf("a record of %d bytes is larger than the limit of %d", l.rec.Size, MaxRecord)
	if len(l.rec.Slots) > MaxSlots && (over < 0 || over > MaxSlots) {
		over, msg = MaxSlots, fmt.Sprintf("a record of %d values has more than the limit of %d", len(l.rec.Slots), MaxSlots)
	}
	if over < 0 {
		return nil
	}
	return &expr.ErrorList{Text: p.Spec.Text, Errors: []*expr.Error{{Code: expr.CodeLimit, Span: p.Items[l.rec.Slots[over].Item].Pos,
		Msg: msg + ", which is exceeded here", Hint: "ask for fewer or smaller values"}}}
}

// layReturn lays out what is captured when a function returns by a probe
// that has not seen the call.
func (p *Probe) layReturn() error {
	l := &allocator{rec: &Record{}, method: p.Method}
	half := &Half{Record: l.rec}
	p.Return = half
	late := func(t expr.Term) bool {
		return t == nil || expr.Walk(t, func(t expr.Term) bool {
			_, arg := t.(*expr.Arg)
			return !arg
		})
	}
	if p.Timed {
		return p.notAtReturn()
	}
	for i, it := range p.Items {
		if it.Predicate != nil {
			if !late(it.Predicate) {
				return p.notAtReturn()
			}
			half.Predicates = append(half.Predicates, Predicate{it.Predicate, i})
		}
		for j := range it.Captures {
			c := &it.Captures[j]
			switch {
			case late(c.Value) && late(c.Target) && c.After == nil:
				half.Stores = append(half.Stores, l.capture(i, j, c, PartTarget)...)
			case p.Spec.Parens: // else it is one of all arguments
				return p.notAtReturn()
			}
		}
	}
	return p.check(l)
}

func (p *Probe) notAtReturn() error {
	return &expr.ErrorList{Text: p.Spec.Text, Errors: []*expr.Error{{Code: expr.CodeUnsupported, Span: p.Spec.Selector.Span,
		Msg:  "when the function returns, what it was called with is gone: ask for return",
		Hint: "give the function as a SPEC of its own, without kretprobe:"}}}
}
