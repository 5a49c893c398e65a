// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"cmp"
	"slices"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// A Verdict is what decided that a call failed.
type Verdict struct {
	// Error is the error, as a negative number; 0 if it is only known that there was one.
	Error int32
	// Decision is the decision that led to it, by its index in Path.Decisions; -1 if there is
	// none or it is not known.
	Decision int
	// Holds is what held then, with the values: "attr->key_size (3) != 4". Needed is its opposite.
	// They are "" if the condition has no name.
	Holds, Needed string
	// Several says that what was compared was compared with other constants before, as by a
	// switch: one of those may have done as well.
	Several bool
	// Or are other names for what Holds names: members of a union that are at the same place.
	Or []string
	// Called is the function that returned the error; "" if the function itself made it, or
	// that is not known.
	Called string
	// Indirect says that a function returned it that was called through a pointer.
	Indirect bool
	// From is the function whose result the error is, as it was returned or as the decision tested it; for a
	// call through a pointer, the instruction that called it. 0: there is none, or it is not known.
	From uint64
	// Lines is where the decision is in the source, innermost inlined call first, and Text the
	// first of these lines. They are missing if that is not known.
	Lines []plan.Line
	Text  string
	// Unsure says that it is not known what decided.
	Unsure bool
	// Later is the decision that could only have forgiven the error, which was there before; nil if there is none.
	Later *Verdict
	// Chosen is the instruction that made the error without a jump; 0 if there is none.
	Chosen uint64
}

// Of returns what decided that a call failed, from its way. ok is false if it did not fail, or
// nobody knows whether it did.
func Of(e *event.Event, path *event.Path) (v Verdict, ok bool) {
	v.Decision = -1
	p := e.Probe
	if p.Way == nil || path.Way == nil || path.Missing > 0 || path.Way.Broken > 0 {
		return v, false
	}
	told, failed := resultOf(e)
	walk := p.Way.Code.Walk(p.Way.Graph(), p.Way.Sites(), path.Hits, p.Way.Callees, told == 0 && asksNull(p.Return))
	r := walk.Returned
	if told == 0 && r != nil {
		told = errorOf(r, walk, path, &p.Func)
		failed = failed || told != 0
	}
	switch {
	case !failed:
		return v, false
	case r != nil && r.Kind == code.Constant && told != 0 && int32(r.N) != told:
		v.Unsure = true // the code says something else: it was not understood
		v.Error = told
		return v, true
	}
	v.Error, v.Unsure = told, walk.Unsure
	if r == nil {
		return v, true
	}
	switch r.Kind {
	case code.Result:
		if f := p.Way.Callees.At(r.Target); f != nil && r.Target != 0 {
			v.Called = f.Name
		}
		v.Indirect = r.Target == 0
		v.From = cmp.Or(r.Target, r.From)
	case code.Opaque:
		if f := p.Way.Callees.At(r.Target); f != nil && r.Target != 0 {
			v.Called, v.From = f.Name, r.Target
		}
	case code.Chosen:
		v.Chosen, v.Unsure = r.From, false
		v.source(p.Way.Note(r.From))
		return v, true
	}
	if walk.Deciding == code.None || v.Unsure {
		return v, true
	}
	for i := range path.Decisions {
		if path.Decisions[i].Hit == walk.Deciding {
			v.Decision = i
		}
	}
	if hit := failedAt(path, walk); v.Decision >= 0 && hit != code.None {
		later := Verdict{Error: v.Error, Decision: v.Decision}
		later.condition(p, &path.Decisions[v.Decision], walk, walk.Deciding)
		v.Later, walk.Deciding = &later, hit
		v.Decision = slices.IndexFunc(path.Decisions, func(d event.Decision) bool { return d.Hit == hit })
	}
	if v.Decision >= 0 {
		d := &path.Decisions[v.Decision]
		v.condition(p, d, walk, walk.Deciding)
		if c := walk.Conditions[walk.Deciding]; c != nil && r.Kind == code.Constant {
			v.From = tested(&c.Comparison, d, v.Error)
		}
	}
	return v, true
}

// failedAt returns the hit on the decision that has found an error which a later one could only have forgiven; None if there is none.
func failedAt(path *event.Path, walk *code.Walk) int {
	return walk.Failed(func(hit int) bool {
		i := slices.IndexFunc(path.Decisions, func(d event.Decision) bool { return d.Hit == hit })
		c := walk.Conditions[hit]
		if i < 0 || c.Size < 4 || c.Common || c.Computed || c.Left.Operand == code.None {
			return false
		}
		d, o := &path.Decisions[i], c.Left.Operand
		return o < len(d.Values) && !d.Unreadable[o] && asError(d.Values[o]) != 0
	})
}

// tested returns whose result a decision has compared, as Verdict.From, if that was the error; else 0.
func tested(c *code.Comparison, d *event.Decision, failed int32) uint64 {
	r, i := c.Left.Value, c.Left.Operand
	if r == nil || i == code.None || i >= len(d.Values) || d.Unreadable[i] || c.Size < 4 || failed == 0 || int32(d.Values[i]) != failed {
		return 0
	}
	switch r.Kind {
	case code.Result:
		return cmp.Or(r.Target, r.From)
	case code.Opaque:
		return r.Target
	}
	return 0
}

// condition sets what a decision was about, and where. hit is its index in the hits of the way.
func (v *Verdict) condition(p *plan.Probe, d *event.Decision, walk *code.Walk, hit int) {
	c := walk.Conditions[hit]
	note := p.Way.Note(d.Site.Addr)
	v.source(note)
	if c != nil && c.Relation != code.NoRelation {
		w := writer{n: newNamer(p), note: note, d: d, c: c}
		v.Holds, v.Needed, v.Or = w.write()
	}
	if c != nil && c.Relation == code.Different {
		v.Several = slices.ContainsFunc(walk.Conditions[:hit], func(before *code.Condition) bool {
			return before != nil && before.Relation == code.Different && before.Left.Value.Same(c.Left.Value) && before.Right.Other(&c.Right)
		})
	}
}

// source sets where the decision is.
func (v *Verdict) source(note *plan.Note) {
	if note != nil {
		v.Lines, v.Text = note.Lines, note.Text
	}
}

// errorOf returns the error that a value is, by the code or by what a jump has compared it with; 0
// if it is none, or not known.
func errorOf(r *code.Value, walk *code.Walk, path *event.Path, f *kernel.Function) int32 {
	if !mayFail(f) {
		return 0
	}
	if r.Kind == code.Constant {
		return asError(uint64(r.N))
	}
	for i := len(path.Decisions) - 1; i >= 0; i-- {
		d := &path.Decisions[i]
		c := walk.Conditions[d.Hit]
		if c == nil || c.Common || c.Computed || c.Size < 4 || c.Left.Value == nil || c.Left.Operand == code.None {
			continue
		}
		if c.Left.Value.Made(r) && c.Left.Operand < len(d.Values) && !d.Unreadable[c.Left.Operand] {
			return asError(d.Values[c.Left.Operand])
		}
	}
	return 0
}

// mayFail reports whether a function returns what may be an error: a signed number or a pointer.
func mayFail(f *kernel.Function) bool {
	if f.Type == nil {
		return false
	}
	proto, ok := f.Type.Type.(*btf.FuncProto)
	if !ok {
		return false
	}
	c := plan.ClassOf(proto.Return)
	return c.Pointer || c.Signed && c.Size >= 4
}
