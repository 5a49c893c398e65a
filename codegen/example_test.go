// SPDX-License-Identifier: Apache-2.0

package codegen_test

import (
	"fmt"

	"github.com/cilium/ebpf/btf"

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
	programs, err := codegen.Compile(probe, codegen.Target{Arch: "amd64"})
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
