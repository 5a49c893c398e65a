// SPDX-License-Identifier: Apache-2.0

package codegen_test

import (
	"fmt"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// A program asks whether tracing is on. Then a predicate on an argument is a load and a
// jump; every instruction carries the text that it stands for.
func ExampleCompile() {
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	fd := expr.Param{Name: "fd", Type: integer}
	spec, err := expr.Parse("close(fd < 0)")
	if err != nil {
		fmt.Println(err)
		return
	}
	items, err := expr.Check(spec, &expr.Scope{Func: "close", Params: []expr.Param{fd}})
	if err != nil {
		fmt.Println(err)
		return
	}
	probe := &layout.Probe{
		Name:   "close",
		Spec:   spec,
		Params: []layout.Param{{Param: fd, Loc: layout.Loc{Slots: 1}}},
		Items:  items,
		Method: layout.MethodFentry,
		Entry:  &layout.Half{Predicates: []layout.Predicate{{Term: items[0].Predicate}}, Record: &layout.Record{}},
	}
	programs, err := codegen.Compile(probe, codegen.Options{Arch: "amd64"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, ins := range programs.Entry[0].Insns[:5] {
		fmt.Printf("%v; %v\n", ins, ins.Source())
	}
	// Output:
	// LdXMemDW dst: r0 src: r1 off: 0 imm: 0; fd < 0
	// JSGE32Imm dst: r0 off: -1 imm: 0 <.entry_drop1>; fd < 0
	// LoadMapValue dst: r0, fd: 0 off: 0 <.data.switch>; is tracing on?
	// LdXMemW dst: r0 src: r0 off: 0 imm: 0; is tracing on?
	// JNEImm dst: r0 off: -1 imm: 1 <.entry_drop1>; is tracing on?
}

// A condition is a function for a program of one's own: it returns 1 for calls that are
// wanted. It needs no part of ksnoop's engine.
func ExampleCondition() {
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	proto := &btf.FuncProto{Return: integer, Params: []btf.FuncParam{{Name: "fd", Type: integer}}}
	spec, err := expr.Parse("close(fd < 0 || fd > 1000)")
	if err != nil {
		fmt.Println(err)
		return
	}
	probe := &layout.Probe{Name: "close", Spec: spec, Method: layout.MethodFentry,
		Params: layout.ParamsOf(proto.Params, proto.Return, "amd64")}
	scope := &expr.Scope{Func: "close", Params: []expr.Param{probe.Params[0].Param}}
	if probe.Items, err = expr.Check(spec, scope); err != nil {
		fmt.Println(err)
		return
	}
	functions, err := codegen.Condition("wanted", probe,
		[]layout.Predicate{{Term: probe.Items[0].Predicate}}, codegen.Options{Arch: "amd64"})
	if err != nil {
		fmt.Println(err)
		return
	}
	code, err := bpf.Link(functions...)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(functions[0].Name, "has", len(code), "instructions")
	for _, ins := range code {
		fmt.Println(ins)
	}
	// Output:
	// wanted has 8 instructions
	// LdXMemDW dst: r0 src: r1 off: 0 imm: 0
	// JSLT32Imm dst: r0 off: -1 imm: 0 <.wanted_decided3>
	// LdXMemDW dst: r0 src: r1 off: 0 imm: 0
	// JSLE32Imm dst: r0 off: -1 imm: 1000 <.wanted_drop1>
	// MovImm dst: r0 imm: 1
	// Exit
	// MovImm dst: r0 imm: 0
	// Exit
}
