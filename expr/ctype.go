// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/qualifier"
	"github.com/ksnoop/ksnoop/internal/suggest"
)

// Types of literals and of results of operators.
var (
	typeShort = &btf.Int{Name: "short int", Size: 2, Encoding: btf.Signed}
	typeInt   = &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	typeUint  = &btf.Int{Name: "unsigned int", Size: 4}
	typeLong  = &btf.Int{Name: "long int", Size: 8, Encoding: btf.Signed}
	typeUlong = &btf.Int{Name: "long unsigned int", Size: 8}
	typeBool  = &btf.Int{Name: "_Bool", Size: 1, Encoding: btf.Bool}
	typeChar  = &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}
	typeVoid  = &btf.Void{}
)

// baseTypes maps spellings of C's arithmetic types to types. A key has the words of the
// spelling sorted, without "int". Types have the names that compilers put into BTF.
var baseTypes = map[string]btf.Type{
	"bool": typeBool, "_Bool": typeBool, "void": typeVoid, "char": typeChar,
	"char signed":   &btf.Int{Name: "signed char", Size: 1, Encoding: btf.Signed},
	"char unsigned": &btf.Int{Name: "unsigned char", Size: 1},
	"short":         typeShort, "short signed": typeShort,
	"short unsigned": &btf.Int{Name: "short unsigned int", Size: 2},
	"":               typeInt, "signed": typeInt, "unsigned": typeUint,
	"long": typeLong, "long long": typeLong, "long signed": typeLong, "long long signed": typeLong,
	"long unsigned": typeUlong, "long long unsigned": typeUlong,
}

// baseType resolves C's arithmetic types. Their words may come in any order.
func baseType(name string) (btf.Type, bool) {
	words := strings.Fields(name)
	if len(words) == 1 && words[0] == "int" {
		return typeInt, true
	}
	base := len(words) > 0
	for _, w := range words {
		base = base && slices.Contains([]string{"unsigned", "signed", "int", "char", "short", "long", "void", "bool", "_Bool"}, w)
	}
	if !base {
		return nil, false
	}
	words = slices.DeleteFunc(words, func(w string) bool { return w == "int" })
	slices.Sort(words)
	t, ok := baseTypes[strings.Join(words, " ")]
	return t, ok
}

// A numeric describes the register form of a scalar type.
type numeric struct {
	size   uint32 // bytes: 1, 2, 4 or 8
	signed bool
}

// number returns the numeric of t, looking through qualifiers and typedefs. Pointers count
// as unsigned 64-bit numbers. It returns false for aggregates, floats, 128-bit integers and
// void.
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

// Number returns the width in bytes and the sign of a scalar type. ok is false for a type
// that has no register form: aggregates, floats, 128-bit integers, void.
func Number(t btf.Type) (size int, signed, ok bool) {
	n, ok := number(t)
	return int(n.size), n.signed, ok
}

// extend returns the low bytes of v in the register form of n.
func (n numeric) extend(v uint64) uint64 {
	shift := 64 - 8*n.size
	if n.signed {
		return uint64(int64(v<<shift) >> shift)
	}
	return v << shift >> shift
}

// typ returns the C type of operators' results with this width and sign.
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

// balance returns the common type of two operands (C11 6.3.1.8), after promotion.
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

// pointee returns what t points to; for an array, its element type.
func pointee(t btf.Type) (btf.Type, bool) {
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Pointer:
		return t.Target, true
	case *btf.Array:
		return t.Type, true
	}
	return nil, false
}

// sizeOf returns the size in bytes. ok is false for an incomplete type, such as void.
func sizeOf(t btf.Type) (int64, bool) {
	switch btf.UnderlyingType(t).(type) {
	case *btf.Void, *btf.Fwd, *btf.FuncProto:
		return 0, false
	}
	n, err := btf.Sizeof(t)
	return int64(n), err == nil
}

// charLike reports whether t is a one-byte integer, the element type of strings. bool is
// not.
func charLike(t btf.Type) bool {
	i, ok := btf.UnderlyingType(t).(*btf.Int)
	return ok && i.Size == 1 && i.Encoding&btf.Bool == 0
}

// isChar reports whether t is char or unsigned char itself. u8 and other typedefs of them
// are numbers more often than text.
func isChar(t btf.Type) bool {
	i, ok := qualifier.Bare(t).(*btf.Int)
	return ok && (i.Name == "char" || i.Name == "unsigned char")
}

// isText reports whether t is char, of which tracepoints have their strings: __string() in
// include/trace/stages/stage1_struct_define.h is an array of char. What they have as unsigned char is bytes, such as
// cmnd of scsi_dispatch_cmd_start, and may have NULs anywhere.
func isText(t btf.Type) bool {
	i, ok := qualifier.Bare(t).(*btf.Int)
	return ok && i.Name == "char"
}

func isBool(t btf.Type) bool {
	i, ok := btf.UnderlyingType(t).(*btf.Int)
	return ok && i.Encoding&btf.Bool != 0
}

func isPointer(t btf.Type) bool {
	_, ok := btf.UnderlyingType(t).(*btf.Pointer)
	return ok
}

// members returns the members of a struct or union.
func members(t btf.Type) ([]btf.Member, bool) {
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		return t.Members, true
	case *btf.Union:
		return t.Members, true
	}
	return nil, false
}

// maxAnonymous bounds the recursion into anonymous members: corrupt BTF may nest them
// forever.
const maxAnonymous = 16

// findMember looks up a member of t by name, in anonymous members too. The offset is in
// bits from the start of t.
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

// eachMember yields the members that findMember can find, until yield returns false.
func eachMember(t btf.Type, depth int, yield func(btf.Member) bool) bool {
	ms, _ := members(t)
	for _, m := range ms {
		if m.Name != "" && !yield(m) {
			return false
		}
		if m.Name == "" && depth < maxAnonymous && !eachMember(m.Type, depth+1, yield) {
			return false
		}
	}
	return true
}

func memberNames(t btf.Type) iter.Seq[string] {
	return func(yield func(string) bool) {
		eachMember(t, 0, func(m btf.Member) bool { return yield(m.Name) })
	}
}

// memberHint guesses which member was meant: one of t's, or of a struct that lies in it, if its name is nearer.
func memberHint(t btf.Type, name string) string {
	search := suggest.For(name)
	near := suggest.Nearest(name, memberNames(t))
	least, ok := search.Distance([]byte(near))
	eachMember(t, 0, func(m btf.Member) bool {
		for inner := range memberNames(m.Type) {
			if d, within := search.Distance([]byte(inner)); within && m.Name != "" && (!ok || d < least) {
				near, least, ok = m.Name+"."+inner, d, true
			}
		}
		return true
	})
	return suggest.DidYouMean(near)
}

// typeName spells a type for an error message.
func typeName(t btf.Type) string { return typeNameWithin(t, maxSpelled) }

// maxSpelled bounds the pointers and arrays in a type's name. A damaged type may point to
// itself.
const maxSpelled = 32

func typeNameWithin(t btf.Type, levels int) string {
	stars := ""
	for ; levels > 0; levels-- {
		t = qualifier.Bare(t)
		switch u := t.(type) {
		case *btf.Pointer:
			t, stars = u.Target, stars+"*"
		case *btf.Struct:
			return spell("struct", u.Name, stars)
		case *btf.Union:
			return spell("union", u.Name, stars)
		case *btf.Enum:
			return spell("enum", u.Name, stars)
		case *btf.Fwd:
			return spell(u.Kind.String(), u.Name, stars)
		case *btf.Array:
			return spell(typeNameWithin(u.Type, levels-1)+"["+strconv.Itoa(int(u.Nelems))+"]", "", stars)
		case *btf.FuncProto:
			return "function " + stars
		case *btf.Void:
			return spell("void", "", stars)
		default:
			return spell(t.TypeName(), "", stars)
		}
	}
	return spell("...", "", stars)
}

// spell joins the parts of a type's name: kind, name and stars.
func spell(kind, name, stars string) string {
	if name == "" && kind != "void" && (kind == "struct" || kind == "union" || kind == "enum") {
		name = "(anonymous)"
	}
	s := kind
	if name != "" {
		s += " " + name
	}
	if stars != "" {
		s += " " + stars
	}
	return s
}
