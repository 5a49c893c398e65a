// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/glob"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// errGivenTypes is why functions of BPF programs cannot be traced with types from a file.
var errGivenTypes = errors.New("the kernel finds a BPF program's functions by its own BTF, which --btf replaces")

// programs returns the functions of BPF programs that a SPEC selects, and as bad those of programs
// that cannot be traced at all. It is an error if there are none of the former.
func programs(view *kernel.View, spec *expr.Spec, o Options) (found []candidate, err error) {
	sel := spec.Selector
	fault := func(msg, hint string) error {
		return &expr.ErrorList{Text: spec.Text, Errors: []*expr.Error{{Code: expr.CodeUnknownFunc, Span: sel.Span, Msg: msg, Hint: hint}}}
	}
	if view.GivenTypes() {
		return nil, fault(errGivenTypes.Error(), "")
	}
	all, untraceable, err := view.Programs()
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("looking for %s: %w", sel, err)
	}
	if err != nil {
		return nil, fault(err.Error(), "")
	}
	matching := 0
	for _, f := range all {
		if !selectsOf(sel, f) {
			continue
		}
		matching++
		if !slices.ContainsFunc(o.Deny, func(d expr.Selector) bool { return selectsOf(d, f) }) {
			found = append(found, candidate{f: f})
		}
	}
	if matching > 0 && len(found) == 0 {
		return nil, fault(allDenied(matching, "function{s}"), "")
	}
	for i := range untraceable {
		p := &untraceable[i]
		if f := p.Selected(); selectsOf(sel, f) {
			found = append(found, candidate{f: f, bad: p.Why})
		}
	}
	if len(found) == 0 {
		return nil, fault(unmatchedProgram(all, sel))
	}
	return found, nil
}

// unmatchedProgram explains why a selector selects no function of a BPF program.
func unmatchedProgram(all []kernel.Function, sel expr.Selector) (msg, hint string) {
	var names, programs []string
	for _, f := range all {
		if sel.Module == "" || f.InProgram(sel.Module) {
			names = append(names, f.Name)
		}
		if p, ok := f.Program(); ok {
			programs = append(programs, p.Name)
		}
	}
	if len(names) == 0 && len(all) > 0 {
		return fmt.Sprintf("no BPF program that could be traced is called, or has the ID, %q", sel.Module), nearestHint(sel.Module, programs)
	}
	switch hint = nearestHint(sel.Name, names); {
	case len(all) == 0:
		hint = "no BPF program is loaded that could be traced"
	case hint == "":
		slices.Sort(names)
		names = slices.Compact(names)
		more := ""
		if len(names) > mostNamed {
			names, more = names[:mostNamed], ", …"
		}
		hint = "there are " + strings.Join(names, ", ") + more
	}
	what := "is called"
	if glob.Is(sel.Name) {
		what = "matches"
	}
	if sel.Module != "" {
		return fmt.Sprintf("no function of a BPF program %s %s %q", sel.Module, what, sel.Name), hint
	}
	return fmt.Sprintf("no function of a BPF program %s %q", what, sel.Name), hint
}

// mostNamed is how many functions a hint names.
const mostNamed = 8

// untraceable is the fault of a SPEC that selects nothing else.
func untraceable(spec *expr.Spec, c *candidate) error {
	return &expr.ErrorList{Text: spec.Text, Errors: []*expr.Error{{Code: expr.CodeUnknownFunc, Span: spec.Selector.Span,
		Msg: fmt.Sprintf("%s cannot be traced: %v", c.f, c.bad)}}}
}
