// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// codeNotRecorded marks a SPEC that asks a recording for what it does not have.
const codeNotRecorded expr.Code = "not-recorded"

func notRecorded(at expr.Span, hint, format string, args ...any) *expr.Error {
	return &expr.Error{Code: codeNotRecorded, Span: at, Hint: hint, Msg: fmt.Sprintf(format, args...)}
}

// A phrase is an expression in the phase that the SPEC puts it in: "", "entry" or "exit".
type phrase struct {
	x     expr.Expr
	phase string
}

// blame returns the fault of an item that does not follow from what was recorded. It names the
// smallest expression of which that is true.
func (r *recording) blame(spec *expr.Spec, item int) *expr.Error {
	p := r.smallest(spec, phrase{x: spec.Items[item]})
	text := p.text()
	if value, target, known := r.covered(spec, p); known && value && !target {
		return notRecorded(p.x.Span(), "record `"+text+"` too, or ask for `hex("+text+")`", "what `%s` points to was not captured", text)
	}
	if p.phase != "exit" {
		if value, target, known := r.covered(spec, phrase{p.x, "exit"}); known && value && target {
			return notRecorded(p.x.Span(), "ask for `exit("+text+")`", "`%s` was recorded as it is at return", text)
		}
	}
	want := phrase{object(p.x), p.phase}
	if value, target, known := r.covered(spec, want); known && value && target {
		want.phase = "exit" // what is read of it has its place from the return
	}
	if r.withheld(text) || r.withheld(want.text()) {
		return notRecorded(p.x.Span(), "", "`%s` was redacted when it was recorded", text)
	}
	return notRecorded(p.x.Span(), "record `"+want.text()+"` too", "`%s` was not captured", text)
}

// withheld reports whether the run hid what a SPEC of it, or -A, asked for.
func (r *recording) withheld(label string) bool {
	if slices.ContainsFunc(r.probe.Args, func(a layout.Arg) bool { return a.Withheld && a.Param.Name == label }) {
		return true
	}
	return slices.ContainsFunc(r.probe.Items, func(it expr.Item) bool {
		return slices.ContainsFunc(it.Captures, func(c expr.Capture) bool { return c.Withheld != nil && c.Label == label })
	})
}

// text returns a phrase as a SPEC has it.
func (p phrase) text() string {
	if p.phase == "exit" {
		return "exit(" + expr.Format(p.x) + ")"
	}
	return expr.Format(p.x)
}

// smallest returns the smallest phrase within p that does not follow from what was recorded.
func (r *recording) smallest(spec *expr.Spec, p phrase) phrase {
	if whole := object(p.x); whole != p.x {
		if value, target, known := r.covered(spec, phrase{whole, p.phase}); !known || !value || !target {
			return p
		}
	}
	for _, q := range parts(p) {
		value, _, known := r.covered(spec, q)
		if known && value {
			continue
		}
		if s := r.smallest(spec, q); known || s != q {
			return s
		}
	}
	return p
}

// covered checks a phrase as an item of its own. value and target say whether the parts of what
// it captures follow from what was recorded. known is false if it is no item.
func (r *recording) covered(spec *expr.Spec, p phrase) (value, target, known bool) {
	x := p.x
	if p.phase != "" {
		x = &expr.Call{Pos: p.x.Span(), Func: expr.Name{Pos: p.x.Span(), Name: p.phase}, Args: []expr.Expr{p.x}}
	}
	one := &expr.Spec{Text: spec.Text, Selector: spec.Selector, Parens: true, Items: []expr.Expr{x}}
	probe, err := r.resolve(one)
	if err != nil || len(probe.Items) != 1 {
		return false, false, false
	}
	value, target = true, true
	it := &probe.Items[0]
	if it.Predicate != nil {
		_, value = r.rewrite(it.Predicate)
		return value, true, true
	}
	if it.Aggregation != nil {
		_, value = r.newAddition(it.Aggregation, 0)
		return value, true, true
	}
	if it.Path {
		return probe.Way != nil, true, true
	}
	for _, h := range [...]*layout.Half{probe.Entry, probe.Return} {
		if !sends(h) {
			continue
		}
		for _, s := range h.Record.Slots {
			if s.Capture < 0 {
				continue
			}
			t := unkeep(s.Term, h.Record)
			if _, ok := r.newFill(s, t); ok {
				continue
			}
			if scalar(t) || it.Captures[0].Value == nil {
				value = false
			} else {
				target = false
			}
		}
	}
	return value, target, true
}

// parts returns the phrases that a phrase is made of. What a pointer leads to is one place: to
// have that recorded, the pointer itself is not needed.
func parts(p phrase) []phrase {
	in := func(xs ...expr.Expr) (out []phrase) {
		for _, x := range xs {
			out = append(out, phrase{x, p.phase})
		}
		return out
	}
	switch x := p.x.(type) {
	case *expr.Unary:
		switch x.Op {
		case expr.OpDeref:
			return nil
		case expr.OpAddr:
			return parts(phrase{x.X, p.phase})
		}
		return in(x.X)
	case *expr.Binary:
		return in(x.X, x.Y)
	case *expr.Paren:
		return in(x.X)
	case *expr.Member:
		if x.Arrow {
			return nil
		}
		return parts(phrase{x.X, p.phase})
	case *expr.Index:
		return append(in(x.I), parts(phrase{x.X, p.phase})...)
	case *expr.Cast:
		return in(x.X)
	case *expr.ContainerOf:
		return in(x.X)
	case *expr.Keyed:
		return in(append(slices.Clone(x.X.Args), x.Keys...)...)
	case *expr.Call:
		switch x.Func.Name {
		case "entry", "exit":
			return []phrase{{x.Args[0], x.Func.Name}}
		case "diff":
			return []phrase{{x.Args[0], "entry"}, {x.Args[0], "exit"}}
		case "str", "ustr", "buf":
			return nil
		}
		return in(x.Args...)
	}
	return nil
}

// object returns what a recording must have so that an expression follows from it: of a member
// the object that has it.
func object(x expr.Expr) expr.Expr {
	for at := x; ; {
		switch y := at.(type) {
		case *expr.Member:
			if y.Arrow {
				return &expr.Unary{Pos: x.Span(), Op: expr.OpDeref, X: y.X}
			}
			at = y.X
			continue
		case *expr.Index:
			at = y.X
			continue
		case *expr.Paren:
			at = y.X
			continue
		case *expr.Unary:
			if y.Op == expr.OpDeref {
				return y
			}
		}
		return x
	}
}

// resolve resolves a SPEC for the recorded probe's function.
func (r *recording) resolve(spec *expr.Spec) (*plan.Probe, error) {
	was := r.probe
	as := plan.Recorded{Func: was.Func, Hook: was.Hook, Spec: spec, Method: was.Method, Way: was.Way, Placed: sends(was.Return) && was.Return.Record.Placed}
	if r.inside {
		as.Role, as.Syscall = was.Role, was.Syscall
	}
	p, err := plan.Restore(r.view, []plan.Recorded{as}, r.inside, false, plan.Options{Arch: r.arch, Owner: r.probe.Owner})
	if err != nil {
		return nil, err
	}
	return p.Probes[0], nil
}

// ofRecording has faults of a SPEC say what the recording lacks, where they would say that the kernel lacks it.
func ofRecording(err error) error {
	var list *expr.ErrorList
	if !errors.As(err, &list) {
		return err
	}
	for _, e := range list.Errors {
		if e.Code == expr.CodeUnknownType && e.Hint == "" {
			e.Msg, e.Hint = strings.Replace(e.Msg, "the kernel has", "the recording has", 1), "one made with --full has all that the kernel has"
		}
	}
	return err
}
