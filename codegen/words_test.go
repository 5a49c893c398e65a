// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"slices"
	"strings"
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

// TestSplitWords: of a struct that System V passes in registers of both kinds, the number is read from
// its general register, and the float is refused. A result is read in the same way.
func TestSplitWords(t *testing.T) {
	double := &btf.Float{Name: "double", Size: 8}
	mix := &btf.Struct{Name: "mix", Size: 16, Members: []btf.Member{{Name: "d", Type: double}, {Name: "l", Type: long, Offset: 64}}}
	xim := &btf.Struct{Name: "xim", Size: 16, Members: []btf.Member{{Name: "l", Type: long}, {Name: "d", Type: double, Offset: 64}}}
	ax, dx, si, cx := int16(80), int16(96), int16(104), int16(88) // offsets in struct pt_regs
	for _, tt := range []struct {
		text  string
		of    *btf.Struct
		want  int16 // the register that is read
		fault string
	}{
		{"uprobe:f:f(m.l)", mix, si, ""},
		{"uprobe:f:f(m.l > 1)", xim, si, ""},
		{"uprobe:f:f(behind)", mix, dx, ""},
		{"uprobe:f:f(return.l)", mix, ax, ""},
		{"uprobe:f:f(count()[return.l])", xim, ax, ""},
		{"uprobe:f:f(m.d)", mix, 0, "m of f is partly passed in floating-point registers"},
		{"uprobe:f:f(behind > 1, m)", xim, 0, "m of f is partly passed"},
		{"uprobe:f:f(return)", mix, 0, "what f returns is partly passed"},
	} {
		spec, err := expr.Parse(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		p := &layout.Probe{Name: "f", Function: "f", Spec: spec, Result: tt.of, Method: layout.MethodUprobe}
		p.Params = layout.ParamsOf([]btf.FuncParam{{Name: "before", Type: long}, {Name: "m", Type: tt.of}, {Name: "behind", Type: long}}, tt.of, "amd64")
		scope := &expr.Scope{Func: "f", Return: tt.of, Types: noTypes{}}
		layout.DeclareResult(scope, tt.of, "amd64")
		for _, param := range p.Params {
			scope.Params = append(scope.Params, param.Param)
		}
		if p.Items, err = expr.Check(spec, scope); tt.fault != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%s: %v, want %q", tt.text, err, tt.fault)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Lay(); err != nil {
			t.Fatal(err)
		}
		programs, err := Compile(p, Options{Arch: "amd64"})
		if err != nil {
			t.Fatal(err)
		}
		read := map[int16]bool{}
		for _, f := range slices.Concat(programs.Entry, programs.Return) {
			for _, ins := range f.Insns {
				if op := ins.OpCode; op.Class() == asm.LdXClass && op.Size() == asm.DWord {
					read[ins.Offset] = true
				}
			}
		}
		for _, reg := range []int16{ax, dx, si, cx} {
			if read[reg] != (reg == tt.want) {
				t.Errorf("%s reads the register at %d: %v", tt.text, reg, read[reg])
			}
		}
	}
	scope := &expr.Scope{Func: "f", Return: mix, ReturnLost: 1, Types: noTypes{}, Params: []expr.Param{{Name: "m", Type: mix, Lost: 1}, {Name: "n", Type: long}}}
	spec, _ := expr.Parse("f")
	if items, err := expr.Check(spec, scope); err != nil || len(items) != 1 {
		t.Errorf("all that can be shown of f: %d items, %v", len(items), err)
	}
}
