// SPDX-License-Identifier: Apache-2.0

package exprfuzz

import (
	"fmt"
	"math/rand/v2"

	"github.com/cilium/ebpf/btf"
)

// A Gen makes random things; one seed always makes the same.
type Gen struct {
	*rand.Rand
	// C keeps to what a C compiler takes and defines, without pointers.
	C bool
	// AtReturn allows what is known only when the function has returned.
	AtReturn bool
	// Prefix begins the names of types and enumerators.
	Prefix string

	Structs []*btf.Struct // those made, each complete
	enums   []*btf.Enum
	Params  []btf.FuncParam // those that expressions are over

	names  int // how many names were made
	aligns map[*btf.Struct]uint32
	packed map[*btf.Struct]bool
}

// NewGen returns a generator.
func NewGen(seed uint64, prefix string) *Gen {
	return &Gen{Rand: rand.New(rand.NewPCG(seed, 0)), Prefix: prefix,
		aligns: map[*btf.Struct]uint32{}, packed: map[*btf.Struct]bool{}}
}

func (g *Gen) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *Gen, from []T) T { return from[g.IntN(len(from))] }

func (g *Gen) name(kind string) string {
	g.names++
	return fmt.Sprintf("%s%d", kind, g.names)
}

func integer(name string, size uint32, enc btf.IntEncoding) *btf.Int {
	return &btf.Int{Name: name, Size: size, Encoding: enc}
}

// ints are C's integer types under the spellings of BTF.
var ints = []*btf.Int{
	integer("signed char", 1, btf.Signed), integer("unsigned char", 1, 0), integer("char", 1, btf.Char), integer("_Bool", 1, btf.Bool),
	integer("short int", 2, btf.Signed), integer("short unsigned int", 2, 0),
	integer("int", 4, btf.Signed), integer("unsigned int", 4, 0),
	integer("long int", 8, btf.Signed), integer("long unsigned int", 8, 0),
}

const boolInt = 3 // the index of _Bool

// Enums are those that were made. Expressions take their constants whether or not anything is of their types.
func (g *Gen) Enums() (all []btf.Type) {
	for _, e := range g.enums {
		all = append(all, e)
	}
	return all
}

// AddTypes makes a few enums and n structs, which may contain each other.
func (g *Gen) AddTypes(n int) {
	for i, shape := range []struct {
		size   uint32
		signed bool
	}{{4, false}, {4, true}, {8, false}, {8, true}} {
		if g.C && shape.size == 8 {
			break
		}
		e := &btf.Enum{Name: fmt.Sprintf("%se%d", g.Prefix, i), Size: shape.size, Signed: shape.signed}
		for j, v := range []uint64{0, 1, 7, 1 << 30, 1<<(8*shape.size-1) - 1} {
			e.Values = append(e.Values, btf.EnumValue{Name: fmt.Sprintf("%sE%d_%d", g.Prefix, i, j), Value: v})
		}
		if shape.signed {
			e.Values = append(e.Values, btf.EnumValue{Name: fmt.Sprintf("%sE%d_n", g.Prefix, i), Value: ^uint64(0)})
		}
		g.enums = append(g.enums, e)
	}
	// Pointers refer to any of the structs, also to those that come later.
	targets := make([]*btf.Struct, n)
	for i := range targets {
		targets[i] = &btf.Struct{Name: g.name(g.Prefix + "s")}
	}
	for _, s := range targets {
		l := layout{g: g, targets: targets, packed: g.chance(15)}
		s.Members = l.members(3+g.IntN(8), 0, false)
		s.Size = l.finish()
		g.aligns[s], g.packed[s] = max(l.align, 1), l.packed
		g.Structs = append(g.Structs, s)
	}
}

// Scalar returns a random integer or enum type, maybe behind a typedef or
// qualifiers.
func (g *Gen) Scalar() btf.Type {
	var t btf.Type = pick(g, ints)
	if len(g.enums) > 0 && g.chance(15) {
		t = pick(g, g.enums)
	}
	if g.C {
		return t
	}
	switch g.IntN(10) {
	case 0:
		t = &btf.Typedef{Name: g.name(g.Prefix + "t"), Type: t}
	case 1:
		t = &btf.Const{Type: t}
	case 2:
		t = &btf.Volatile{Type: t}
	}
	return t
}

// Pointer returns a pointer type, to one of targets in most cases.
func (g *Gen) Pointer(targets []*btf.Struct) btf.Type {
	switch g.IntN(10) {
	case 0:
		return &btf.Pointer{Target: &btf.Void{}}
	case 1:
		return &btf.Pointer{Target: pick(g, ints)}
	case 2:
		return &btf.Pointer{Target: &btf.Pointer{Target: pick(g, targets)}}
	case 3:
		return &btf.Pointer{Target: &btf.Const{Type: pick(g, targets)}}
	}
	return &btf.Pointer{Target: pick(g, targets)}
}

// A layout places members as the C compiler would.
type layout struct {
	g       *Gen
	targets []*btf.Struct
	packed  bool
	union   bool
	bits    uint32 // where the next member may begin
	size    uint32 // bits; the largest end in a union
	align   uint32 // bytes
}

func (l *layout) finish() uint32 {
	align := 8 * max(l.align, 1)
	return max((l.size+align-1)/align*align/8, 1)
}

// add places a member of size bytes; field is its number of bits, or 0.
func (l *layout) add(name string, t btf.Type, size, align, field uint32) btf.Member {
	if l.packed {
		align = 1
	}
	l.align = max(l.align, align)
	at := l.bits
	if l.union {
		at = 0
	}
	width := field
	switch {
	case field == 0:
		width = 8 * size
		at = (at + 8*align - 1) / (8 * align) * (8 * align)
	case !l.packed && at%(8*size)+field > 8*size:
		at = (at + 8*size - 1) / (8 * size) * (8 * size)
	}
	l.bits = at + width
	l.size = max(l.size, l.bits)
	return btf.Member{Name: name, Type: t, Offset: btf.Bits(at), BitfieldSize: btf.Bits(field)}
}

func (l *layout) members(n, depth int, union bool) []btf.Member {
	l.union = union
	var ms []btf.Member
	for range n {
		ms = append(ms, l.member(depth))
	}
	return ms
}

func (l *layout) member(depth int) btf.Member {
	g := l.g
	switch k := g.IntN(20); {
	case k < 5:
		return l.bitfield()
	case k < 7 && depth < 2:
		return l.nested(depth)
	case k < 9 && len(g.Structs) > 0:
		s := pick(g, g.Structs)
		if s.Size > 128 {
			break
		}
		return l.add(g.name("m"), s, s.Size, g.aligns[s], 0)
	case k < 11:
		t := pick(g, ints)
		if g.C && t.Encoding == btf.Bool {
			t = ints[0]
		}
		n := uint32(1 + g.IntN(6))
		return l.add(g.name("m"), &btf.Array{Type: t, Index: ints[7], Nelems: n}, n*t.Size, t.Size, 0)
	case k < 15 && !g.C:
		return l.add(g.name("m"), g.Pointer(l.targets), 8, 8, 0)
	}
	t := g.Scalar()
	for g.C && t == btf.Type(ints[boolInt]) { // of other bytes than 0 and 1 C does not say what it is
		t = g.Scalar()
	}
	size, _ := btf.Sizeof(t)
	return l.add(g.name("m"), t, uint32(size), uint32(size), 0)
}

func (l *layout) bitfield() btf.Member {
	g := l.g
	t := pick(g, ints)
	limit := 8 * t.Size
	if t.Encoding == btf.Bool {
		limit = 1
	}
	if g.C { // compilers disagree about the type of wider ones
		limit = min(limit, 32)
	}
	return l.add(g.name("m"), t, t.Size, t.Size, 1+g.Uint32N(limit))
}

// nested makes a struct or union in place, mostly without a name.
func (l *layout) nested(depth int) btf.Member {
	g := l.g
	inner := layout{g: g, targets: l.targets}
	ms := inner.members(1+g.IntN(4), depth+1, g.chance(50))
	size := inner.finish()
	var t btf.Type = &btf.Struct{Size: size, Members: ms}
	if inner.union {
		t = &btf.Union{Size: size, Members: ms}
	}
	name := ""
	if g.chance(25) {
		name = g.name("m")
	}
	return l.add(name, t, size, inner.align, 0)
}
