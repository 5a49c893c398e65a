// SPDX-License-Identifier: Apache-2.0

package btfprint_test

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/btfprint"
)

// routeType is a type as it would come out of a kernel's BTF.
func routeType() btf.Type {
	u32 := &btf.Typedef{Name: "u32", Type: &btf.Int{Name: "unsigned int", Size: 4}}
	state := &btf.Enum{Name: "state", Size: 4, Values: []btf.EnumValue{{Name: "DOWN"}, {Name: "UP", Value: 1}}}
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}
	return &btf.Struct{Name: "route", Size: 24, Members: []btf.Member{
		{Name: "state", Type: state},
		{Name: "metric", Type: u32, Offset: 32},
		{Name: "dev", Type: &btf.Array{Index: u32, Type: char, Nelems: 8}, Offset: 64},
		{Name: "next", Type: &btf.Pointer{Target: &btf.Struct{Name: "route"}}, Offset: 128},
	}}
}

func routeBytes(metric uint32) []byte {
	raw := binary.LittleEndian.AppendUint32([]byte{1, 0, 0, 0}, metric)
	raw = append(raw, "eth0\x00\x00\x00\x00"...)
	return binary.LittleEndian.AppendUint64(raw, 0xffff888000001000)
}

func ExamplePrinter_AppendValue() {
	p, err := btfprint.Compile(routeType(), binary.LittleEndian)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", p.AppendValue(nil, routeBytes(100), nil))
	fmt.Printf("%s\n", p.AppendValue(nil, routeBytes(0), &btfprint.ValueOptions{Mode: btfprint.Compact, Hide: btfprint.HideTypes}))
	fmt.Printf("%s\n", p.AppendValue(nil, routeBytes(100)[:10], &btfprint.ValueOptions{Mode: btfprint.Compact}))
	// Output:
	// (struct route){
	// 	.state = (enum state)UP,
	// 	.metric = (u32)100,
	// 	.dev = (char[8])"eth0",
	// 	.next = (struct route *)0xffff888000001000,
	// }
	// {.state = UP,.dev = "eth0",.next = 0xffff888000001000,}
	// (struct route){.state = (enum state)UP,.metric = (u32)100,.dev = (char[8])"et"...
}

func ExamplePrinter_AppendJSON() {
	p, err := btfprint.Compile(routeType(), binary.LittleEndian)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", p.AppendJSON(nil, routeBytes(100), nil))
	// Output: {"state":"UP","metric":100,"dev":"eth0","next":"0xffff888000001000"}
}

func ExamplePrinter_AppendDiff() {
	p, err := btfprint.Compile(routeType(), binary.LittleEndian)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s", p.AppendDiff(nil, routeBytes(0), routeBytes(768), nil))
	// Output: .metric: 0 → 768
}

func ExampleAppendType() {
	fmt.Printf("%s\n", btfprint.AppendType(nil, routeType(), btfprint.TypeOptions{NoLayout: true}))
	// Output:
	// struct route {
	// 	enum state state;
	// 	u32 metric;
	// 	char dev[8];
	// 	struct route * next;
	// };
}

// Options choose the form of the text and its limits. PointerName names addresses.
func ExampleValueOptions() {
	p, err := btfprint.Compile(routeType(), binary.LittleEndian)
	if err != nil {
		fmt.Println(err)
		return
	}
	o := &btfprint.ValueOptions{
		Mode: btfprint.Compact, Tight: true, Hide: btfprint.HideTypes, ShowZeroes: true, HexFrom: 256,
		PointerName: func(dst []byte, addr uint64) []byte {
			if addr == 0xffff888000001000 {
				dst = append(dst, "default_route"...)
			}
			return dst
		},
	}
	fmt.Printf("%s\n", p.AppendValue(nil, routeBytes(0), o))
	fmt.Printf("%s\n", p.AppendValue(nil, routeBytes(768), o))
	// Output:
	// {.state=UP,.metric=0,.dev="eth0",.next=0xffff888000001000 <default_route>}
	// {.state=UP,.metric=0x300,.dev="eth0",.next=0xffff888000001000 <default_route>}
}

func ExampleAppendDecl() {
	fmt.Printf("%s\n", btfprint.AppendDecl(nil, routeType().(*btf.Struct).Members[2].Type, "dev"))
	proto := &btf.FuncProto{Return: &btf.Void{}, Params: []btf.FuncParam{{Name: "r", Type: &btf.Pointer{Target: routeType()}}}}
	fmt.Printf("%s\n", btfprint.AppendDecl(nil, &btf.Pointer{Target: proto}, "free"))
	fmt.Printf("%s\n", btfprint.AppendTypeName(nil, &btf.Pointer{Target: proto}))
	fmt.Printf("%s\n", btfprint.AppendFunc(nil, "route_free", proto))
	// Output:
	// char dev[8]
	// void (*free)(struct route * r)
	// void (*)(struct route * r)
	// void route_free(struct route * r);
}
