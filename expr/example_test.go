// SPDX-License-Identifier: Apache-2.0

package expr_test

import (
	"fmt"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
)

func ExampleParse() {
	spec, err := expr.Parse("ip_send_skb( skb->len==84 ,return!=0 )")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(spec.Selector, len(spec.Items), "items")
	fmt.Println(spec)
	// Output:
	// ip_send_skb 2 items
	// ip_send_skb(skb->len == 84, return != 0)
}

func ExampleParse_faults() {
	_, err := expr.Parse("ip_send_skb(skb->len = 84)")
	fmt.Println(err)
	// Output:
	//   ip_send_skb(skb->len = 84)
	//                        ^
	//   column 22: unexpected "="; to compare, write "=="
}

// noTypes is a kernel without any named types.
type noTypes struct{}

func (noTypes) TypesByName(string) ([]btf.Type, error)        { return nil, nil }
func (noTypes) Enumerators(string) ([]expr.Enumerator, error) { return nil, nil }

// call is a call whose only argument is arg.
type call struct {
	expr.Machine
	arg uint64
}

func (c call) Arg(_ int, off uint32, p []byte) {
	for i := range p {
		p[i] = byte(c.arg >> (8 * (int(off) + i)))
	}
}

// A SPEC is checked against one function and computed for a call of it: here a
// number that is an int, and so negative, whatever its register holds above.
func ExampleCheck() {
	scope := &expr.Scope{
		Func:   "close",
		Params: []expr.Param{{Name: "fd", Type: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}}},
		Types:  noTypes{},
	}
	spec, err := expr.Parse("close(fd < 0, fd)")
	if err != nil {
		fmt.Println(err)
		return
	}
	items, err := expr.Check(spec, scope)
	if err != nil {
		fmt.Println(err)
		return
	}
	holds, err := expr.Eval(items[0].Predicate, call{arg: 0xffff_fff7})
	fmt.Println(expr.FormatTerm(items[0].Predicate, func(i int) string { return scope.Params[i].Name }), holds, err)
	fmt.Println(items[1].Captures[0].Label)
	// Output:
	// (fd < 0) 1 <nil>
	// fd
}
