// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// A program on a trampoline may load neither the result behind twelve words of
// parameters nor a number of two words from its context (tracing_prog_ctx_access and
// btf_ctx_access of the kernel): helpers have them.
func TestWordsByHelpers(t *testing.T) {
	int128 := &btf.Int{Name: "__int128", Size: 16, Encoding: btf.Signed}
	for _, tt := range []struct {
		text   string
		params []btf.Type
		helper asm.BuiltinFunc
		want   bool
	}{
		{"f(return)", slices.Repeat([]btf.Type{long}, 12), asm.FnGetFuncRet, true},
		{"f(return)", slices.Repeat([]btf.Type{long}, 11), asm.FnGetFuncRet, false},
		{"f($arg2)", []btf.Type{long, int128}, asm.FnGetFuncArg, true},
		{"f($arg1)", []btf.Type{long, int128}, asm.FnGetFuncArg, false},
	} {
		spec, err := expr.Parse(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		p := &layout.Probe{Name: "f", Function: "f", Spec: spec, Result: long, Method: layout.MethodFentry}
		scope, slot := &expr.Scope{Func: "f", Return: long, Types: noTypes{}}, 0
		for _, typ := range tt.params {
			size, _ := btf.Sizeof(typ)
			param := layout.Param{Param: expr.Param{Type: typ}, Loc: layout.Loc{Slot: slot, Slots: size / 8, Reg: slot}}
			p.Params, scope.Params = append(p.Params, param), append(scope.Params, param.Param)
			slot += size / 8
		}
		if p.Items, err = expr.Check(spec, scope); err != nil {
			t.Fatal(err)
		}
		if err := p.Lay(); err != nil {
			t.Fatal(err)
		}
		programs, err := Compile(p, Options{Arch: "amd64"})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range slices.Concat(programs.Entry, programs.Return) {
			found = found || slices.Contains(calls(f.Insns), tt.helper.String())
		}
		if found != tt.want {
			t.Errorf("%s of %d parameters calls %s: %v", tt.text, len(tt.params), tt.helper, found)
		}
	}
}
