// SPDX-License-Identifier: Apache-2.0

package completion

import (
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/btfprint"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/glob"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// A target is what a selector selects, as far as names and types go.
type target struct {
	scope   *expr.Scope
	module  string
	outline types
}

// types looks types up for package expr.
type types struct{ *kernel.Outline }

var _ expr.Types = types{}

// Enumerators implements expr.Types.
func (t types) Enumerators(name string) (out []expr.Enumerator, err error) {
	found, err := t.Outline.Enumerators(name)
	for _, e := range found {
		for _, v := range e.Values {
			if v.Name == name {
				out = append(out, expr.Enumerator{Enum: e, Value: v.Value})
			}
		}
	}
	return out, err
}

// mostOfGlob is how many functions that a glob selects give their parameters.
const mostOfGlob = 50

// target returns what a selector selects, or nil.
func (e *Engine) target(text string) *target {
	spec, err := expr.Parse(text)
	if err != nil {
		return nil
	}
	sel := spec.Selector
	if e.Recorded != nil {
		return e.recorded(sel)
	}
	if sel.Path != "" {
		return e.declared(kernel.Function{Name: text}, plan.Hook{})
	}
	switch sel.Kind {
	case expr.Syscall:
		return e.syscall(sel.Name)
	case expr.Tracepoint:
		points, err := e.View.Tracepoints(sel.System, sel.Name)
		if err != nil {
			return e.record(sel.Name)
		}
		if len(points) == 0 {
			return nil
		}
		p := points[0]
		return e.declared(kernel.Function{Name: p.Name}, plan.Hook{Kind: sel.Kind, System: p.System, Name: p.Name, Fields: p.Fields})
	case expr.Program:
		functions, _, _ := e.View.Programs()
		for _, f := range functions {
			if glob.Match(sel.Name, f.Name) && f.InProgram(sel.Module) {
				return e.declared(f, plan.Hook{})
			}
		}
		return nil
	case expr.StaticProbe:
		return e.staticProbe(sel)
	case expr.UserFunction:
		return e.userFunction(sel)
	case expr.RawTracepoint:
		for name, f := range e.View.RawTracepointsNamed(glob.Prefix(sel.Name)) {
			if glob.Match(sel.Name, name) {
				return e.declared(kernel.Function{Name: name, Module: f.Module, Type: e.outline(f.Module).Function(f)}, plan.Hook{Kind: sel.Kind, Name: name})
			}
		}
		return nil
	}
	return e.functions(sel)
}

// outline returns the types that a module knows. It is the same one for all look-ups.
func (e *Engine) outline(module string) types {
	if e.outlines == nil {
		e.outlines = map[string]types{}
	}
	if _, ok := e.outlines[module]; !ok {
		e.outlines[module] = types{e.View.Outline(module)}
	}
	return e.outlines[module]
}

// declared returns a target of a hook, or nil.
func (e *Engine) declared(f kernel.Function, h plan.Hook) *target {
	t := &target{module: f.Module, outline: e.outline(f.Module)}
	var err error
	if t.scope, err = plan.Declared(f, h, t.outline, e.Arch); err != nil {
		return nil
	}
	return t
}

// syscall returns a system call, which the kernel may call otherwise than the C library.
func (e *Engine) syscall(pattern string) *target {
	for _, name := range []string{pattern, "new" + pattern, pattern + "64"} {
		for _, found := range e.View.SyscallsCalled(glob.Prefix(name), e.Arch) {
			if glob.Match(name, found) {
				if fields := e.View.SyscallFields(found); fields != nil {
					return e.declared(kernel.Function{Name: found}, plan.Hook{Kind: expr.Syscall, Name: found, Fields: fields})
				}
				return e.serving(found)
			}
		}
	}
	return nil
}

// serving returns a system call by the kernel's function for it, since tracefs is root's to read.
func (e *Engine) serving(name string) *target {
	for f := range e.View.FunctionsNamed("__do_sys_"+name, "") {
		if f.Name == "__do_sys_"+name {
			typ := e.outline("").Function(f)
			return e.declared(kernel.Function{Name: name, Type: typ}, plan.Hook{})
		}
	}
	return e.declared(kernel.Function{Name: name}, plan.Hook{Kind: expr.Syscall, Name: name})
}

// record returns a tracepoint by the type of its record, since tracefs is root's to read. Tracepoints that
// share the type of another one have no fields then.
func (e *Engine) record(name string) *target {
	t := &target{outline: e.outline(""), scope: &expr.Scope{Func: name, Point: true, Types: e.outline("")}}
	found, err := t.outline.TypesByName("struct trace_event_raw_" + name)
	if err != nil || len(found) == 0 {
		return t
	}
	for m := range expr.Members(found[0]) {
		name, array := strings.CutPrefix(m.Name, "__data_loc_")
		if array {
			m.Type = &btf.Pointer{Target: &btf.Int{Name: "char", Size: 1}}
		}
		if name != "ent" && name != "__data" {
			t.scope.Params = append(t.scope.Params, expr.Param{Name: name, Type: m.Type})
		}
	}
	return t
}

// functions returns the functions that a selector selects as one target: with the parameters of all
// of them, since those that lack what is asked for are left out.
func (e *Engine) functions(sel expr.Selector) *target {
	hook := plan.Hook{}
	if sel.Kind == expr.Instruction {
		hook = plan.Hook{Kind: sel.Kind, Name: sel.Name, Offset: sel.Offset}
	}
	var all *target
	n := 0
	for f := range e.View.FunctionsNamed(glob.Prefix(sel.Name), sel.Module) {
		if !glob.Match(sel.Name, f.Name) {
			continue
		}
		typ := e.outline(f.Module).Function(f)
		if typ == nil || !having(typ, sel.Signature) {
			continue
		}
		t := e.declared(kernel.Function{Name: f.Name, Module: f.Module, Type: typ}, hook)
		if t == nil {
			continue
		}
		all = all.with(t)
		if n++; n == mostOfGlob || !glob.Is(sel.Name) {
			break
		}
	}
	return all
}

// having reports whether a function takes and returns the types of a signature.
func having(f *btf.Func, wanted []expr.Wanted) bool {
	proto, ok := f.Type.(*btf.FuncProto)
	for _, w := range wanted {
		is := func(t btf.Type) bool {
			return slices.ContainsFunc(w.Type.Names(), func(name string) bool {
				return spelled(t) == strings.TrimSpace(name+" "+strings.Repeat("*", w.Type.Stars))
			})
		}
		ok = ok && (w.Return && is(proto.Return) || !w.Return && slices.ContainsFunc(proto.Params, func(p btf.FuncParam) bool { return is(p.Type) }))
	}
	return ok
}

// with adds the parameters of another target.
func (t *target) with(other *target) *target {
	if t == nil {
		return other
	}
	for _, p := range other.scope.Params {
		if p.Name != "" && !slices.ContainsFunc(t.scope.Params, func(o expr.Param) bool { return o.Name == p.Name }) {
			t.scope.Params = append(t.scope.Params, p)
		}
	}
	if t.scope.Return == nil {
		t.scope.Return = other.scope.Return
	}
	return t
}

// recorded returns what a selector selects in a recording.
func (e *Engine) recorded(sel expr.Selector) (all *target) {
	selected, err := plan.Selecting(e.View, sel)
	if err != nil {
		return nil
	}
	for _, p := range e.Recorded.Probes {
		if selected(p) {
			if t := e.declared(p.Func, p.Hook); t != nil {
				all = all.with(t)
			}
		}
	}
	return all
}

// spelled returns a type as C spells it.
func spelled(t btf.Type) string {
	if t == nil {
		return "void"
	}
	return string(btfprint.AppendTypeName(nil, t))
}

// signatureOf describes a function in a line.
func signatureOf(f *btf.Func) string {
	proto, ok := f.Type.(*btf.FuncProto)
	if !ok {
		return ""
	}
	text := strings.TrimSuffix(string(btfprint.AppendFunc(nil, f.Name, proto)), ";")
	return strings.ReplaceAll(text, "* ", "*")
}
