// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/layout"
)

// protoOf returns the signature in BTF, or nil.
func protoOf(f kernel.Function) *btf.FuncProto {
	if f.Type == nil {
		return nil
	}
	proto, _ := f.Type.Type.(*btf.FuncProto)
	return proto
}

// signature returns a function's parameters and its result type, nil for none. typed is
// false if only registers are known. types has those that the function's own may stand for.
func signature(f kernel.Function, types expr.Types, arch string) (params []layout.Param, result btf.Type, typed bool) {
	proto := protoOf(f)
	if proto != nil && f.InProgram("") {
		proto = passedTo(proto, types)
	}
	switch {
	case proto == nil && servesSyscall(f.Name):
		return layout.Untyped(arch), syscallResult, false
	case proto == nil:
		return layout.Untyped(arch), layout.Word(), false
	}
	if _, void := btf.UnderlyingType(proto.Return).(*btf.Void); !void && !f.Cut.Result {
		result = proto.Return
	}
	if f.Cut.Params {
		left := layout.Untyped(arch)
		return left[:min(max(f.Cut.Passed, 0), len(left))], result, true
	}
	return layout.ParamsOf(proto.Params, result, arch), result, true
}

// explainCut says why a SPEC cannot name what the compiler has taken away from a function.
func explainCut(f kernel.Function, scope *expr.Scope) {
	if f.Cut.Params {
		scope.Untyped = true
		scope.UntypedWhy = fmt.Sprintf("the compiler passes %d of its %d parameters, and nothing tells which: $arg1, $arg2 and so on are those", f.Cut.Passed, len(protoOf(f).Params))
	}
	if f.Cut.Result {
		scope.ReturnWhy = "is read by no caller, so that the compiler may have taken it away"
	}
}

// syscallResult is the result type of system calls.
var syscallResult = &btf.Int{Name: "long int", Size: 8, Encoding: btf.Signed}

// servesSyscall reports whether a name is one that the macros for system calls produce. BTF
// lacks many of these functions, but all return long.
func servesSyscall(name string) bool {
	name, ok := strings.CutPrefix(name, "__")
	if !ok {
		return false
	}
	abi, _, ok := strings.Cut(name, "_sys_")
	return ok && slices.Contains([]string{"x64", "ia32", "ia32_compat", "x32_compat", "arm64", "arm64_compat", "se", "do", "se_compat", "do_compat"}, abi)
}

// Signature returns the probe's signature as a C function, or nil if unknown.
func (p *Probe) Signature() *btf.FuncProto {
	if p.Hook.Kind == expr.UserFunction && p.Hook.Offset != 0 {
		return nil
	}
	if !p.InProgram && (p.Hook.Kind == expr.UserFunction || p.Hook.Kind == expr.Function || p.Hook.Kind == expr.Instruction) {
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
