// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strings"
)

// A rawBTF is a BTF blob as the kernel exports it. Decoding all types of a kernel takes a
// hundred milliseconds; walking their headers takes two. So names are looked up here, and
// only the results are decoded.
type rawBTF struct {
	order   byteOrdering
	little  bool
	types   []byte
	strings []byte
	base    *rawBTF  // of split BTF, else nil
	count   uint32   // number of types, including those of base and void
	marks   []uint32 // where every markEvery-th of the blob's own types begins
}

// markEvery is how many types are passed at most to find one by its ID.
const markEvery = 64

// A rawType is the header of a type. Its data is part of the blob.
type rawType struct {
	id   uint32
	name uint32
	kind uint8
	vlen int
	ref  uint32 // type that it refers to, or its size, depending on the kind
	flag bool   // flag that some kinds have
	data []byte // bytes after the header
}

// Kinds of types, from linux/btf.h.
const (
	kindInt       = 1
	kindPtr       = 2
	kindArray     = 3
	kindStruct    = 4
	kindUnion     = 5
	kindEnum      = 6
	kindFwd       = 7
	kindTypedef   = 8
	kindVolatile  = 9
	kindConst     = 10
	kindRestrict  = 11
	kindFunc      = 12
	kindFuncProto = 13
	kindVar       = 14
	kindDatasec   = 15
	kindFloat     = 16
	kindDeclTag   = 17
	kindTypeTag   = 18
	kindEnum64    = 19
	kindMax       = kindEnum64
)

const (
	btfMagic      = 0xeb9f
	btfHeaderSize = 24
	typeHeader    = 12
)

// extra has the number of bytes after a type's header: fixed, and for each element.
var extra = [kindMax + 1]struct{ fixed, each int }{
	kindInt: {4, 0}, kindArray: {12, 0}, kindStruct: {0, 12}, kindUnion: {0, 12}, kindEnum: {0, 8},
	kindFuncProto: {0, 8}, kindVar: {4, 0}, kindDatasec: {0, 12}, kindDeclTag: {4, 0}, kindEnum64: {0, 12},
}

var errTruncated = errors.New("truncated")

// isBTF reports whether data starts like a BTF blob.
func isBTF(data []byte) bool {
	return len(data) >= 2 && (binary.LittleEndian.Uint16(data) == btfMagic || binary.BigEndian.Uint16(data) == btfMagic)
}

// A byteOrdering reads and writes numbers.
type byteOrdering interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// byteOrder returns a blob's byte order.
func byteOrder(data []byte) byteOrdering {
	if binary.BigEndian.Uint16(data) == btfMagic {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// isSplit reports whether a blob refers to another one. Only a blob that stands alone
// starts its strings with the empty one.
func isSplit(data []byte) bool {
	r, err := sections(data)
	return err == nil && len(r.strings) > 0 && r.strings[0] != 0
}

// parseBTF checks the headers of a blob and of all its types.
func parseBTF(data []byte, base *rawBTF) (*rawBTF, error) {
	r, err := sections(data)
	if err != nil {
		return nil, fmt.Errorf("reading BTF: %w", err)
	}
	r.base = base
	r.count = r.firstID()
	for rest := r.types; len(rest) > 0; r.count++ {
		n, err := r.size(rest)
		if err != nil {
			return nil, fmt.Errorf("reading BTF: type %d: %w", r.count, err)
		}
		if (r.count-r.firstID())%markEvery == 0 {
			r.marks = append(r.marks, uint32(len(r.types)-len(rest)))
		}
		rest = rest[n:]
	}
	return r, nil
}

// sections checks the header of a blob and returns its parts. All offsets and sizes are
// the file's, so each is compared with the length.
func sections(data []byte) (*rawBTF, error) {
	if len(data) < btfHeaderSize {
		return nil, errTruncated
	}
	r := &rawBTF{order: byteOrder(data)}
	r.little = r.order == binary.LittleEndian
	if r.order.Uint16(data) != btfMagic {
		return nil, errors.New("no BTF magic")
	}
	size := uint64(r.order.Uint32(data[4:]))
	section := func(at int) ([]byte, error) {
		off, n := uint64(r.order.Uint32(data[at:])), uint64(r.order.Uint32(data[at+4:]))
		if size < btfHeaderSize || size+off+n > uint64(len(data)) {
			return nil, errTruncated
		}
		return data[size+off : size+off+n], nil
	}
	var err error
	if r.types, err = section(8); err != nil {
		return nil, err
	}
	if r.strings, err = section(16); err != nil {
		return nil, err
	}
	if n := len(r.strings); n > 0 && r.strings[n-1] != 0 {
		return nil, errors.New("strings do not end with 0")
	}
	return r, nil
}

// firstID returns the ID of the first type. ID 0 is void.
func (r *rawBTF) firstID() uint32 {
	if r.base != nil {
		return r.base.count
	}
	return 1
}

// all yields the blob's own types in order.
func (r *rawBTF) all() iter.Seq2[rawType, error] {
	return func(yield func(rawType, error) bool) {
		id := r.firstID()
		for rest := r.types; len(rest) > 0; id++ {
			t, n, err := r.header(rest)
			t.id = id
			if !yield(t, err) || err != nil {
				return
			}
			rest = rest[n:]
		}
	}
}

// refs yields the types that a type leads to.
func (r *rawBTF) refs(t *rawType) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		if refKinds.has(t.kind) && !yield(t.ref) {
			return
		}
		at, each := 4, extra[t.kind].each // of members and parameters: behind their names
		switch t.kind {
		case kindArray:
			_ = yield(r.uint32(t.data)) && yield(r.uint32(t.data[4:]))
			return
		case kindStruct, kindUnion, kindFuncProto:
		case kindDatasec:
			at = 0
		default:
			return
		}
		for b := t.data; len(b) > 0 && yield(r.uint32(b[at:])); b = b[each:] {
		}
	}
}

// uint32 is r.order.Uint32, without a call for little-endian blobs.
func (r *rawBTF) uint32(b []byte) uint32 {
	if r.little {
		return binary.LittleEndian.Uint32(b)
	}
	return r.order.Uint32(b)
}

// size returns the size of the type at the start of b.
func (r *rawBTF) size(b []byte) (int, error) {
	if len(b) < typeHeader {
		return 0, errTruncated
	}
	info := r.uint32(b[4:])
	kind := info >> 24 & 0x1f
	if kind == 0 || kind > kindMax {
		return 0, fmt.Errorf("unknown kind %d", kind)
	}
	n := typeHeader + extra[kind].fixed + extra[kind].each*int(info&0xffff)
	if n > len(b) {
		return 0, errTruncated
	}
	return n, nil
}

// header decodes the type at the start of b and returns its size.
func (r *rawBTF) header(b []byte) (t rawType, n int, err error) {
	if n, err = r.size(b); err != nil {
		return t, 0, err
	}
	info := r.uint32(b[4:])
	t.name, t.kind, t.vlen = r.uint32(b), uint8(info>>24&0x1f), int(info&0xffff)
	t.ref, t.flag = r.uint32(b[8:]), info>>31 != 0
	t.data = b[typeHeader:n]
	return t, n, nil
}

// byID returns the header of one of the blob's own types.
func (r *rawBTF) byID(id uint32) (t rawType, ok bool) {
	i := id - r.firstID() // more than there are if it is smaller
	if i/markEvery >= uint32(len(r.marks)) || id >= r.count {
		return t, false
	}
	rest := r.types[r.marks[i/markEvery]:]
	for range i % markEvery {
		info := r.uint32(rest[4:])
		kind := info >> 24 & 0x1f
		rest = rest[typeHeader+extra[kind].fixed+extra[kind].each*int(info&0xffff):]
	}
	t, _, err := r.header(rest)
	t.id = id
	return t, err == nil
}

// text returns the string at an offset, or nil.
func (r *rawBTF) text(off uint32) []byte {
	if r.base != nil {
		if n := uint32(len(r.base.strings)); off < n {
			return r.base.text(off)
		} else {
			off -= n
		}
	}
	if off >= uint32(len(r.strings)) {
		return nil
	}
	s := r.strings[off:]
	return s[:bytes.IndexByte(s, 0)]
}

// offsets returns the offsets of a string: at most one in the blob's own table and one in
// that of its base.
func (r *rawBTF) offsets(s string) (offs []uint32) {
	first := uint32(0)
	if r.base != nil {
		offs = r.base.offsets(s)
		first = uint32(len(r.base.strings))
	}
	if bytes.HasPrefix(r.strings, []byte(s+"\x00")) {
		return append(offs, first)
	}
	if i := bytes.Index(r.strings, []byte("\x00"+s+"\x00")); i >= 0 {
		offs = append(offs, first+uint32(i)+1)
	}
	return offs
}

// A kindSet is a set of kinds, as bits: a look-up tests a hundred thousand types.
type kindSet uint32

const (
	funcKind      kindSet = 1 << kindFunc
	datasecKind   kindSet = 1 << kindDatasec
	modifierKinds kindSet = 1<<kindTypedef | 1<<kindVolatile | 1<<kindConst | 1<<kindRestrict | 1<<kindTypeTag
	refKinds              = modifierKinds | 1<<kindPtr | 1<<kindFuncProto | 1<<kindFunc | 1<<kindVar | 1<<kindDeclTag // those that have one in place of a size
	allKinds              = ^kindSet(0)
)

func (s kindSet) has(kind uint8) bool { return s>>kind&1 != 0 }

// named yields the types with this name and one of the kinds. It decodes only headers,
// which parseBTF has checked; a kernel's types take a millisecond. The kind is tested first:
// the name lies elsewhere in memory.
func (r *rawBTF) named(name string, kinds kindSet) iter.Seq[rawType] {
	return func(yield func(rawType) bool) {
		if name == "" || strings.Contains(name, "\x00") { // several strings
			return
		}
		id := r.firstID()
		for rest := r.types; len(rest) >= typeHeader; id++ {
			info := r.uint32(rest[4:])
			kind := info >> 24 & 0x1f
			if kinds.has(uint8(kind)) && r.isName(r.uint32(rest), name) {
				t, _, err := r.header(rest)
				t.id = id
				if err != nil || !yield(t) {
					return
				}
			}
			rest = rest[typeHeader+extra[kind].fixed+extra[kind].each*int(info&0xffff):]
		}
	}
}

// isName reports whether s is the string at an offset.
func (r *rawBTF) isName(off uint32, s string) bool {
	if r.base != nil {
		n := uint32(len(r.base.strings))
		if off < n {
			return r.base.isName(off, s)
		}
		off -= n
	}
	end := uint64(off) + uint64(len(s))
	return end < uint64(len(r.strings)) && r.strings[end] == 0 && string(r.strings[off:end]) == s
}

// containing returns the IDs of types with part in their names, by name.
func (r *rawBTF) containing(part string) map[string][]uint32 {
	found := map[string][]uint32{}
	for t := range r.all() {
		if name := r.text(t.name); bytes.Contains(name, []byte(part)) {
			found[string(name)] = append(found[string(name)], t.id)
		}
	}
	return found
}

// enumsWith yields the IDs of enums that have an enumerator called name.
func (r *rawBTF) enumsWith(name string) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		offs := r.offsets(name)
		if len(offs) == 0 || name == "" {
			return
		}
		for t := range r.all() {
			if t.kind != kindEnum && t.kind != kindEnum64 {
				continue
			}
			each := extra[t.kind].each
			for v := t.data; len(v) >= each; v = v[each:] {
				if contains(offs, r.order.Uint32(v)) {
					if !yield(t.id) {
						return
					}
					break
				}
			}
		}
	}
}

// functions yields the names of the blob's functions.
func (r *rawBTF) functions() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for t := range r.all() {
			if t.kind == kindFunc && !yield(r.text(t.name)) {
				return
			}
		}
	}
}

// functionsAmong tells which of some names functions have.
func (r *rawBTF) functionsAmong(names []string) map[string]bool {
	found := map[string]bool{}
	for rest := r.types; len(rest) >= typeHeader; {
		info := r.uint32(rest[4:])
		kind := info >> 24 & 0x1f
		if kind == kindFunc {
			for _, name := range names {
				if r.isName(r.uint32(rest), name) {
					found[name] = true
				}
			}
		}
		rest = rest[typeHeader+extra[kind].fixed+extra[kind].each*int(info&0xffff):]
	}
	return found
}

// names returns the names of the blob's own types of some kinds.
func (r *rawBTF) names(kinds kindSet) map[string]struct{} {
	names := map[string]struct{}{}
	for t := range r.all() {
		if kinds.has(t.kind) {
			names[string(r.text(t.name))] = struct{}{}
		}
	}
	return names
}

// contains is slices.Contains for one or two elements; it is inlined.
func contains(offs []uint32, off uint32) bool {
	return offs[0] == off || len(offs) > 1 && offs[1] == off
}
