// SPDX-License-Identifier: Apache-2.0

package btfprint

// A Printer prints the values of one type. It is immutable and safe for
// concurrent use.
type Printer struct {
	little bool
	text   []byte // the names, casts and keys that spans point into
	bodies []body
	fields []field // of structs and unions
	elems  []field // of arrays: each stands for all elements of one
	enums  []enumerator
	ptrs   []pointee
	root   field
}

// Size is the number of bytes that a whole value has. Bytes beyond it are the
// elements of a flexible array at the end of the type.
func (p *Printer) Size() int { return int(p.bodies[p.root.body].size) }

// span is a piece of Printer.text.
type span struct{ start, end uint32 }

// A field is one value in its place: a member, or the root.
type field struct {
	name  span // `.name = `
	cast  span // `(type)`
	key   span // `"name":`
	off   uint32
	bit   uint8 // first bit in the byte at off, counted as BTF does
	bits  uint8 // width of a bitfield, otherwise 0
	last  bool  // nothing but padding follows in the enclosing type
	known known
	body  uint32
}

type kind uint8

const (
	kindInt  kind = iota // size 1, 2, 4 or 8
	kindWide             // an integer or float that is shown as hexadecimal
	kindFloat
	kindPointer
	kindEnum
	kindStruct
	kindUnion
	kindArray
	kindBytes // array of 1-byte integers
)

// A body is how the bytes of a type without its qualifiers and typedefs read.
type body struct {
	kind   kind
	signed bool
	isBool bool
	isChar bool // 1-byte integer that holds text, or an array of these
	flags  bool // enum whose values are made to be combined by |
	dense  bool // any byte that is not zero makes the value not zero
	size   uint32
	first  uint32 // first of fields, enums or ptrs; of an array, its elements
	n      uint32 // number of members, enumerators or elements
}

type enumerator struct {
	value uint64
	name  span
}

// named reports whether a member has that name.
func (p *Printer) named(f *field, name string) bool {
	text := p.text[f.name.start:f.name.end] // ".name = "
	return len(text) == len(name)+4 && string(text[1:1+len(name)]) == name
}
