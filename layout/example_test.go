// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"fmt"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

var (
	long  = &btf.Int{Name: "long int", Size: 8, Encoding: btf.Signed}
	ulong = &btf.Int{Name: "long unsigned int", Size: 8}
)

// A struct of three longs is copied to the stack on amd64. On arm64, the address of a
// copy is passed in a register.
func ExampleParamsOf() {
	big := &btf.Struct{Name: "big", Size: 24, Members: []btf.Member{
		{Name: "a", Type: long}, {Name: "b", Type: long, Offset: 64}, {Name: "c", Type: long, Offset: 128}}}
	params := []btf.FuncParam{{Name: "fd", Type: long}, {Name: "arg", Type: big}, {Name: "flags", Type: ulong}}
	for _, arch := range []string{"amd64", "arm64"} {
		for _, p := range layout.ParamsOf(params, long, arch) {
			fmt.Printf("%s %s: register %d, stack %d, by address %t\n", arch, p.Name, p.Loc.Reg, p.Loc.Stack, p.Loc.Ref)
		}
	}
	// Output:
	// amd64 fd: register 0, stack 0, by address false
	// amd64 arg: register -1, stack 8, by address false
	// amd64 flags: register 1, stack 0, by address false
	// arm64 fd: register 0, stack 0, by address false
	// arm64 arg: register 1, stack 0, by address true
	// arm64 flags: register 2, stack 0, by address false
}

// The predicate needs the result, so a call is one record. A kprobe no longer shows the
// arguments at return: entry keeps count, and return sends it.
func ExampleProbe_Lay() {
	spec, err := expr.Parse("vfs_read(count, return < 0)")
	if err != nil {
		fmt.Println(err)
		return
	}
	probe := &layout.Probe{
		Name: "vfs_read", Spec: spec, Method: layout.MethodKprobe, Result: long,
		Params: layout.ParamsOf([]btf.FuncParam{{Name: "count", Type: ulong}}, long, "amd64"),
	}
	scope := &expr.Scope{Func: "vfs_read", Return: long}
	for _, p := range probe.Params {
		scope.Params = append(scope.Params, p.Param)
	}
	if probe.Items, err = expr.Check(spec, scope); err != nil {
		fmt.Println(err)
		return
	}
	if err := probe.Lay(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("one record:", probe.Joined, "of", probe.RecordSize(), "bytes")
	for _, half := range []*layout.Half{probe.Entry, probe.Return} {
		fmt.Println(len(half.Predicates), "predicates")
		for _, s := range half.Stores {
			fmt.Printf("  %s at byte %d\n", probe.Items[s.Item].Captures[s.Capture].Label, s.Off)
		}
	}
	// Output:
	// one record: true of 16 bytes
	// 0 predicates
	//   count at byte 0
	// 1 predicates
	//   return at byte 8
}

// NULL is no failure of a function that looks up a directory entry.
func ExampleClassOf() {
	file := &btf.Pointer{Target: &btf.Struct{Name: "file"}}
	dentry := &btf.Pointer{Target: &btf.Struct{Name: "dentry"}}
	fmt.Println(layout.ClassOf("fget", file).Failed(0))
	fmt.Println(layout.ClassOf("d_lookup", dentry).Failed(0))
	enomem := -12
	fmt.Println(layout.ClassOf("d_lookup", dentry).Failed(uint64(enomem)))
	// Output:
	// true
	// false
	// true
}
