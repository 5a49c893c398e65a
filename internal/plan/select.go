// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/glob"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/suggest"
)

// Select returns the functions that a SPEC's selector names. No function is an error.
func Select(view *kernel.View, spec *expr.Spec, o Options) ([]kernel.Function, error) {
	sel := spec.Selector
	fault := func(hint, format string, args ...any) error {
		return &expr.ErrorList{Text: spec.Text, Errors: []*expr.Error{
			{Code: expr.CodeUnknownFunc, Span: sel.Span, Msg: fmt.Sprintf(format, args...), Hint: hint}}}
	}
	if sel.Kind != expr.Function && sel.Kind != expr.Syscall {
		return nil, fault("", "only functions can be traced here")
	}
	funcs, err := named(view, sel, o)
	switch {
	case errors.Is(err, errNoCode) && o.unexplained:
		return nil, fault("", "%s %v", sel, err)
	case errors.Is(err, errNoCode):
		hint := ""
		if o.Inlined != nil {
			hint = o.Inlined(sel.Name)
		}
		return nil, fault(hint, "%s %v", sel, err)
	case err != nil:
		return nil, fmt.Errorf("looking for %s: %w", sel, err)
	case len(funcs) == 0 && sel.Path != "":
		return nil, fault("paths are those of the kernel's source tree, as kernel/bpf/syscall.c",
			"no function that can be traced is defined in %s", sel.Path)
	case len(funcs) == 0 && sel.Kind == expr.Syscall:
		return nil, fault(nearestHint(sel.Name, view.SyscallNames(o.Arch)), "there is no system call %q", sel.Name)
	case len(funcs) == 0 && len(sel.Signature) > 0:
		return nil, fault(signatureHint(view, sel), "no function that matches has such a signature")
	case len(funcs) == 0 && o.unexplained:
		return nil, fault("", "%s", unmatched(sel.Name))
	case len(funcs) == 0:
		into := ""
		if o.Inlined != nil {
			into = o.Inlined(sel.Name)
		}
		if into != "" {
			return nil, fault(into, "%s %v", sel, errNoCode)
		}
		hint := cmp.Or(syscallHint(view, sel, o.Arch), memberHint(view, sel, o))
		if hint == "" {
			hint = view.Missing(sel.Name, sel.Module).Hint()
		}
		if sel.Module != "" {
			return nil, fault(hint, "no function of a module %s is called %q", sel.Module, sel.Name)
		}
		return nil, fault(hint, "%s", unmatched(sel.Name))
	}
	kept, err := withoutDenied(view, funcs, o)
	if err == nil && len(kept) == 0 {
		err = fault("", "%s", allDenied(len(funcs), "function{s}"))
	}
	return kept, err
}

// unmatched says that no function has a name, or matches a glob.
func unmatched(name string) string {
	if strings.ContainsAny(name, "*?") {
		return fmt.Sprintf("no function matches %q", name)
	}
	return fmt.Sprintf("no function is called %q", name)
}

// syscallHint suggests syscall: where the user wrote the name of a system call, or of the
// function that serves it elsewhere.
func syscallHint(view *kernel.View, sel expr.Selector, arch string) string {
	if sel.Kind != expr.Function || sel.Module != "" {
		return ""
	}
	name := sel.Name
	for _, prefix := range []string{"__x64_sys_", "__arm64_sys_", "__se_sys_", "__do_sys_", "__sys_", "sys_", "SyS_"} {
		if bare, ok := strings.CutPrefix(name, prefix); ok {
			name = bare
			break
		}
	}
	for _, wanted := range []string{name, "new" + name, name + "64"} {
		if view.HasSyscall(wanted, arch) {
			return "for the system call write " + strconv.Quote("syscall:"+name)
		}
	}
	return ""
}

// memberHint tells how a parameter is asked for, where it was written as if it were a member of the function.
func memberHint(view *kernel.View, sel expr.Selector, o Options) string {
	var param string
	sel.Name, param, _ = strings.Cut(sel.Name, ".")
	funcs, err := named(view, sel, o)
	if param == "" || err != nil || len(funcs) != 1 || funcs[0].Type == nil {
		return ""
	}
	proto, ok := funcs[0].Type.Type.(*btf.FuncProto)
	if !ok || !slices.ContainsFunc(proto.Params, func(p btf.FuncParam) bool { return p.Name == param }) {
		return ""
	}
	return "items stand in parentheses: " + sel.Name + "(" + param + ")"
}

// nearestHint suggests a similar name, either whole or without its group.
func nearestHint(name string, names []string) string {
	near := suggest.Nearest(name, slices.Values(names))
	_, bare, _ := strings.Cut(name, ":")
	for i := 0; near == "" && bare != "" && i < len(names); i++ {
		if strings.HasSuffix(names[i], ":"+bare) {
			near = names[i]
		}
	}
	return suggest.DidYouMean(near)
}

// hintSyscall adds a hint to faults about unknown names: the function that serves a system
// call has no such parameter, but the system call itself has.
func hintSyscall(err error, spec *expr.Spec, function string) {
	var faults *expr.ErrorList
	if !errors.As(err, &faults) {
		return
	}
	prefix, name, ok := strings.Cut(function, "_sys_")
	if !ok || prefix != "__x64" && prefix != "__arm64" {
		return // __do_sys_openat has the parameters
	}
	write := "syscall:" + name
	if isName(spec.Selector) && len(spec.Selector.Signature) == 0 {
		write += spec.Text[spec.Selector.Span.End:]
	}
	for _, e := range faults.Errors {
		if e.Code == expr.CodeUnknownName && !strings.HasPrefix(e.Hint, "did you mean") {
			e.Hint = "the function is handed registers; the parameters are those of " + strconv.Quote(write)
		}
	}
}

// Why a function known from BTF or debug info cannot be traced. __init functions of modules
// lose their code and symbols after loading; those of vmlinux lose only the code.
var (
	errNoCode = errors.New("is inlined everywhere: there is no code of it to trace")
	errGone   = fmt.Errorf("%w, unless that was for loading its module", errNoCode)
)

// located returns functions as kallsyms has them. A name may stand for several functions,
// or only for copies that the compiler made. If kallsyms tells no addresses, it returns them as
// BTF has them, and whether their names are unique.
func located(view *kernel.View, funcs []kernel.Function) ([]kernel.Function, error) {
	found, err := view.Locate(funcs)
	switch {
	case err == nil && len(found) == 0 && len(funcs) > 0 && view.HasSymbols() && funcs[0].Module != "":
		return nil, errGone
	case err == nil && len(found) == 0 && len(funcs) > 0 && view.HasSymbols():
		return nil, errNoCode
	case err != nil || len(found) == 0: // no symbols
		return funcs, nil
	case found[0].Addr == 0: // hidden addresses
		return namesakesOf(funcs, found), nil
	}
	return found, nil
}

// namesakesOf returns functions with what is found about their names.
func namesakesOf(funcs, found []kernel.Function) []kernel.Function {
	funcs = slices.Clone(funcs)
	for i := range funcs {
		f := &funcs[i]
		if j := slices.IndexFunc(found, func(o kernel.Function) bool { return o.Name == f.Name && o.Module == f.Module }); j >= 0 {
			f.Namesakes, f.Shared = found[j].Namesakes, found[j].Shared
		}
	}
	return funcs
}

// signatureHint names the first type of a selector that the kernel does not have.
func signatureHint(view *kernel.View, sel expr.Selector) string {
	for _, w := range sel.Signature {
		if t, err := expr.LookupType(w.Type.Name, kernelTypes{view, ""}); err != nil || t != nil {
			continue
		}
		hint := "the kernel has no type " + strconv.Quote(w.Type.Name)
		bare := w.Type.Name[strings.LastIndexByte(w.Type.Name, ' ')+1:]
		for _, kind := range []string{"struct ", "union ", "enum ", ""} {
			if found, err := view.TypesByName(kind+bare, ""); err == nil && len(found) > 0 {
				return hint + ", but there is " + strconv.Quote(kind+bare)
			}
		}
		return hint
	}
	return ""
}

// named returns the functions that a selector names.
func named(view *kernel.View, sel expr.Selector, o Options) (funcs []kernel.Function, err error) {
	having, err := having(view, sel)
	switch {
	case err != nil:
		return nil, err
	case sel.Kind == expr.Syscall:
		calls, err := syscalls(view, sel.Name, o.Arch)
		for _, c := range calls {
			funcs = append(funcs, c.f)
		}
		return funcs, err
	case sel.Path != "":
		funcs, err = definedIn(view, sel.Path, o.Sources)
	case len(sel.Signature) > 0 && view.HasSymbols():
		return view.Select(func(f kernel.Function) bool { // types are only read for functions whose names match
			return glob.Match(sel.Name, f.Name) && (sel.Module == "" || f.Module != "" && glob.Match(sel.Module, f.Module)) && having(f)
		})
	default:
		funcs, err = view.Match(sel.Name, sel.Module)
		if err == nil && !o.Described && !glob.Is(sel.Name) {
			funcs, err = located(view, funcs)
		}
	}
	return slices.DeleteFunc(funcs, func(f kernel.Function) bool { return !having(f) }), err
}

// withoutDenied returns the functions that no denial matches.
func withoutDenied(view *kernel.View, funcs []kernel.Function, o Options) ([]kernel.Function, error) {
	if len(o.Deny) == 0 {
		return funcs, nil
	}
	denied, err := o.denials(view)
	if err != nil {
		return nil, err
	}
	// A function that was asked for by its full name may have no address yet.
	if denied.byPath() && slices.ContainsFunc(funcs, func(f kernel.Function) bool { return f.Addr == 0 }) {
		if funcs, err = view.Locate(funcs); err != nil {
			return nil, fmt.Errorf("leaving out what is defined in some files: %w", err)
		}
	}
	return slices.DeleteFunc(funcs, func(f kernel.Function) bool { return denied.apply(f) != nil }), nil
}
