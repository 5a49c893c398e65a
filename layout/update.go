// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"slices"

	"github.com/ksnoop/ksnoop/expr"
)

// Aggregates reports whether the probe adds calls up instead of sending them.
func (p *Probe) Aggregates() bool {
	return slices.ContainsFunc(p.Items, func(it expr.Item) bool { return it.Aggregation != nil })
}

// unsure reports whether a key of an aggregation may be unreadable.
func unsure(g *expr.Aggregation) bool {
	return slices.ContainsFunc(g.Keys, func(c expr.Capture) bool {
		return c.Value != nil && expr.CanFault(c.Value) || c.Target != nil && expr.CanFault(c.Target)
	})
}

// layAggregations lays out a call that is added up: at entry if nothing is decided later, else at
// return. The record of the return is not sent; it has what entry keeps.
func (p *Probe) layAggregations() error {
	late := p.AboutReturns() || slices.ContainsFunc(slices.Collect(p.terms()), func(t expr.Term) bool { return expr.PhaseOf(t) == expr.AtReturn })
	entry, ret := &Half{}, &Half{Record: &Record{}}
	l := &allocator{rec: ret.Record, method: p.Method, entry: entry}
	first, last := entry, entry
	if late {
		last = ret
		if p.allAtReturn() {
			first = ret
		}
	}
	for i, it := range p.Items {
		if it.Predicate != nil {
			half, pred := first, it.Predicate
			if it.Phase == expr.AtReturn {
				half, pred = ret, l.keep(pred, i)
			}
			half.Predicates = append(half.Predicates, Predicate{pred, i})
		}
		if it.Aggregation != nil {
			last.Updates = append(last.Updates, p.update(l, i, late))
		}
	}
	sortPredicates(entry)
	sortPredicates(ret)
	p.Joined = late
	if !late {
		p.Entry = entry
		return nil
	}
	p.Return = ret
	if p.Timed || len(entry.Predicates)+len(entry.Stores) > 0 {
		p.Entry, p.Stashed = entry, true
	}
	return p.check(l)
}

// update lays out what an aggregation adds up. late says that this happens at return.
func (p *Probe) update(l *allocator, item int, late bool) Update {
	g := p.Items[item].Aggregation
	u := Update{Item: item, Value: g.Value}
	if p.Tables != nil {
		u.Table = p.Tables[item]
	}
	u.Key, u.Unsure = *KeyOf(g), unsure(g)
	u.Kept = make([]int, len(u.Key.Slots))
	if late && g.Value != nil {
		u.Value = l.atReturn(g.Value, item)
	}
	for i := range u.Key.Slots {
		s := &u.Key.Slots[i]
		s.Item, u.Kept[i] = item, -1
		switch _, _, scalar := expr.Number(s.Term.Type()); {
		case !late:
		case scalar && !compound(s.Term):
			s.Term = l.atReturn(s.Term, item)
		case expr.PhaseOf(s.Term) == expr.AtReturn:
			s.Term = l.keep(s.Term, item)
		default:
			kept := l.add(Slot{Term: s.Term, Size: KeyBytes(s), Item: item, Capture: -1, Part: PartKept})
			l.entry.Stores = append(l.entry.Stores, kept)
			u.Kept[i] = kept.Index
		}
	}
	return u
}

// compound reports whether a term is more than a number.
func compound(t expr.Term) bool {
	switch t.(type) {
	case *expr.Object, *expr.Text, *expr.Buffer:
		return true
	}
	return false
}

// atReturn returns what computes a scalar at return: what belongs to entry is kept.
func (l *allocator) atReturn(t expr.Term, item int) expr.Term {
	_, constant := t.(*expr.Const)
	switch {
	case expr.PhaseOf(t) == expr.AtReturn:
		return l.keep(t, item)
	case constant, momentary(t), l.method.argsAtReturn() && fixed(t):
		return t
	}
	return l.kept(t, item)
}
