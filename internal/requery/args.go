// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// addArgs adds what -A has captured of all arguments.
func (r *recording) addArgs() {
	if r.probe.Args == nil {
		return
	}
	for i := range r.probe.Args {
		if a := &r.probe.Args[i]; a.Words > 0 && !a.Withheld && !a.Ref {
			r.sources = append(r.sources, r.argSources(i, a)...)
		}
	}
	link(r.sources)
	r.ret = true // all that sessions have of a call is one record
}

// argSources lists what follows from argument i. The terms are those that SPECs with its name
// resolve to: of a system call, these are no parameters of the function.
func (r *recording) argSources(i int, a *layout.Arg) (all []source) {
	if r.probe.Syscall == nil {
		all = append(all, source{part: &part{arg: i}, slot: layout.Slot{Size: uint32(8 * a.Words)}, term: &expr.Object{T: a.Param.Type, Arg: i}, arg: i, byValue: true})
	}
	items := []string{a.Param.Name}
	switch {
	case a.Text:
		items = append(items, "str("+a.Param.Name+")", "ustr("+a.Param.Name+")")
	case a.Target != nil:
		items = append(items, "*"+a.Param.Name, "*user("+a.Param.Name+")")
	}
	for n, item := range items {
		for _, t := range r.terms(item) {
			switch size, signed, number := expr.Number(t.Type()); {
			case scalar(t):
				if n == 0 && number && a.Words == 1 {
					all = append(all, source{part: &part{arg: i, size: int(size), signed: signed}, slot: layout.Slot{Size: 8}, term: canon(t)})
				}
			case n > 0:
				if s := newSource(layout.Slot{Size: uint32(a.Size)}, t, true); s.mem != nil && s.mem.off == 0 && len(s.mem.base) == 1 {
					s.part, s.slot.Size = &part{arg: i, target: true}, 0 // it is no slot of the size that a SPEC's value has
					all = append(all, s)
				}
			}
		}
	}
	return all
}

// terms returns what a SPEC with one item captures, nil if it cannot be resolved.
func (r *recording) terms(item string) (all []expr.Term) {
	spec, err := expr.Parse("f(" + item + ")")
	if err != nil || len(spec.Items) != 1 {
		return nil
	}
	p, err := r.resolve(spec)
	if err != nil || !sends(p.Return) {
		return nil
	}
	for _, s := range p.Return.Record.Slots {
		if s.Capture >= 0 {
			all = append(all, unkeep(s.Term, p.Return.Record))
		}
	}
	return all
}
