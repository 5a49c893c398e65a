// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/glob"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// candidates returns what a SPEC's selector matches. No match is an error.
func candidates(view *kernel.View, spec *expr.Spec, o Options) ([]candidate, error) {
	var found []candidate
	var err error
	sel := spec.Selector
	fault := func(hint, format string, args ...any) error {
		return &expr.ErrorList{Text: spec.Text, Errors: []*expr.Error{
			{Code: expr.CodeUnknownFunc, Span: sel.Span, Msg: fmt.Sprintf(format, args...), Hint: hint}}}
	}
	var names func() []string
	what, name := "", sel.Name
	switch sel.Kind {
	case expr.Function:
		if o.Inlinings != nil {
			return withInlined(view, spec, o)
		}
		return functions(view, spec, o)
	case expr.Instruction:
		return instruction(view, spec, o, fault)
	case expr.Program:
		return programs(view, spec, o)
	case expr.UserFunction:
		return userFunctions(view, spec, o)
	case expr.StaticProbe:
		return staticProbes(spec, o)
	case expr.Syscall:
		found, err = syscalls(view, sel.Name, o.Arch)
		what, names = "system call", func() []string { return view.SyscallNames(o.Arch) }
	case expr.Tracepoint:
		found, err = tracepoints(view, sel.System, sel.Name)
		what, names, name = "tracepoint", view.TracepointNames, sel.System+":"+sel.Name
	case expr.RawTracepoint:
		found, err = rawTracepoints(view, sel.Name)
		what, names = "raw tracepoint", view.RawTracepointNames
	}
	if err != nil {
		return nil, fmt.Errorf("looking for %s: %w", sel, err)
	}
	if len(found) == 0 {
		hint := nearestHint(name, names())
		if group := sel.Name + ":"; sel.System == "*" && slices.ContainsFunc(names(), func(n string) bool { return strings.HasPrefix(n, group) }) {
			hint = fmt.Sprintf("it is a group: write %q", "tp:"+group+"*")
		}
		return nil, fault(hint, "there is no %s %q", what, strings.TrimPrefix(name, "*:"))
	}
	n := len(found)
	found = slices.DeleteFunc(found, func(c candidate) bool { return deniedHook(&c.Hook, o.Deny) })
	if len(found) == 0 {
		return nil, fault("", "%s", allDenied(n, what+"{s}"))
	}
	return found, nil
}

func deniedHook(h *Hook, deny []expr.Selector) bool {
	return slices.ContainsFunc(deny, func(d expr.Selector) bool {
		return d.Kind == h.Kind && glob.Match(d.Name, h.Name) && (h.Kind != expr.Tracepoint || glob.Match(d.System, h.System))
	})
}

// functions returns the functions that a SPEC's selector matches.
func functions(view *kernel.View, spec *expr.Spec, o Options) (found []candidate, err error) {
	funcs, err := Select(view, spec, o)
	for _, f := range distinct(funcs) {
		found = append(found, candidate{f: f})
	}
	return found, err
}

// distinct drops functions that are another name for the same address. The name that BTF
// describes stays.
func distinct(funcs []kernel.Function) []kernel.Function {
	named := map[uint64]string{}
	for _, f := range funcs {
		if _, known := named[f.Addr]; !known || !f.Alias && f.Type != nil {
			named[f.Addr] = f.Name
		}
	}
	return slices.DeleteFunc(funcs, func(f kernel.Function) bool { return f.Addr != 0 && named[f.Addr] != f.Name })
}

// maxInlined bounds the places of one SPEC. Each is a probe of its own, and the kernel
// takes a while to remove one.
const maxInlined = 256

// withInlined returns the functions that a SPEC names and their inlined copies. A function
// without code of its own only has copies.
func withInlined(view *kernel.View, spec *expr.Spec, o Options) ([]candidate, error) {
	sel := spec.Selector
	fault := func(code expr.Code, hint, format string, args ...any) error {
		return &expr.ErrorList{Text: spec.Text, Errors: []*expr.Error{{Code: code, Span: sel.Span, Msg: fmt.Sprintf(format, args...), Hint: hint}}}
	}
	found, err := functions(view, spec, o)
	var none *expr.ErrorList
	if err != nil && !errors.As(err, &none) {
		return nil, err
	}
	places, lookErr := inlinedPlaces(found, sel, o)
	if lookErr != nil {
		return nil, lookErr
	}
	denied, lookErr := o.denials(view)
	if lookErr != nil {
		return nil, lookErr
	}
	places = slices.DeleteFunc(places, denied.applyInlined)
	switch {
	case len(places) == 0:
		return found, err
	case len(places) > maxInlined:
		return nil, fault(expr.CodeLimit, "ksnoop info -v lists them, and kprobe:FUNCTION+OFFSET traces one",
			"inlined in %d places, and no more than %d can be traced", len(places), maxInlined)
	}
	for _, at := range places {
		found = append(found, candidate{f: at.Into, Hook: Hook{Kind: expr.Instruction, Name: at.Name, Offset: at.Offset, Inlined: true, Params: at.Params}})
	}
	return found, nil
}

// inlinedPlaces returns the inlined copies of a selector's functions. For a selector by
// files or types, only functions that also have code of their own are found.
func inlinedPlaces(found []candidate, sel expr.Selector, o Options) ([]Inlined, error) {
	if sel.Path == "" && len(sel.Signature) == 0 {
		return o.Inlinings.Named(sel.Name, modulesOf(found, sel))
	}
	funcs := make([]kernel.Function, len(found))
	for i := range found {
		funcs[i] = found[i].f
	}
	return o.Inlinings.Of(funcs)
}

// modulesOf returns the modules in which a selector's functions may be inlined: those that
// define some of them, and the one that the selector names.
func modulesOf(found []candidate, sel expr.Selector) []string {
	modules := []string{sel.Module}
	if glob.Is(sel.Module) {
		modules = nil
	}
	for i := range found {
		if m := found[i].f.Module; !slices.Contains(modules, m) {
			modules = append(modules, m)
		}
	}
	return modules
}

// instruction finds the function that contains an instruction. Only the kernel checks that
// an instruction begins there.
func instruction(view *kernel.View, spec *expr.Spec, o Options, fault func(string, string, ...any) error) ([]candidate, error) {
	sel, within := spec.Selector, *spec
	within.Selector.Kind = expr.Function
	funcs, err := Select(view, &within, o)
	if err != nil {
		return nil, err
	}
	if len(funcs) > 1 {
		return nil, fault("", "%d functions match, but an instruction is in one", len(funcs))
	}
	f := funcs[0]
	if located, err := view.Locate(funcs); err == nil && len(located) == 1 {
		f = located[0]
		if s, ok := view.Symbol(f.Addr); ok && f.Addr != 0 && sel.Offset >= s.Size {
			return nil, fault(fmt.Sprintf("it has %#x bytes", s.Size), "there is no instruction %#x of %s", sel.Offset, f.Name)
		}
	}
	return []candidate{{f: f, Hook: Hook{Kind: expr.Instruction, Name: f.Name, Offset: sel.Offset}}}, nil
}
