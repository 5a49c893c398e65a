// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/glob"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plural"
)

// A denial is one selector of functions to leave out.
type denial struct {
	selector expr.Selector
	names    func(kernel.Function) bool
	optional bool
	applied  bool // it denied a selected function, or an inlined copy of one
}

// allDenied says that nothing is left of what matches.
func allDenied(n int, what string) string {
	if n == 1 {
		return "the only " + plural.Text(n, what) + " that matches is denied"
	}
	return "all " + plural.Of(n, what) + " that match are denied"
}

// A denials is a list of denials. A list may name every function of a kernel, so plain
// names are found in a map.
type denials struct {
	all    []*denial
	named  map[string][]*denial
	others []*denial // selectors with globs or source files
}

// newDenials sorts selectors into names, which a map finds, and others, which are tried
// one by one.
func newDenials(view *kernel.View, selectors []expr.Selector, sources Sources) (*denials, error) {
	d := &denials{named: map[string][]*denial{}}
	var errs []error
	for _, s := range selectors {
		names, err := deniedBy(view, s, sources)
		errs = append(errs, err)
		made := &denial{selector: s, names: names}
		d.all = append(d.all, made)
		if isName(s) {
			d.named[s.Name] = append(d.named[s.Name], made)
		} else {
			d.others = append(d.others, made)
		}
	}
	return d, errors.Join(errs...)
}

// apply returns the first denial that matches a function, or nil. It marks all that match
// as applied.
func (d *denials) apply(f kernel.Function) (first *denial) {
	for _, some := range [...][]*denial{d.named[f.Name], d.others} {
		for _, one := range some {
			if (first == nil || !one.applied) && one.names(f) {
				one.applied = true
				if first == nil {
					first = one
				}
			}
		}
	}
	return first
}

// applyInlined reports whether a denial matches an inlined copy of a function. It marks all that
// match as applied.
func (d *denials) applyInlined(at Inlined) (denied bool) {
	for _, one := range d.all {
		if s := one.selector; s.Path == "" && glob.Match(s.Name, at.Name) && (s.Module == "" || glob.Match(s.Module, at.Into.Module)) {
			one.applied, denied = true, true
		}
	}
	return denied
}

// byPath reports whether a denial goes by source files, which takes the addresses of
// functions.
func (d *denials) byPath() bool {
	return slices.ContainsFunc(d.others, func(d *denial) bool { return d.selector.Path != "" })
}

// denials returns the denials in the options.
func (o *Options) denials(view *kernel.View) (*denials, error) {
	if o.denied != nil {
		return o.denied()
	}
	var functions []expr.Selector
	for _, d := range o.Deny {
		if d.Kind == expr.Function {
			functions = append(functions, d)
		}
	}
	return newDenials(view, functions, o.Sources)
}

// deniedBy returns a test of whether selector d matches a function.
func deniedBy(view *kernel.View, d expr.Selector, sources Sources) (func(kernel.Function) bool, error) {
	having, err := having(view, d)
	if err != nil {
		return nil, err
	}
	if d.Kind == expr.Program {
		return func(f kernel.Function) bool { return selectsOf(d, f) }, nil
	}
	if d.Kind != expr.Function {
		return func(kernel.Function) bool { return false }, nil // of user space: see userReason
	}
	if d.Path == "" {
		return func(f kernel.Function) bool {
			return !f.InProgram("") && glob.Match(d.Name, f.Name) && (d.Module == "" || glob.Match(d.Module, f.Module)) && having(f)
		}, nil
	}
	if sources == nil {
		return nil, fmt.Errorf("leaving out %s: %w", d, errNoSources)
	}
	in, err := sources(d.Path)
	if err != nil {
		return nil, fmt.Errorf("leaving out %s: %w", d, err)
	}
	return func(f kernel.Function) bool { return in(f) && having(f) }, nil
}
