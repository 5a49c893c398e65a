// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"fmt"

	"github.com/cilium/ebpf/btf"
)

// The types of the tests: a kernel of a few structs, with what is awkward in
// the real one.
var (
	testU8     = &btf.Typedef{Name: "u8", Type: &btf.Int{Name: "unsigned char", Size: 1}}
	testU16    = &btf.Typedef{Name: "u16", Type: &btf.Int{Name: "short unsigned int", Size: 2}}
	testU32    = &btf.Typedef{Name: "u32", Type: typeUint}
	testS8     = &btf.Typedef{Name: "s8", Type: &btf.Int{Name: "signed char", Size: 1, Encoding: btf.Signed}}
	testU64    = &btf.Typedef{Name: "u64", Type: &btf.Int{Name: "long long unsigned int", Size: 8}}
	testDouble = &btf.Float{Name: "double", Size: 8}
	testInt128 = &btf.Int{Name: "__int128", Size: 16, Encoding: btf.Signed}

	testState = &btf.Enum{Name: "tcp_state", Size: 4, Values: []btf.EnumValue{{Name: "TCP_ESTABLISHED", Value: 1}, {Name: "TCP_LISTEN", Value: 10}}}
	testColor = &btf.Enum{Name: "color", Size: 4, Values: []btf.EnumValue{{Name: "GREEN", Value: 1}, {Name: "RED", Value: 2}}}
	testLight = &btf.Enum{Name: "light", Size: 4, Signed: true, Values: []btf.EnumValue{{Name: "GREEN", Value: ^uint64(6)}, {Name: "HUGE", Value: 3}}}
	testWide  = &btf.Enum{Name: "wide", Size: 8, Values: []btf.EnumValue{{Name: "WIDE_TOP", Value: 1 << 63}, {Name: "WIDE_ALL", Value: 1<<64 - 1}, {Name: "WIDE_MASK", Value: 1<<64 - 256}, {Name: "WIDE_U32", Value: 0xffffffff}}}

	// struct device { char name[16]; u8 mac[6]; u32 flags:3, mode:7; long ids[4]; struct device *next; char *alias; }
	testDevice = &btf.Struct{Name: "device", Size: 80}
	// struct sock { int family; union { u32 addr; struct { u16 lo, hi; }; }; enum tcp_state state; s8 tiny; bool ok; … }
	testSock = &btf.Struct{Name: "sock", Size: 72}
	// struct tcp_sock { struct sock sk; u64 bytes; }
	testTCPSock = &btf.Struct{Name: "tcp_sock", Size: 80}
)

func testTypes() []btf.Type {
	array := func(t btf.Type, n uint32) btf.Type { return &btf.Array{Type: t, Index: typeUint, Nelems: n} }
	fwd := &btf.Fwd{Name: "device", Kind: btf.FwdStruct}
	testDevice.Members = []btf.Member{
		{Name: "name", Type: array(typeChar, 16)},
		{Name: "mac", Type: array(testU8, 6), Offset: 16 * 8},
		{Name: "flags", Type: testU32, Offset: 24 * 8, BitfieldSize: 3},
		{Name: "mode", Type: testU32, Offset: 24*8 + 3, BitfieldSize: 7},
		{Name: "ids", Type: array(typeLong, 4), Offset: 32 * 8},
		{Name: "next", Type: pointerTo(testDevice), Offset: 64 * 8},
		{Name: "alias", Type: pointerTo(&btf.Const{Type: typeChar}), Offset: 72 * 8},
	}
	testSock.Members = []btf.Member{
		{Name: "family", Type: typeInt},
		{Type: &btf.Union{Size: 4, Members: []btf.Member{
			{Name: "addr", Type: testU32},
			{Type: &btf.Struct{Size: 4, Members: []btf.Member{{Name: "lo", Type: testU16}, {Name: "hi", Type: testU16, Offset: 16}}}},
		}}, Offset: 4 * 8},
		{Name: "state", Type: testState, Offset: 8 * 8},
		{Name: "tiny", Type: testS8, Offset: 12 * 8},
		{Name: "ok", Type: typeBool, Offset: 13 * 8},
		{Name: "dev", Type: pointerTo(fwd), Offset: 16 * 8},
		{Name: "ratio", Type: testDouble, Offset: 24 * 8},
		{Name: "big", Type: testInt128, Offset: 32 * 8},
		{Name: "hidden", Type: pointerTo(&btf.Fwd{Name: "nowhere", Kind: btf.FwdStruct}), Offset: 48 * 8},
		{Name: "data", Type: pointerTo(typeVoid), Offset: 56 * 8},
		{Name: "handler", Type: pointerTo(&btf.FuncProto{Return: typeVoid}), Offset: 64 * 8},
	}
	testTCPSock.Members = []btf.Member{
		{Name: "sk", Type: testSock},
		{Name: "bytes", Type: testU64, Offset: 72 * 8},
	}
	sockaddr := &btf.Struct{Name: "sockaddr", Size: 16, Members: []btf.Member{{Name: "sa_family", Type: testU16}, {Name: "sa_data", Type: array(typeChar, 14), Offset: 16}}}
	task := &btf.Struct{Name: "task_struct", Size: 16, Members: []btf.Member{{Name: "flags", Type: testU32, Offset: 8 * 8}}}
	return []btf.Type{sockaddr, testU8, testU16, testU32, testS8, testU64, testState, testColor, testLight, testWide, testDevice, testSock, testTCPSock, task}
}

// testScope is the function
//
//	long send(struct sock *sk, char *buf, size_t count, int flags, u8 cpu, struct tuple t)
func testScope(result btf.Type) *Scope {
	tuple := &btf.Struct{Name: "tuple", Size: 16, Members: []btf.Member{
		{Name: "src", Type: testU32}, {Name: "dst", Type: testU32, Offset: 32},
		{Name: "bit", Type: testU32, Offset: 64, BitfieldSize: 5}, {Name: "tag", Type: &btf.Array{Type: typeChar, Index: typeUint, Nelems: 2}, Offset: 80}, {Name: "ports", Type: &btf.Array{Type: testU16, Index: typeUint, Nelems: 2}, Offset: 96}}}
	return &Scope{
		Func: "send", Return: result, Types: testLookup(testTypes()),
		Params: []Param{
			{Name: "sk", Type: pointerTo(testSock)}, {Name: "buf", Type: pointerTo(typeChar)},
			{Name: "count", Type: &btf.Typedef{Name: "size_t", Type: typeUlong}}, {Name: "flags", Type: typeInt},
			{Name: "cpu", Type: testU8}, {Name: "t", Type: tuple},
		},
	}
}

type testLookup []btf.Type

func (l testLookup) TypesByName(spelling string) ([]btf.Type, error) {
	var found []btf.Type
	for _, t := range l {
		kind := ""
		switch t.(type) {
		case *btf.Struct:
			kind = "struct "
		case *btf.Enum:
			kind = "enum "
		}
		if kind+t.TypeName() == spelling {
			found = append(found, t)
		}
	}
	return found, nil
}

func (l testLookup) Enumerators(name string) ([]Enumerator, error) {
	var found []Enumerator
	for _, t := range l {
		e, ok := t.(*btf.Enum)
		if !ok {
			continue
		}
		for _, v := range e.Values {
			if v.Name == name {
				found = append(found, Enumerator{e, v.Value})
			}
		}
	}
	return found, nil
}

// check parses and checks one SPEC over testScope.
func check(text string, result btf.Type) ([]Item, error) {
	spec, err := Parse(text)
	if err != nil {
		return nil, err
	}
	scope := testScope(result)
	scope.Doubt = func(e *Error) { // as a fault, it can be drawn
		if e.Msg == "" || e.Span.Start < 0 || e.Span.End > len(text) || e.Span.Start >= e.Span.End {
			panic(fmt.Sprintf("%q: doubt %+v", text, e))
		}
	}
	return Check(spec, scope)
}
