// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/ptregs"
	"github.com/ksnoop/ksnoop/layout"
)

// Declared returns what a SPEC can name where a function, or a hook that is reached through it, is
// traced. types looks types up.
func Declared(f kernel.Function, h Hook, types expr.Types, arch string) (*expr.Scope, error) {
	if err := h.check(f); err != nil {
		return nil, err
	}
	scope := &expr.Scope{Func: f.Name, Arch: arch, Types: types}
	(&Probe{Func: f, Hook: h}).declare(scope, arch)
	return scope, nil
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
			scope.PointHint = "of a call that was inlined, only the beginning can be seen"
			p.declareInlined(scope.Types, arch)
			break
		}
		if p.Hook.Offset == 0 && protoOf(p.Func) != nil {
			p.declareFunction(scope, arch)
			p.Result = nil
		}
		p.addRegisters(arch)
	case expr.UserFunction:
		p.declareUser(scope, arch)
	case expr.StaticProbe:
		p.declareStatic(scope, arch)
	}
	scope.Return = p.Result
	for _, param := range p.Params[:len(p.Params)-p.hidden] {
		scope.Params = append(scope.Params, param.Param)
	}
}

// declareFunction declares the contents of a function's registers and stack.
func (p *Probe) declareFunction(scope *expr.Scope, arch string) {
	var typed bool
	p.Params, p.Result, typed = signature(p.Func, scope.Types, arch)
	scope.Untyped = !typed
	layout.DeclareResult(scope, p.Result, arch)
	if protoOf(p.Func) != nil {
		explainCut(p.Func, scope)
	}
}

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
