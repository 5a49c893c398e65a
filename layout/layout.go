// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
)

// Lay fills in Entry, Return, Joined, Stashed and Timed, and gives every value its slot. It
// may be called again after a change of Method. A non-nil error is an *expr.ErrorList.
//
// There are two shapes. If an item is decided at return, or combines values of return with
// values that only entry can read, a call is one record: entry stores its part in the
// stash, and return completes and sends it. If not, entry and return each send a record as
// they happen.
func (p *Probe) Lay() error {
	p.Entry, p.Return, p.Stashed, p.Timed = nil, nil, false, p.wantsDuration()
	switch p.Role {
	case RoleInjectedReturn:
		return p.layReturn()
	case RoleEntry, RoleInside:
		return p.laySession()
	}
	if p.Aggregates() {
		return p.layAggregations()
	}
	p.Joined = p.decidedAtReturn() || p.Path()
	if !p.Joined {
		return p.laySplit()
	}
	err := p.layJoined()
	if p.Path() && p.Entry == nil { // where the way begins
		p.Entry, p.Stashed = &Half{}, true
	}
	return err
}

// laySession lays out a record that stays with the call while it is in flight. Both halves
// always exist: a session follows all of its calls, whatever items they have.
func (p *Probe) laySession() error {
	p.Joined = true
	err := p.layJoined()
	p.Stashed = true
	if p.Entry == nil {
		p.Entry = &Half{}
	}
	return err
}

// decidedAtReturn reports whether a call must be one record: see Lay.
func (p *Probe) decidedAtReturn() bool {
	return slices.ContainsFunc(p.Items, func(it expr.Item) bool {
		return it.Predicate != nil && it.Phase == expr.AtReturn ||
			slices.ContainsFunc(it.Captures, func(c expr.Capture) bool {
				return c.After != nil || p.AboutReturns() && c.Phase() == expr.AtEntry || p.keepsFor(c.Value) || p.keepsFor(c.Target)
			})
	})
}

// keepsFor reports whether t is computed at return from something that must be read at
// entry.
func (p *Probe) keepsFor(t expr.Term) bool {
	return t != nil && expr.PhaseOf(t) == expr.AtReturn &&
		slices.ContainsFunc(entryParts(t), func(x *expr.Term) bool { return !p.Method.argsAtReturn() || !fixed(*x) })
}

// wantsDuration reports whether any item mentions $duration.
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

// terms yields every predicate, every captured term, and all that is added up.
func (p *Probe) terms() func(yield func(expr.Term) bool) {
	return func(yield func(expr.Term) bool) {
		for _, it := range p.Items {
			if it.Predicate != nil && !yield(it.Predicate) {
				return
			}
			captures := it.Captures
			if g := it.Aggregation; g != nil {
				captures = g.Keys
				if g.Value != nil && !yield(g.Value) {
					return
				}
			}
			for _, c := range captures {
				if c.Value != nil && !yield(c.Value) || c.Target != nil && !yield(c.Target) {
					return
				}
			}
		}
	}
}

// layJoined lays out one record for the whole call.
func (p *Probe) layJoined() error {
	entry, ret := &Half{}, &Half{Record: p.newRecord()}
	l := &allocator{rec: ret.Record, method: p.Method, entry: entry}
	first := entry // the half that does what belongs to entry
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

// newRecord returns the layout of a record without values. Only calls that are sent have an
// owner of their own: that of a session is in its header.
func (p *Probe) newRecord() *Record {
	if p.Owner == 0 || p.Role != RoleCall {
		return &Record{}
	}
	return &Record{Size: OwnerSize}
}

// allAtReturn reports whether return can do everything, so that entry needs no program.
// This takes a method that still shows the arguments at return, and items that read no
// memory at entry.
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

// laySplit lays out one record for the entry and one for the return.
func (p *Probe) laySplit() error {
	entry, ret := &Half{Record: p.newRecord()}, &Half{Record: p.newRecord()}
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
	if len(ret.Stores) == 0 && !(everything && p.returnsVoid()) && !p.AboutReturns() {
		p.Return = nil
		return p.check(le)
	}
	sendsEntry := (captures == 0 || len(entry.Stores) > 0 || everything) && !p.AboutReturns()
	switch {
	case p.Paired && sendsEntry:
		p.Stashed = true
	case !p.Timed && len(entry.Predicates) == 0:
	case !p.Timed && p.Method.argsAtReturn() && allFixed(entry.Predicates):
		ret.Predicates = entry.Predicates // they give the same answer at return
	default:
		p.Stashed = true
	}
	switch {
	case !sendsEntry:
		entry.Record = nil
		if !p.Stashed {
			p.Entry = nil
		}
	case p.Placed:
		entry.place(p.Owner)
		ret.place(p.Owner)
	}
	if err := p.check(le); err != nil {
		return err
	}
	return p.check(lr)
}

// place makes room for the place of the call in front of the values.
func (h *Half) place(o Owner) {
	h.Record.Placed = true
	if o != 0 {
		h.Record.Place = OwnerSize
	}
	h.Record.Size += PlaceSize
	for _, slots := range [][]Slot{h.Record.Slots, h.Stores} {
		for i := range slots {
			slots[i].Off += PlaceSize
		}
	}
}

// Everything reports whether the SPEC has no parentheses and so asks for the whole call.
// Both ends are then sent, even if they have no values to show.
func (p *Probe) Everything() bool {
	return p.Spec != nil && !p.Spec.Parens && p.Role == RoleCall && p.Returns()
}

// AboutReturns reports whether the SPEC is about returns alone (uretprobe:).
func (p *Probe) AboutReturns() bool { return p.Spec != nil && p.Spec.Selector.Return }

// returnsVoid reports whether the function returns, but without a value.
func (p *Probe) returnsVoid() bool {
	return p.Result == nil && !slices.Contains(noReturn, p.Function)
}

// noReturn lists void functions that never return, from noreturn_deny in
// kernel/bpf/verifier.c, which refuses return programs on them. The list may be incomplete:
// a function that is missing here just never sends a return.
var noReturn = []string{"__kunit_abort", "kunit_try_catch_throw", "__module_put_and_kthread_exit", "do_exit", "do_group_exit",
	"kthread_complete_and_exit", "kthread_exit", "make_task_dead"}

// fixed reports whether t has the same value at return as at entry. It does if it depends
// only on arguments and on what never changes for a task.
func fixed(t expr.Term) bool {
	return momentary(t) || !expr.ReadsMemory(t) && expr.Walk(t, func(t expr.Term) bool {
		switch t := t.(type) {
		case *expr.ContextTerm:
			return t.Var == expr.ContextPID // and not $tid: a thread that executes a program gets the number of the process
		case *expr.Match, *expr.Text: // $comm: exec changes it
			return false
		}
		return true
	})
}

// momentary reports whether t is $func, $stack or $ustack, which belong to the moment at which a
// call is added up.
func momentary(t expr.Term) bool {
	c, ok := t.(*expr.ContextTerm)
	return ok && (c.Var == expr.ContextFunc || c.Var == expr.ContextStack || c.Var == expr.ContextUserStack)
}

func allFixed(preds []Predicate) bool {
	return !slices.ContainsFunc(preds, func(p Predicate) bool { return !fixed(p.Term) })
}

// entryParts returns the largest subterms of t, a term of return, that entry can compute.
// Constants are not among them.
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

// sortPredicates puts cheap predicates first. Items cannot observe the order: all of them
// must hold, and predicates have no side effects.
func sortPredicates(h *Half) {
	slices.SortStableFunc(h.Predicates, func(a, b Predicate) int {
		return cost(a.Term) - cost(b.Term)
	})
}

// cost estimates what computing t takes. The numbers only order predicates: memory reads
// are dear, comparisons of strings dearer.
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

// An allocator assigns the slots of one record.
type allocator struct {
	rec    *Record
	method Method
	entry  *Half // the half that computes what is kept for return
}

// add appends s to the record, at an offset that is a multiple of 8.
func (l *allocator) add(s Slot) Slot {
	s.Index, s.Off = len(l.rec.Slots), l.rec.Size
	l.rec.Size += (s.Size + 7) &^ 7
	l.rec.Slots = append(l.rec.Slots, s)
	return s
}

// capture assigns the slots of one capture: its value, its target, or both. part is
// PartTarget, or PartAfter for the second half of diff(x).
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

// targetSize returns how many bytes a target takes in a record. A string behind a pointer
// takes one more than is shown: the copying helpers return the same length for a string
// that just fits and for one that was cut, and the extra byte tells them apart.
func targetSize(t expr.Term) uint32 {
	switch t := t.(type) {
	case *expr.Text:
		if t.Terminated() {
			return t.Max + 1
		}
		return t.Max
	case *expr.Buffer:
		return t.Max + 8 // the length comes first
	}
	size, err := btf.Sizeof(t.Type())
	if err != nil || size < 0 {
		return 0
	}
	return uint32(min(size, MaxObject))
}

// keep replaces those subterms of t, a term of return, that entry must compute. In their
// place it puts loads of the slots in which entry keeps them.
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

// kept gives a scalar of entry a slot and returns the term that loads it. One item shares
// the slot of equal terms.
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

// check returns a fault of the SPEC, at the item that is to blame, if a record exceeds a limit
// or would keep a value that is withheld.
func (p *Probe) check(l *allocator) error {
	for _, s := range l.rec.Slots {
		it := &p.Items[s.Item]
		if s.Part == PartKept && slices.ContainsFunc(it.Captures, func(c expr.Capture) bool { return c.Withheld != nil }) {
			return &expr.ErrorList{Text: p.Spec.Text, Errors: []*expr.Error{{Code: expr.CodeUnsupported, Span: it.Pos,
				Msg: "a value of this is redacted, and its record keeps it until the call returns", Hint: "leave this comparison out, or do not redact the value"}}}
		}
	}
	over := slices.IndexFunc(l.rec.Slots, func(s Slot) bool { return s.Off+s.Size > MaxRecord })
	msg := fmt.Sprintf("a record of %d bytes is larger than the limit of %d", l.rec.Size, MaxRecord)
	if len(l.rec.Slots) > maxSlots && (over < 0 || over > maxSlots) {
		over, msg = maxSlots, fmt.Sprintf("a record of %d values has more than the limit of %d", len(l.rec.Slots), maxSlots)
	}
	if over < 0 {
		return nil
	}
	return &expr.ErrorList{Text: p.Spec.Text, Errors: []*expr.Error{{Code: expr.CodeLimit, Span: p.Items[l.rec.Slots[over].Item].Pos,
		Msg: msg + ", which is exceeded here", Hint: "ask for fewer or smaller values"}}}
}

// layReturn lays out the record of a probe that only sees returns (kretprobe:). It refuses
// items that need the arguments, which are gone by then.
func (p *Probe) layReturn() error {
	l := &allocator{rec: &Record{}, method: p.Method}
	half := &Half{Record: l.rec}
	p.Return = half
	late := func(t expr.Term) bool { return t == nil || expr.Walk(t, func(t expr.Term) bool { return !isParam(t) }) }
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
			case p.Spec.Parens: // without them nobody named the argument: it is left out
				return p.notAtReturn()
			}
		}
	}
	return p.check(l)
}

// isParam reports whether t itself is what a parameter was passed as, a number or an aggregate by value.
func isParam(t expr.Term) bool {
	switch t := t.(type) {
	case *expr.Arg:
		return true
	case *expr.Object:
		return t.Addr == nil && t.Arg >= 0
	}
	return false
}

func (p *Probe) notAtReturn() error {
	return &expr.ErrorList{Text: p.Spec.Text, Errors: []*expr.Error{{Code: expr.CodeUnsupported, Span: p.Spec.Selector.Span,
		Msg:  "when the function returns, what it was called with is gone: ask for return",
		Hint: "give the function as a SPEC of its own, without kretprobe:"}}}
}
