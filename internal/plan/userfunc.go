// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/glob"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/ptregs"
	"github.com/ksnoop/ksnoop/internal/suggest"
	"github.com/ksnoop/ksnoop/internal/userfunc"
	"github.com/ksnoop/ksnoop/layout"
)

// maxUser bounds the functions of one SPEC. Each has a program and an event of its own, which the
// kernel takes a while to remove.
const maxUser = 256

// userFunctions returns the functions of user space that a SPEC selects.
func userFunctions(view *kernel.View, spec *expr.Spec, o Options) (found []candidate, err error) {
	sel := spec.Selector
	fault := func(code expr.Code, hint, format string, args ...any) error {
		return &expr.ErrorList{Text: spec.Text, Errors: []*expr.Error{{Code: code, Span: sel.Span, Msg: fmt.Sprintf(format, args...), Hint: hint}}}
	}
	if o.UserFile == nil {
		return nil, fault(expr.CodeUnknownFunc, "", "the file %s is only looked for where it is traced", sel.File)
	}
	file, err := o.UserFile(sel.File)
	if err != nil {
		return nil, fault(expr.CodeUnknownFunc, "", "%s: %v", sel.File, err)
	}
	all := file.Named(sel.Name)
	if len(all) == 0 {
		msg, hint := unknownUser(file, sel.Name)
		return nil, fault(expr.CodeUnknownFunc, hint, "%s", msg)
	}
	var chosen []userfunc.Function
	for i := range all {
		fn := &all[i]
		h := Hook{Kind: expr.UserFunction, File: file.Path, Identity: file.Identity, Name: fn.Name, Offset: sel.Offset, Go: file.Go}
		if fn.Version != "" && !fn.Default && fn.Name != sel.Name {
			h.Name += "@" + fn.Version
		}
		if slices.ContainsFunc(o.Deny, h.matchesUser) {
			continue
		}
		bad := error(nil)
		if fn.Chooser {
			bad = chooserError(fn.Name)
		} else if h.Place, err = file.Place(fn, sel.Offset); err != nil {
			bad = fmt.Errorf("there is no instruction %#x of %s: %w", sel.Offset, fn.Name, err)
		}
		if bad != nil && !glob.Is(sel.Name) {
			return nil, fault(expr.CodeUnknownFunc, hintOf(bad), "%v", bad)
		}
		chosen = append(chosen, *fn)
		found = append(found, candidate{f: kernel.Function{Name: fn.Name}, Hook: h, bad: bad, linked: fn.Addr})
	}
	switch {
	case len(found) == 0:
		return nil, fault(expr.CodeUnknownFunc, "", "%s", allDenied(len(all), "function{s}"))
	case len(found) > maxUser && !o.Listed:
		return nil, fault(expr.CodeLimit, "write a longer name; ksnoop info lists them", "%d functions of %s match, and no more than %d can be traced", len(found), sel.File, maxUser)
	}
	return found, describeUser(view, file, chosen, found, o)
}

// describeUser gives functions the types that debug info has of them. Without, they have registers.
func describeUser(view *kernel.View, file *userfunc.File, chosen []userfunc.Function, found []candidate, o Options) error {
	types, err := file.Types(chosen)
	if err != nil {
		o.untyped(file.Path, err)
		return nil
	}
	if types.Left > 0 {
		o.untyped(file.Path, fmt.Errorf("%s, the first because %w", plural.Of(types.Left, "function{s}"), types.Why))
	}
	module, function, err := view.AddUserFile(file.Path, types.Raw)
	if err != nil {
		return fmt.Errorf("the types of %s: %w", file.Path, err)
	}
	for i := range found {
		f := &found[i].f
		id, ok := types.Functions[found[i].linked]
		if !ok {
			continue
		}
		if f.Type, err = function(id); err != nil {
			return err
		}
		f.Module = module
	}
	return nil
}

// errGoReturns is why the end of calls of Go functions cannot be seen.
var errGoReturns = errors.New("a probe on the way back would crash a program in Go, which moves its stacks")

// A chooserError is why a function cannot be traced that the program chooses when it starts.
type chooserError string

func (e chooserError) Error() string {
	return fmt.Sprintf("%s is one of several functions, which the program chooses for the CPU when it starts (an IFUNC); the code of that name only chooses", string(e))
}

func hintOf(err error) string {
	if e, ok := err.(chooserError); ok {
		return fmt.Sprintf("trace those that it may choose, if they have names: %q, or what the program calls it from", "*"+string(e)+"_*")
	}
	return ""
}

// unknownUser explains why a file has no function that a name or glob selects.
func unknownUser(file *userfunc.File, name string) (msg, hint string) {
	n := 0
	for range file.Names() {
		n++
	}
	hint = suggest.DidYouMean(suggest.Nearest(name, file.Names()))
	what := "is called"
	if glob.Is(name) {
		what = "matches"
	}
	msg = fmt.Sprintf("no function of %s %s %q", file.Path, what, name)
	switch {
	case n == 0:
		msg += ": the file is stripped, and has no names of functions"
		hint = "functions of libraries that it calls have theirs: \"uprobe:libc.so.6:NAME\""
	case file.Stripped:
		msg += plural.Text(n, ": the file is stripped, and has the name{s} of ") + plural.Of(n, "function{s} that other files use")
	}
	return msg, hint
}

// matchesUser reports whether a selector matches a function or mark of user space.
func (h *Hook) matchesUser(d expr.Selector) bool {
	return d.Kind == h.Kind && (d.Kind == expr.UserFunction || d.Kind == expr.StaticProbe && glob.Match(d.System, h.System)) && glob.Match(d.Name, h.Name) && d.Offset == h.Offset &&
		(d.File == h.File || filepath.Base(d.File) == filepath.Base(h.File))
}

// goArguments are the registers that Go passes integers and pointers in (ABIInternal), in order.
// It is never changed.
var goArguments = map[string][]string{
	"amd64": {"ax", "bx", "cx", "di", "si", "r8", "r9", "r10", "r11"},
	"arm64": {"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15"},
}

// declareUser declares what a function of user space is called with, and the registers.
func (p *Probe) declareUser(scope *expr.Scope, arch string) {
	scope.User = true
	scope.Untyped = protoOf(p.Func) == nil
	p.Point = p.Hook.Offset != 0 || p.Hook.Go
	scope.Point = p.Point
	switch {
	case p.Hook.Offset != 0:
	case !scope.Untyped:
		p.declareFunction(scope, arch)
		if len(p.Params) == 0 {
			return // registers alone would be taken for parameters
		}
	case p.Hook.Go:
		scope.PointHint = errGoReturns.Error()
		for _, word := range ptregs.Words(arch, goArguments[arch]...) {
			p.addStored(expr.Param{Type: layout.Word(), Base: record, Off: int64(8 * word)})
		}
	default:
		p.Params, p.Result = layout.Untyped(arch), layout.Word()
	}
	p.addRegisters(arch)
}

// addRegisters declares the registers, by their names.
func (p *Probe) addRegisters(arch string) {
	for i, name := range ptregs.Names(arch) {
		if name != "" {
			p.addStored(expr.Param{Name: "$" + name, Type: layout.Word(), Base: record, Off: int64(8 * i)})
		}
	}
}
