// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"sync/atomic"

	"github.com/cilium/ebpf/btf"
)

// A Printer prints values of one type. It is immutable and safe for concurrent use.
type Printer struct {
	little bool
	text   []byte // names, casts and keys, which spans refer to
	bodies []body
	fields []field // of structs and unions
	elems  []field // of arrays: one field stands for all elements
	enums  []enumerator
	ptrs   []pointee
	root   field
}

// Size returns the number of bytes of a whole value. Bytes beyond it are elements of a
// flexible array at the end.
func (p *Printer) Size() int { return int(p.bodies[p.root.body].size) }

// A span is a piece of Printer.text.
type span struct{ start, end uint32 }

// A field is a value in its place: a member, an element, or the root.
type field struct {
	name  span // `.name = `
	cast  span // `(type)`
	key   span // `"name":`
	off   uint32
	bit   uint8 // first bit in the byte at off, in BTF's order
	bits  uint8 // width of a bitfield, else 0
	last  bool  // only padding follows in the enclosing type
	known known
	body  uint32
}

type kind uint8

const (
	kindInt  kind = iota // size 1, 2, 4 or 8
	kindWide             // integer or float that is shown in hexadecimal
	kindFloat
	kindLongDouble // float of more than 8 bytes whose format is known
	kindPointer
	kindEnum
	kindStruct
	kindUnion
	kindArray
	kindBytes // array of 1-byte integers
)

// A body says how to read the bytes of a type, without qualifiers and typedefs.
type body struct {
	kind   kind
	signed bool
	isBool bool
	isChar bool // 1-byte integer that is text, or an array of these
	flags  bool // enum whose values are combined with |
	dense  bool // the value is zero exactly if all bytes are
	size   uint32
	first  uint32 // index of the first of fields, elems, enums or ptrs
	n      uint32 // number of members, enumerators or elements; of kindLongDouble, its longdouble.Format
}

type enumerator struct {
	value uint64
	name  span
}

// named reports whether the member has this name.
func (p *Printer) named(f *field, name string) bool {
	text := p.text[f.name.start:f.name.end] // ".name = "
	return len(text) == len(name)+4 && string(text[1:1+len(name)]) == name
}

// A known is a type that people prefer to read in another form than its members. The type
// is recognised by its name.
type known uint8

const (
	unknown     known = iota
	knownTime         // ktime_t
	knownDev          // dev_t
	knownMode         // umode_t
	knownGFP          // gfp_t
	knownNumber       // kuid_t, atomic_t, refcount_t: a struct around a number
	knownIP4          // struct in_addr
	knownIP6          // struct in6_addr
	knownSocket       // struct sockaddr and relatives
	knownList         // struct list_head
	knownName         // struct qstr
	knownErrno        // an int whose name says that it is an error
	knownBig          // __be16 and the like: a number in network byte order
	knownMAC          // 6 bytes whose name says that they are a hardware address
)

// A pointee is the target type of a pointer. It is compiled when a pointer is first
// followed: through pointers, nearly every type of the kernel can be reached.
type pointee struct {
	target btf.Type
	state  atomic.Pointer[followed]
}

// followed is the result of compiling a pointee.
type followed struct {
	p    *Printer // nil if nothing can be shown
	text bool     // `char *`
}
