// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// Denied returns the last decision before the one of a verdict that a function has led to by returning 0, among
// those that asks selects by name: check_kill_permission asks for a capability, and what it tests then are
// exceptions. ok is false if there is none, if the verdict is on such a decision itself, or if the decision of the verdict
// is met in any case.
func Denied(e *event.Event, path *event.Path, v *Verdict, asks func(function string) bool) (denied Verdict, ok bool) {
	if v.Decision < 0 {
		return denied, false
	}
	p := e.Probe
	walk := walkOf(p, path)
	for i := v.Decision; i >= 0; i-- {
		d := &path.Decisions[i]
		if !asked(p, d, walk, asks) {
			continue
		}
		if i == v.Decision || !walk.Spares(d.Hit, path.Decisions[v.Decision].Hit) {
			return denied, false
		}
		denied = Verdict{Error: v.Error, Decision: i}
		denied.condition(p, d, walk, d.Hit)
		return denied, true
	}
	return denied, false
}

// Vain reports whether a function that asks selects by name has refused before the decision of a verdict, and that
// decision is met whatever it returns: cap_capset asks for a capability, and then compares sets of others. Of a decision on
// what a function returned it is not known what that has asked for.
func Vain(e *event.Event, path *event.Path, v *Verdict, asks func(function string) bool) (vain bool) {
	if v.Decision < 0 {
		return false
	}
	p := e.Probe
	walk := walkOf(p, path)
	decided := path.Decisions[v.Decision].Hit
	if c := walk.Conditions[decided]; c == nil || c.Left.Value.Returned() || c.Right.Value.Returned() {
		return false
	}
	for i := range path.Decisions[:v.Decision] {
		d := &path.Decisions[i]
		c := walk.Conditions[d.Hit]
		if c == nil || !c.Left.Value.Returned() {
			continue
		}
		f := p.Way.Callees.At(c.Left.Value.Target)
		if f == nil || !asks(f.Name) {
			continue
		}
		refuses := code.Different // an error
		if f.Result.Bool {
			refuses = code.Equal
		}
		if c.Relation != refuses {
			continue
		}
		if walk.Spares(d.Hit, decided) {
			return false
		}
		vain = true
	}
	return vain
}

// asked reports whether a decision is that a function returned 0, one that asks selects by name.
func asked(p *plan.Probe, d *event.Decision, walk *code.Walk, asks func(function string) bool) bool {
	c := walk.Conditions[d.Hit]
	if c == nil || c.Left.Value == nil || c.Left.Value.Kind != code.Result || c.Relation != code.Equal || !c.Common && !c.Right.Zero() {
		return false
	}
	f := p.Way.Callees.At(c.Left.Value.Target)
	return f != nil && asks(f.Name)
}

// Before returns the decisions before the one of a verdict, which is on what a function returned that asks selects by name, whose other
// way leads to where that one's does: copy_process asks for a capability if the limit on processes is reached. They are in the order
// of time.
func Before(e *event.Event, path *event.Path, v *Verdict, asks func(function string) bool) (before []Verdict) {
	p := e.Probe
	if v.Decision < 0 {
		return nil
	}
	walk := walkOf(p, path)
	last := &path.Decisions[v.Decision]
	to := p.Way.Graph().Other(last.Site.Block, last.Taken)
	if to == code.None || !asked(p, last, walk, asks) {
		return nil
	}
	for i := range v.Decision {
		d := &path.Decisions[i]
		if d.Site.Start || p.Way.Graph().Other(d.Site.Block, d.Taken) != to || asked(p, d, walk, asks) {
			continue
		}
		one := Verdict{Error: v.Error, Decision: i}
		one.condition(p, d, walk, d.Hit)
		before = append(before, one)
	}
	return before
}

// walkOf follows the values along a way that ends with an error.
func walkOf(p *plan.Probe, path *event.Path) *code.Walk {
	return p.Way.Code.Walk(p.Way.Graph(), p.Way.Sites(), path.Hits, p.Way.Callees, false)
}
