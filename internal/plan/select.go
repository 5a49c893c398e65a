// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// Sources returns what tells of a function whether it is defined in the source
// files whose paths match a glob. Functions are told by their addresses.
type Sources func(glob string) (func(kernel.Function) bool, error)

// Select returns the functions that a SPEC's selector names, at least one.
func Select(view *kernel.View, spec *expr.Spec, o Options) ([]kernel.Function, error) {
	sel := spec.Selector
	fault := func(hint, format string, args ...any) error {
		return &expr.ErrorList{Text: spec.Text, Errors: []*expr.Error{
			{Code: expr.CodeUnknownFunc, Span: sel.Span, Msg: fmt.Sprintf(format, args...), Hint: hint}}}
	}
	var funcs []kernel.Function
	var err error
	switch {
	case sel.Kind == expr.Syscall:
		var calls []candidate
		calls, err = syscalls(view, sel.Name, o.Arch)
		for _, c := range calls {
			funcs = append(funcs, c.f)
		}
	case sel.Kind != expr.Function:
		return nil, fault("", "only functions can be traced here")
	case sel.Path != "":
		funcs, err = definedIn(view, sel.Path, o.Sources)
	default:
		funcs, err = view.Match(sel.Name, sel.Module)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("looking for %s: %w", sel, err)
	case len(funcs) == 0 && sel.Path != "":
		return nil, fault("paths are those of the kernel's source tree, as kernel/bpf/syscall.c",
			"no function that can be traced is defined in %s", sel.Path)
	case len(funcs) == 0 && sel.Kind == expr.Syscall:
		return nil, fault(nearestHint(sel.Name, view.SyscallNames(o.Arch)), "there is no system call %q", sel.Name)
	case len(funcs) == 0:
		hint := ""
		if o.Inlined != nil {
			hint = o.Inlined(sel.Name)
		}
		if hint == "" {
			hint = view.Missing(sel.Name, sel.Module).Hint()
		}
		return nil, fault(hint, "no function is called %q", sel.Name)
	}
	kept, err := withoutDenied(view, funcs, o)
	if err == nil && len(kept) == 0 {
		err = fault("", "all %d functions that match are denied", len(funcs))
	}
	return kept, err
}

var errNoSources = errors.New("only the debug info of a running kernel tells which functions a source file defines")

// definedIn returns the functions that are defined in the source files that
// match a glob and can be attached to.
func definedIn(view *kernel.View, glob string, sources Sources) ([]kernel.Function, error) {
	if sources == nil {
		return nil, errNoSources
	}
	in, err := sources(glob)
	if err != nil {
		return nil, err
	}
	return view.Select(in)
}

// withoutDenied leaves out the functions that one of the denied selectors names.
func withoutDenied(view *kernel.View, funcs []kernel.Function, o Options) ([]kernel.Function, error) {
	for _, d := range o.Deny {
		if d.Kind != expr.Function {
			continue
		}
		denied, err := deniedBy(d, o.Sources)
		if err != nil {
			return nil, err
		}
		// What was asked for by its whole name may have no address yet.
		if d.Path != "" && slices.ContainsFunc(funcs, func(f kernel.Function) bool { return f.Addr == 0 }) {
			if funcs, err = view.Locate(funcs); err != nil {
				return nil, fmt.Errorf("leaving out %s: %w", d, err)
			}
		}
		var kept []kernel.Function
		for _, f := range funcs {
			if !denied(f) {
				kept = append(kept, f)
			}
		}
		funcs = kept
	}
	return funcs, nil
}

// deniedBy returns what tells whether a selector names a function.
func deniedBy(d expr.Selector, sources Sources) (func(kernel.Function) bool, error) {
	if d.Path == "" {
		return func(f kernel.Function) bool {
			return expr.Glob(d.Name, f.Name) && (d.Module == "" || expr.Glob(d.Module, f.Module))
		}, nil
	}
	if sources == nil {
		return nil, fmt.Errorf("leaving out %s: %w", d, errNoSources)
	}
	in, err := sources(d.Path)
	if err != nil {
		return nil, fmt.Errorf("leaving out %s: %w", d, err)
	}
	return in, nil
}
