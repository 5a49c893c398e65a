// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// parentPlaces are what --parent can say besides an expression. A parameter of such a name is meant by "(go)".
var parentPlaces = map[string]bpf.ParentPlace{"go": bpf.ParentGo, "environ": bpf.ParentEnviron, "thread": bpf.ParentThread, "auto": bpf.ParentThread | bpf.ParentGo | bpf.ParentEnviron}

// checkParent reads what --parent says.
func (f *otlpFlags) checkParent() error {
	f.parent = strings.TrimSpace(f.parent)
	if f.parent == "" {
		return nil
	}
	if f.places = parentPlaces[f.parent]; f.places != 0 {
		if f.wait {
			return usagef("--parent %s: a recording has what trace has found with that option; here it takes an expression", f.parent)
		}
		f.parent = ""
		return nil
	}
	const call, end = "f(", ")"
	spec, err := expr.Parse(call + f.parent + end)
	var faults *expr.ErrorList
	if errors.As(err, &faults) && faults.Errors[0].Span.Start != len(call)+len(f.parent) { // else it has closed the parenthesis
		return usagef("--parent:\n%w", within(faults, len(call), f.parent))
	}
	if err != nil || len(spec.Items) != 1 || spec.Text[spec.Items[0].Span().Start:spec.Items[0].Span().End] != f.parent {
		return usagef("--parent %s: it takes one value, as ustr(p)", f.parent)
	}
	return nil
}

// within shows faults of a SPEC as those of the text at an offset in it. What is behind the text is its end.
func within(all *expr.ErrorList, at int, text string) *expr.ErrorList {
	inside := func(pos int) int { return min(max(pos-at, 0), len(text)) }
	out := &expr.ErrorList{Text: text}
	for _, e := range all.Errors {
		fault := *e
		fault.Span = expr.Span{Start: inside(e.Span.Start), End: inside(e.Span.End)}
		out.Errors = append(out.Errors, &fault)
	}
	return out
}

// addTo adds the value of --parent to SPECs: to those of entry functions or, without sessions, to those
// of calls. A SPEC that cannot be read stays as it is.
func (f *otlpFlags) addTo(specs []string, sessions bool) ([]string, error) {
	if f.parent == "" {
		return specs, nil
	}
	out := make([]string, len(specs))
	for i, text := range specs {
		out[i] = text
		spec, err := expr.Parse(text)
		switch end := strings.LastIndexByte(text, ')'); {
		case err != nil:
		case !spec.Parens && !sessions:
			return nil, usagef("--parent: %s has no values in parentheses; %s() has no other than that of --parent", text, text)
		case !spec.Parens:
			out[i] = text + "(" + f.parent + ")"
		case len(spec.Items) == 0:
			out[i] = text[:end] + f.parent + text[end:]
		default:
			out[i] = text[:end] + ", " + f.parent + text[end:]
		}
	}
	return out, nil
}

// takesParent returns an error unless a plan captures the value of --parent.
func (f *otlpFlags) takesParent(p *plan.Plan) error {
	if f.parent == "" {
		return nil
	}
	if err := f.said().CheckParent(p); err != nil {
		return usagef("--parent: %w", err)
	}
	return nil
}

// parented adds the value of --parent to the SPECs: to those of -e, or to the arguments, which it returns.
func (f *traceFlags) parented(args []string) (_ []string, err error) {
	if f.output.otlp.places != 0 && !f.session.wanted() {
		return nil, usagef("--parent thread, go, environ and auto go with sessions, by -e; without them it takes an expression")
	}
	if !f.session.wanted() {
		return f.output.otlp.addTo(args, false)
	}
	f.session.entry, err = f.output.otlp.addTo(f.session.entry, true)
	return args, err
}
