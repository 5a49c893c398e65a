// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"github.com/cilium/ebpf/btf"
)

// The types that C gives to results and literals.
var (
	typeInt   = &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	typeUint  = &btf.Int{Name: "unsigned int", Size: 4}
	typeLong  = &btf.Int{Name: "long int", Size: 8, Encoding: btf.Signed}
	typeUlong = &btf.Int{Name: "long unsigned int", Size: 8}
	typeBool  = &btf.Int{Name: "_Bool", Size: 1, Encoding: btf.Bool}
	typeChar  = &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}
	typeVoid  = &btf.Void{}
)

// baseTypes spells C's arithmetic types without typedefs: the words of a
// cast, sorted, to the type. BTF has them under the compiler's spellings.
var baseTypes = map[string]btf.Type{
	"bool": typeBool, "_Bool": typeBool, "void": typeVoid, "char": typeChar,
	"char signed":   &btf.Int{Name: "signed char", Size: 1, Encoding: btf.Signed},
	"char unsigned": &btf.Int{Name: "unsigned char", Size: 1},
	"short":         &btf.Int{Name: "short int", Size: 2, Encoding: btf.Signed},
	"short unsigned": &btf.Int{
		Name: "short unsigned int", Size: 2},
	"": typeInt, "signed": typeInt, "unsigned": typeUint,
	"long": typeLong, "long long": typeLong, "long signed": typeLong, "long long signed": typeLong,
	"long unsigned": typeUlong, "long long unsigned": typeUlong,
}

// A numeric is how a scalar lies in a 64-bit register: size bytes, extended by
// sign or by zeroes.
type numeric struct {
	size   uint32 // bytes: 1, 2, 4 or 8
	signed bool
}

// number classifies t, qualifiers and typedefs stripped. Pointers count as
// unsigned 64-bit numbers. Not ok: aggregates, floats, 128-bit integers, void.
func number(t btf.Type) (numeric, bool) {
	var n numeric
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Int:
		n = numeric{t.Size, t.Encoding&btf.Signed != 0}
	case *btf.Enum:
		n = numeric{t.Size, t.Signed}
	case *btf.Pointer:
		n = numeric{8, false}
	}
	switch n.size {
	case 1, 2, 4, 8:
		return n, true
	}
	return n, false
}

// Number tells the width in bytes and the sign of a scalar type; ok is false
// for anything that is not held in one 64-bit register.
func Number(t btf.Type) (size int, signed, ok bool) {
	n, ok := number(t)
	return int(n.size), n.signed, ok
}

// extend brings v into the register form of n.
func (n numeric) extend(v uint64) uint64 {
	shift := 64 - 8*n.size
	if n.signed {
		return uint64(int64(v<<shift) >> shift)
	}
	return v << shift >> shift
}

func (n numeric) typ() btf.Type {
	switch {
	case n.size == 8 && n.signed:
		return typeLong
	case n.size == 8:
		return typeUlong
	case n.signed:
		return typeInt
	}
	return typeUint
}

// promote is C11 6.3.1.1: what is narrower than int becomes int.
func (n numeric) promote() numeric {
	if n.size < 4 {
		return numeric{4, true}
	}
	return n
}

// promoted is what v becomes by integer promotion. A bitfield goes by its own
// width, so that even an unsigned one becomes int if it is narrower.
func promoted(v Term) numeric {
	n, _ := number(v.Type())
	switch size := bitsOf(v).Size; {
	case size == 0 || size > 32:
		return n.promote()
	case size == 32:
		return numeric{4, n.signed}
	}
	return numeric{4, true}
}

// balance is C11 6.3.1.8 on promoted operands, for the sizes 4 and 8.
func balance(a, b numeric) numeric {
	a, b = a.promote(), b.promote()
	switch {
	case a.size > b.size:
		return a
	case b.size > a.size:
		return b
	}
	return numeric{a.size, a.signed && b.signed}
}

func pointerTo(t btf.Type) *btf.Pointer { return &btf.Pointer{Target: t} }

// pointee returns what t points to; arrays decay.
func pointee(t btf.Type) (btf.Type, bool) {
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Pointer:
		return t.Target, true
	case *btf.Array:
		return t.Type, true
	}
	return nil, false
}

// sizeOf returns the size in bytes; ok is false for incomplete types.
func sizeOf(t btf.Type) (int64, bool) {
	switch btf.UnderlyingType(t).(type) {
	case *btf.Void, *btf.Fwd, *btf.FuncProto:
		return 0, false
	}
	n, err := btf.Sizeof(t)
	return int64(n), err == nil
}

// charLike reports whether t is a one-byte integer, the element of a string.
func charLike(t btf.Type) bool {
	i, ok := btf.UnderlyingType(t).(*btf.Int)
	return ok && i.Size == 1 && i.Encoding&btf.Bool == 0
}

func members(t btf.Type) ([]btf.Member, bool) {
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		return t.Members, true
	case *btf.Union:
		return t.Members, true
	}
	return nil, false
}

// maxAnonymous bounds the search through anonymous members of corrupt BTF.
const maxAnonymous = 16

// findMember looks name up in t and in its anonymous members. The offset
// returned is in bits from the beginning of t.
func findMember(t btf.Type, name string, depth int) (btf.Member, btf.Bits, bool) {
	ms, _ := members(t)
	for _, m := range ms {
		if m.Name == name {
			return m, m.Offset, true
		}
	}
	for _, m := range ms {
		if m.Name != "" || depth == maxAnonymous {
			continue
		}
		if found, off, ok := findMember(m.Type, name, depth+1); ok {
			return found, m.Offset + off, true
		}
	}
	return btf.Member{}, 0, false
}

// eachMember yields the names that findMember would find.
func eachMember(t btf.Type, depth int, yield func(string) bool) bool {
	ms, _ := members(t)
	for _, m := range ms {
		if m.Name != "" && !yield(m.Name) {
			return false
		}
		if m.Name == "" && depth < maxAnonymous && !eachMember(m.Type, depth+1, yield) {
			return false
		}
	}
	return true
}
