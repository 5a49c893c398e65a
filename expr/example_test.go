// SPDX-License-Identifier: Apache-2.0

package expr_test

import (
	"errors"
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

// skbType is struct sk_buff { unsigned int len; struct net_device *dev; }, as BTF
// would have it.
func skbType() *btf.Struct {
	u32 := &btf.Int{Name: "unsigned int", Size: 4}
	dev := &btf.Struct{Name: "net_device", Size: 16, Members: []btf.Member{
		{Name: "name", Type: &btf.Array{Index: u32, Type: &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}, Nelems: 16}},
	}}
	return &btf.Struct{Name: "sk_buff", Size: 16, Members: []btf.Member{
		{Name: "len", Type: u32},
		{Name: "dev", Type: &btf.Pointer{Target: dev}, Offset: 64},
	}}
}

// memory is a call whose only argument is the address 0x1000, and the bytes there.
type memory struct {
	expr.Machine
	bytes []byte
}

func (memory) Arg(_ int, off uint32, p []byte) {
	copy(p, []byte{0x00, 0x10, 0, 0, 0, 0, 0, 0}[off:])
}

func (m memory) Read(_ expr.Space, _ expr.Phase, addr uint64, p []byte) bool {
	off := addr - 0x1000
	if off+uint64(len(p)) > uint64(len(m.bytes)) {
		return false
	}
	copy(p, m.bytes[off:])
	return true
}

// A term reads memory through a Machine. Memory that cannot be read is a fault, and
// a predicate with a fault does not hold.
func ExampleEval() {
	scope := &expr.Scope{
		Func:   "ip_send_skb",
		Params: []expr.Param{{Name: "skb", Type: &btf.Pointer{Target: skbType()}}},
		Types:  noTypes{},
	}
	spec, err := expr.Parse(`ip_send_skb(skb->len == 84, skb->dev->name ~ "eth*")`)
	if err != nil {
		fmt.Println(err)
		return
	}
	items, err := expr.Check(spec, scope)
	if err != nil {
		fmt.Println(err)
		return
	}
	call := memory{bytes: []byte{84, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}} // dev is NULL
	for _, item := range items {
		fmt.Println(expr.Eval(item.Predicate, call))
	}
	// Output:
	// 1 <nil>
	// 0 unreadable memory
}

// Check reports all faults of a SPEC, each with its position and often with a hint.
func ExampleCheck_faults() {
	scope := &expr.Scope{
		Func:   "ip_send_skb",
		Params: []expr.Param{{Name: "skb", Type: &btf.Pointer{Target: skbType()}}},
		Types:  noTypes{},
	}
	spec, err := expr.Parse("ip_send_skb(skb->lenn == 84, skb.dev)")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = expr.Check(spec, scope)
	fmt.Println(err)
	var faults *expr.ErrorList
	if errors.As(err, &faults) {
		fmt.Println(faults.Errors[0].Code, faults.Errors[1].Code)
	}
	// Output:
	//   ip_send_skb(skb->lenn == 84, skb.dev)
	//                    ^~~~
	//   column 18: struct sk_buff has no member "lenn"; did you mean "len"?
	//   ip_send_skb(skb->lenn == 84, skb.dev)
	//                                    ^~~
	//   column 34: struct sk_buff * has no members; write "->"
	// unknown-member type
}

// Valid expressions that hardly mean what they say are warnings.
func ExampleScope_doubt() {
	scope := &expr.Scope{
		Func:   "ip_send_skb",
		Params: []expr.Param{{Name: "skb", Type: &btf.Pointer{Target: skbType()}}},
		Types:  noTypes{},
		Doubt:  func(d *expr.Error) { fmt.Println(d.Code, d) },
	}
	spec, err := expr.Parse("ip_send_skb(skb->len < 0)")
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := expr.Check(spec, scope); err != nil {
		fmt.Println(err)
	}
	// Output:
	// doubt this never holds: skb->len is unsigned int, which has no negative values; to read it as a signed number write (int)skb->len
}

// Format writes an expression with the parentheses that it needs.
func ExampleFormat() {
	spec, err := expr.Parse("f( (a+b)*c, !(flags&0x10) )")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, item := range spec.Items {
		fmt.Println(expr.Format(item))
	}
	// Output:
	// (a + b) * c
	// !(flags & 16)
}

func ExampleConstantOf() {
	fmt.Println(expr.ConstantOf("1 << 4 | 3", noTypes{}))
	fmt.Println(expr.ConstantOf("$pid", noTypes{}))
	// Output:
	// 19 true
	// 0 false
}
