// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/glob"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/ptregs"
	"github.com/ksnoop/ksnoop/internal/suggest"
	"github.com/ksnoop/ksnoop/layout"
)

// A Hook says what a probe is on if it is not simply a function. The zero value means a
// function.
type Hook struct {
	Kind   expr.Kind
	System string `json:",omitempty"` // of a tracepoint: its group
	Name   string `json:",omitempty"`
	Offset uint64 `json:",omitempty"` // of an instruction: bytes from the start of the function
	// Fields are the fields of a tracepoint, or the parameters of a system call; nil if
	// unknown.
	Fields []kernel.Field `json:",omitempty"`
	// Inlined says that the instruction is the start of an inlined copy of function Name in
	// Func.
	Inlined bool              `json:",omitempty"`
	Params  []debuginfo.Param `json:",omitempty"` // of the inlined function
}

// check rejects a hook that no SPEC can lead to. A recording may contain one.
func (h *Hook) check(f kernel.Function) error {
	if !h.Kind.Known() {
		return fmt.Errorf("%s: no kind of target has the number %d", f, h.Kind)
	}
	if proto := protoOf(f); h.Kind == expr.RawTracepoint && (proto == nil || len(proto.Params) == 0) {
		return fmt.Errorf("%s: its types do not say what rawtp:%s is called with", f, h.Name)
	}
	return nil
}

// label returns the selector that a SPEC would use for the hook.
func (h *Hook) label() string {
	return expr.Selector{Kind: h.Kind, System: h.System, Name: h.Name, Offset: h.Offset}.String()
}

// Signature returns the probe's signature as a C function, or nil if unknown.
func (p *Probe) Signature() *btf.FuncProto {
	if p.Hook.Kind == expr.Function || p.Hook.Kind == expr.Instruction {
		return protoOf(p.Func)
	}
	if p.Hook.Kind == expr.Syscall && p.Hook.Fields == nil {
		return nil
	}
	proto := &btf.FuncProto{Return: p.Result}
	if p.Result == nil {
		proto.Return = &btf.Void{}
	}
	for _, param := range p.Params[:len(p.Params)-p.hidden] {
		t := param.Type
		if param.Form != expr.Plain {
			t = &btf.Pointer{Target: t}
		}
		proto.Params = append(proto.Params, btf.FuncParam{Name: param.Name, Type: t})
	}
	return proto
}

// A candidate is something that a selector matched.
type candidate struct {
	f kernel.Function
	Hook
}

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
		return nil, fault(nearestHint(name, names()), "there is no %s %q", what, name)
	}
	n := len(found)
	found = slices.DeleteFunc(found, func(c candidate) bool { return deniedHook(&c.Hook, o.Deny) })
	if len(found) == 0 {
		return nil, fault("", "all %d %ss that match are denied", n, what)
	}
	return found, nil
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

func deniedHook(h *Hook, deny []expr.Selector) bool {
	return slices.ContainsFunc(deny, func(d expr.Selector) bool {
		return d.Kind == h.Kind && glob.Match(d.Name, h.Name) && (h.Kind != expr.Tracepoint || glob.Match(d.System, h.System))
	})
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

// renamed are prefixes and suffixes that distinguish the kernel's newer versions of system
// calls from the C library's names.
var renamed = []string{"", "new", "64"}

// syscalls returns the system calls that match a name or glob. A name of the C library
// may have another name in the kernel: see renamed.
func syscalls(view *kernel.View, name, arch string) (found []candidate, err error) {
	for _, affix := range renamed {
		wanted := affix + name
		if affix == "64" {
			wanted = name + affix
		}
		calls, err := view.Syscalls(wanted, arch)
		for _, c := range calls {
			found = append(found, candidate{c.Func, Hook{Kind: expr.Syscall, Name: c.Name, Fields: c.Params}})
		}
		if err != nil || len(found) > 0 {
			return found, err
		}
	}
	return found, nil
}

// tracepoints returns the tracepoints that match two globs.
func tracepoints(view *kernel.View, system, name string) (found []candidate, err error) {
	points, err := view.Tracepoints(system, name)
	for _, p := range points {
		found = append(found, candidate{kernel.Function{Name: p.Name}, Hook{Kind: expr.Tracepoint, System: p.System, Name: p.Name, Fields: p.Fields}})
	}
	return found, err
}

// rawTracepoints returns the raw tracepoints that match a glob.
func rawTracepoints(view *kernel.View, name string) (found []candidate, err error) {
	points, err := view.RawTracepoints(name)
	for _, p := range points {
		found = append(found, candidate{p, Hook{Kind: expr.RawTracepoint, Name: p.Name}})
	}
	return found, err
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
		if s, ok := view.Symbol(f.Addr + sel.Offset); ok && f.Addr != 0 && sel.Offset != 0 && s.Addr != f.Addr {
			return nil, fault("it ends before "+s.Name, "there is no instruction %#x of %s", sel.Offset, f.Name)
		}
	}
	return []candidate{{f, Hook{Kind: expr.Instruction, Name: f.Name, Offset: sel.Offset}}}, nil
}

// declare declares the parameters and the result of a hook, and where they are.
func (p *Probe) declare(scope *expr.Scope, arch string) {
	switch p.Hook.Kind {
	case expr.Function:
		p.declareFunction(scope, arch)
	case expr.Syscall:
		p.declareSyscall(scope, arch)
	case expr.Tracepoint:
		scope.Point = true
		for _, f := range p.Hook.Fields {
			p.addStored(field(scope.Types, f, p.Hook.System == "syscalls"))
		}
	case expr.RawTracepoint:
		scope.Point = true
		p.Params = layout.ParamsOf(protoOf(p.Func).Params[1:], nil, arch)
	case expr.Instruction:
		scope.Point = true
		if p.Hook.Inlined {
			scope.Inlined = true
			p.declareInlined(scope.Types, arch)
			break
		}
		if p.Hook.Offset == 0 && protoOf(p.Func) != nil {
			p.declareFunction(scope, arch)
			p.Result = nil
		}
		for i, name := range ptregs.Names(arch) {
			if name != "" {
				p.addStored(expr.Param{Name: "$" + name, Type: layout.Word(), Base: record, Off: int64(8 * i)})
			}
		}
	}
	scope.Return = p.Result
	for _, param := range p.Params[:len(p.Params)-p.hidden] {
		scope.Params = append(scope.Params, param.Param)
	}
}

// declareFunction declares the contents of a function's registers and stack.
func (p *Probe) declareFunction(scope *expr.Scope, arch string) {
	var typed bool
	p.Params, p.Result, typed = signature(p.Func, arch)
	scope.Untyped = !typed
	layout.DeclareResult(scope, p.Result, arch)
}

// record is the address of what a program is handed.
var record = &expr.ContextTerm{T: &btf.Pointer{Target: &btf.Void{}}, Var: expr.ContextRecord}

func (p *Probe) addStored(param expr.Param) {
	p.Params = append(p.Params, layout.Param{Param: param, Loc: layout.Loc{Reg: -1}})
}

// declareSyscall declares the parameters of a system call. They are in user space's saved
// registers, the address of which is the only parameter of the function that serves the
// call. That parameter comes last here and has no name for SPECs.
func (p *Probe) declareSyscall(scope *expr.Scope, arch string) {
	fields := p.Hook.Fields
	if fields == nil {
		scope.Untyped = true
		for range ptregs.SyscallArguments(arch) {
			fields = append(fields, kernel.Field{Decl: "unsigned long", Size: 8})
		}
	}
	regs := btf.Type(&btf.Pointer{Target: &btf.Void{}})
	if proto := protoOf(p.Func); proto != nil && len(proto.Params) > 0 {
		regs = proto.Params[0].Type
	} else if found, err := scope.Types.TypesByName("struct pt_regs"); err == nil && len(found) > 0 {
		regs = &btf.Pointer{Target: found[0]}
	}
	base := &expr.Arg{T: regs, Index: min(len(fields), len(ptregs.SyscallArguments(arch))), Width: 8}
	for i, word := range ptregs.SyscallArguments(arch)[:base.Index] {
		param := field(scope.Types, fields[i], true)
		param.Base, param.Off = base, int64(8*word)
		p.addStored(param)
	}
	p.Params = append(p.Params, layout.Param{Param: expr.Param{Name: "registers", Type: regs}, Loc: layout.Loc{Slots: 1}})
	p.hidden = 1
	p.Result = &btf.Int{Name: "long int", Size: 8, Encoding: btf.Signed}
}
