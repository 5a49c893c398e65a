// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"

	"github.com/ksnoop/ksnoop/expr"
)

// An Injection says of a function of a session that its calls are not recorded,
// but when a thread comes by.
type Injection uint8

const (
	NotInjected    Injection = iota
	Injected                 // at an instruction or a tracepoint
	InjectedReturn           // when a function returns
)

// An InjectedSpec says what is to be injected.
type InjectedSpec struct {
	Spec   *expr.Spec
	Return bool // at returns of the functions that Spec selects
}

// label returns what views call a probe that is injected.
func (i Injection) label(p *Probe) string {
	if i == InjectedReturn {
		return "kretprobe:" + p.Func.Name
	}
	return p.label
}

// inject adds the probes that a SPEC selects.
func (b *sessionBuilder) inject(in InjectedSpec) error {
	found, err := candidates(b.view, in.Spec, b.options)
	if err != nil {
		return err
	}
	o, injected := b.options, Injected
	if in.Return {
		o.Method = func(*Probe) Method { return MethodKprobe }
		injected = InjectedReturn
	}
	var bad error
	added := 0
	for _, c := range found {
		probe, err := NewTargetProbe(b.view, in.Spec, c.f, c.Target, o)
		if err != nil {
			bad = errors.Join(bad, err)
			b.skip(c.f, err)
			continue
		}
		probe.label = injected.label(probe)
		added++
		b.session.Functions = append(b.session.Functions, &Function{Func: c.f, Probe: probe, Injected: injected})
	}
	if added == 0 {
		return bad
	}
	return nil
}

// layoutReturn lays out what is captured when a function returns by a probe
// that has not seen the call.
func (p *Probe) layoutReturn() error {
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
				half.Stores = append(half.Stores, l.capture(i, j, c, RoleTarget)...)
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
