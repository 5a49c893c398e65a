// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"errors"
	"path"
	"slices"

	"github.com/cilium/ebpf/btf"
)

// A TypeCut has the part of a kernel's types that some of them are about.
type TypeCut struct{ blobs []*cutBlob }

// A cutBlob is one blob of a cut.
type cutBlob struct {
	info  *typeInfo
	base  *cutBlob // nil for vmlinux and BPF programs
	first uint32   // ID of the first type
	types []rawType
	keep  []keeping
	ids   []uint32 // in the cut
	next  uint32   // ID behind the last type of the cut

	strings []byte
	offsets map[string]uint32
}

// A keeping says how much of a type is kept.
type keeping uint8

const (
	left keeping = iota
	declared
	whole
)

// CutTypes returns the types of vmlinux and of some modules that are needed for values of
// some types, calls of some functions (as types) and all names that were looked up in the
// view so far. The order of types stays as it is, so that a name means the same.
//
// A struct that is more pointers away from these than pointers says is only declared: three
// pointers lead from sk_buff to 3,000 structs.
func (v *View) CutTypes(modules []string, roots []btf.Type, pointers int) (*TypeCut, error) {
	c := &TypeCut{}
	for _, m := range append([]string{""}, modules...) {
		info, err := v.moduleInfo(m)
		if err != nil {
			return nil, err
		}
		c.add(info)
	}
	var level []cutRef
	for _, t := range roots {
		ref, err := c.find(t)
		if err != nil {
			return nil, err
		}
		level = append(level, ref...)
	}
	v.sought.Lock()
	for _, b := range c.blobs {
		level = append(level, b.called(&v.sought)...)
	}
	v.sought.Unlock()
	for far := 0; len(level) > 0; far++ {
		level = keepTypes(level, far > pointers)
	}
	for _, b := range c.blobs {
		b.number()
	}
	return c, nil
}

// add adds a blob, vmlinux first.
func (c *TypeCut) add(info *typeInfo) {
	s := &cutBlob{info: info, first: info.raw.firstID(), offsets: map[string]uint32{}}
	for t := range info.raw.all() {
		s.types = append(s.types, t)
	}
	if info.raw.base != nil {
		s.base = c.blobs[0]
	}
	s.keep, s.ids = make([]keeping, len(s.types)), make([]uint32, len(s.types))
	c.blobs = append(c.blobs, s)
}

// A cutRef is a type as a blob refers to it, perhaps to its base.
type cutRef struct {
	blob *cutBlob
	id   uint32
}

// index returns where the type is. ok is false for void and for IDs that are too large.
func (r cutRef) index() (b *cutBlob, i uint32, ok bool) {
	b = r.blob
	if b.base != nil && r.id < b.first {
		b = b.base
	}
	i = r.id - b.first
	return b, i, r.id >= b.first && int(i) < len(b.types)
}

// find returns a decoded type. A type that no blob has was made from others, and stands for
// these.
func (c *TypeCut) find(t btf.Type) ([]cutRef, error) {
	for range maxQualifiers {
		for _, b := range c.blobs {
			spec, err := b.info.spec()
			if err != nil {
				return nil, err
			}
			b.info.decode.Lock()
			id, err := spec.TypeID(t)
			b.info.decode.Unlock()
			if err == nil {
				return []cutRef{{b, uint32(id)}}, nil
			} else if !errors.Is(err, btf.ErrNotFound) {
				return nil, err
			}
		}
		switch of := t.(type) {
		case *btf.Pointer:
			t = of.Target
		case *btf.Array:
			t = of.Type
		case *btf.Typedef:
			t = of.Type
		case *btf.Const:
			t = of.Type
		case *btf.Volatile:
			t = of.Type
		default:
			return nil, nil
		}
	}
	return nil, nil
}

// called returns the types and enumerators of names that were looked up.
func (b *cutBlob) called(sought *soughtNames) (refs []cutRef) {
	for i := range b.types {
		t := &b.types[i]
		switch t.kind {
		case kindFunc, kindVar, kindDatasec, kindDeclTag:
			continue
		}
		if _, ok := sought.types[string(b.info.raw.text(t.name))]; ok && t.name != 0 {
			refs = append(refs, cutRef{b, t.id})
		}
	}
	for name := range sought.enumerators {
		for id := range b.info.raw.enumsWith(name) {
			refs = append(refs, cutRef{b, id})
		}
	}
	return refs
}

// keepTypes keeps types, with what they are made of, but of those that are far away only the
// names. It returns what they point to.
func keepTypes(level []cutRef, far bool) (pointees []cutRef) {
	for len(level) > 0 {
		r := level[len(level)-1]
		level = level[:len(level)-1]
		b, i, ok := r.index()
		if !ok || b.keep[i] != left {
			continue
		}
		t := &b.types[i]
		if (t.kind == kindStruct || t.kind == kindUnion) && t.name != 0 && far {
			b.keep[i] = declared
			continue
		}
		b.keep[i] = whole
		for _, at := range places(t).types {
			ref := cutRef{b, t.word(b, at)}
			if t.kind == kindPtr {
				pointees = append(pointees, ref)
			} else {
				level = append(level, ref)
			}
		}
	}
	return pointees
}

// word returns a number of a type, by its place behind the start of the header.
func (t *rawType) word(b *cutBlob, at int) uint32 {
	if at < typeHeader {
		return t.ref
	}
	return b.info.raw.uint32(t.data[at-typeHeader:])
}

// refPlace is where a header refers to another type.
const refPlace = 8

// typePlaces are the places in a type that have names and the IDs of other types.
type typePlaces struct{ names, types []int }

func places(t *rawType) (p typePlaces) {
	switch t.kind {
	case kindPtr, kindTypedef, kindVolatile, kindConst, kindRestrict, kindFunc, kindTypeTag, kindFuncProto:
		p.types = append(p.types, refPlace)
	case kindArray:
		p.types = append(p.types, typeHeader, typeHeader+4)
	}
	for i := range t.vlen {
		at := typeHeader + extra[t.kind].fixed + i*extra[t.kind].each
		switch t.kind {
		case kindStruct, kindUnion, kindFuncProto:
			p.types = append(p.types, at+4)
			p.names = append(p.names, at)
		case kindEnum, kindEnum64:
			p.names = append(p.names, at)
		}
	}
	return p
}

// number gives what is kept its IDs, behind those of the base.
func (b *cutBlob) number() {
	b.next = 1
	if b.base != nil {
		b.next = b.base.next
	}
	for i, k := range b.keep {
		if k != left {
			b.ids[i] = b.next
			b.next++
		}
	}
}

// ID returns the ID in the cut of a type of vmlinux (module "") or of a module; 0 if the
// cut does not have it.
func (c *TypeCut) ID(module string, id btf.TypeID) btf.TypeID {
	for _, b := range c.blobs {
		if b.info.name == module {
			return btf.TypeID(b.id(uint32(id)))
		}
	}
	return 0
}

func (b *cutBlob) id(old uint32) uint32 {
	of, i, ok := cutRef{b, old}.index()
	if !ok {
		return 0
	}
	return of.ids[i]
}

// Files returns the types as files of /sys. A module of which nothing is kept has none.
func (c *TypeCut) Files() map[string][]byte {
	files := make(map[string][]byte)
	for _, b := range c.blobs {
		if data := b.marshal(); b.base == nil || b.next > b.base.next {
			files[path.Join(btfDir, cmp.Or(b.info.name, "vmlinux"))] = data
		}
	}
	return files
}

// marshal writes a blob as the kernel exports it.
func (b *cutBlob) marshal() []byte {
	raw := b.info.raw
	if b.base == nil {
		b.string(nil) // the empty string is the first one
	}
	var types []byte
	for i := range b.types {
		switch t := &b.types[i]; b.keep[i] {
		case declared:
			info := uint32(kindFwd) << 24
			if t.kind == kindUnion {
				info |= 1 << 31
			}
			types = b.words(types, b.string(raw.text(t.name)), info, 0)
		case whole:
			types = b.marshalType(types, t)
		}
	}
	head := raw.order.AppendUint16(nil, btfMagic)
	head = append(head, 1, 0) // version and flags
	head = b.words(head, btfHeaderSize, 0, uint32(len(types)), uint32(len(types)), uint32(len(b.strings)))
	return slices.Concat(head, types, b.strings)
}

func (b *cutBlob) marshalType(dst []byte, t *rawType) []byte {
	raw, start := b.info.raw, len(dst)
	info := uint32(t.kind)<<24 | uint32(t.vlen)
	if t.flag {
		info |= 1 << 31
	}
	dst = b.words(dst, b.string(raw.text(t.name)), info, t.ref)
	dst = append(dst, t.data...)
	at := places(t)
	for _, p := range at.types {
		raw.order.PutUint32(dst[start+p:], b.id(t.word(b, p)))
	}
	for _, p := range at.names {
		raw.order.PutUint32(dst[start+p:], b.string(raw.text(t.word(b, p))))
	}
	return dst
}

func (b *cutBlob) words(dst []byte, words ...uint32) []byte {
	for _, w := range words {
		dst = b.info.raw.order.AppendUint32(dst, w)
	}
	return dst
}

// string returns the place of a string, in the base's table if that has it.
func (b *cutBlob) string(s []byte) uint32 {
	first := uint32(0)
	if b.base != nil {
		if off, ok := b.base.offsets[string(s)]; ok {
			return off
		}
		first = uint32(len(b.base.strings))
	}
	off, ok := b.offsets[string(s)]
	if !ok {
		off = first + uint32(len(b.strings))
		b.offsets[string(s)] = off
		b.strings = append(append(b.strings, s...), 0)
	}
	return off
}
