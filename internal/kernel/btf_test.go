// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/binary"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// A fakeInt has 4 bytes.
var fakeInt = &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}

// fakeFunc is int name(struct *arg).
func fakeFunc(name string, arg btf.Type) *btf.Func {
	return &btf.Func{Name: name, Linkage: btf.StaticFunc, Type: &btf.FuncProto{
		Return: fakeInt, Params: []btf.FuncParam{{Name: "arg", Type: &btf.Pointer{Target: arg}}}}}
}

// vmlinuxBTF is the BTF of a kernel of a few types.
func vmlinuxBTF(t testing.TB) []byte {
	t.Helper()
	skb := &btf.Struct{Name: "sk_buff", Size: 4, Members: []btf.Member{{Name: "len", Type: fakeInt}}}
	types := []btf.Type{
		fakeFunc("ip_send_skb", skb),
		fakeFunc("ip_rcv", skb),
		fakeFunc("tcp_v4_rcv", skb),
		fakeFunc("copied", skb),
		fakeFunc("both", skb),
		fakeFunc("twice", skb),
		fakeFunc("twice", fakeInt),
		&btf.Typedef{Name: "sk_buff_t", Type: skb},
		&btf.Union{Name: "either", Size: 4, Members: []btf.Member{{Name: "a", Type: fakeInt}}},
		&btf.Fwd{Name: "opaque", Kind: btf.FwdStruct},
		&btf.Fwd{Name: "in_module", Kind: btf.FwdStruct},
		&btf.Enum{Name: "colour", Size: 4, Values: []btf.EnumValue{{Name: "RED", Value: 1}, {Name: "GREEN", Value: 2}}},
		&btf.Enum{Size: 4, Values: []btf.EnumValue{{Name: "GREEN", Value: 3}}},
		&btf.Enum{Name: "wide", Size: 8, Values: []btf.EnumValue{{Name: "FAR", Value: 1 << 40}}},
	}
	b, err := btf.NewBuilder(types, nil)
	if err != nil {
		t.Fatal(err)
	}
	blob, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return blob
}

// A splitBTF writes the BTF of a module by hand.
type splitBTF struct {
	types, strings []byte
	base           *rawBTF
	next           uint32
}

func newSplitBTF(t testing.TB, base []byte) *splitBTF {
	t.Helper()
	raw, err := parseBTF(base, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &splitBTF{base: raw, next: raw.count}
}

// text returns the offset of a string, in the base if that has it.
func (s *splitBTF) text(name string) uint32 {
	if offs := s.base.offsets(name); len(offs) > 0 {
		return offs[0]
	}
	off := uint32(len(s.base.strings) + len(s.strings))
	s.strings = append(append(s.strings, name...), 0)
	return off
}

// add adds a type and returns its ID.
func (s *splitBTF) add(name string, kind, vlen int, sizeOrType uint32, more ...uint32) uint32 {
	off := uint32(0)
	if name != "" {
		off = s.text(name)
	}
	for _, w := range append([]uint32{off, uint32(kind<<24 | vlen), sizeOrType}, more...) {
		s.types = binary.NativeEndian.AppendUint32(s.types, w)
	}
	s.next++
	return s.next - 1
}

func (s *splitBTF) blob() []byte {
	b := binary.NativeEndian.AppendUint16(nil, btfMagic)
	b = append(b, 1, 0)
	for _, w := range []uint32{btfHeaderSize, 0, uint32(len(s.types)), uint32(len(s.types)), uint32(len(s.strings))} {
		b = binary.NativeEndian.AppendUint32(b, w)
	}
	return append(append(b, s.types...), s.strings...)
}

// moduleBTF is that of a module with a function of its own, one whose name
// vmlinux has as well, a struct that vmlinux only declares, and an enum.
func moduleBTF(t testing.TB, base []byte) []byte {
	t.Helper()
	s := newSplitBTF(t, base)
	str := s.add("in_module", kindStruct, 0, 8)
	ptr := s.add("", 2, 0, str)
	proto := s.add("", kindFuncProto, 1, 0, s.text("arg"), ptr)
	s.add("mod_probe", kindFunc, 0, proto)
	s.add("ip_rcv", kindFunc, 0, proto)
	s.add("sk_buff", kindStruct, 0, 16)
	s.add("", kindEnum, 1, 4, s.text("MOD_VALUE"), 7)
	return s.blob()
}
