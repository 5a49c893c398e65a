// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"github.com/cilium/ebpf/btf"
)

// An Outline looks up types without decoding those that they lead to: a pointer in it leads to a
// declaration of a struct, and the struct is another look-up. Decoding a kernel's types takes long
// enough to be noticed between two keys; an Outline takes a few milliseconds.
//
// An Outline is not safe for concurrent use.
type Outline struct {
	view   *View
	module string
	blobs  map[*rawBTF]*outlineBlob
	// cut has the structs and unions that were only declared, by their spelling.
	cut map[string]cutType
}

// A cutType is where a type is.
type cutType struct {
	blob *outlineBlob
	id   uint32
}

// Outline returns the outline of the types that a module knows, or vmlinux for "".
func (v *View) Outline(module string) *Outline {
	return &Outline{view: v, module: module, blobs: map[*rawBTF]*outlineBlob{}, cut: map[string]cutType{}}
}

// TypesByName is View.TypesByName for the module, except that it returns one type: of two structs
// with one name that to which a pointer led, or the first.
func (o *Outline) TypesByName(spelling string) ([]btf.Type, error) {
	kind, name := splitSpelling(spelling)
	if name == "" {
		return nil, nil
	}
	if at, ok := o.cut[kind+" "+name]; ok {
		return []btf.Type{at.blob.decode(at.id, 0)}, nil
	}
	var declared []btf.Type
	for _, infos := range o.view.scopes(o.module) {
		found, err := infos()
		if err != nil {
			return nil, err
		}
		for _, info := range found {
			for t := range info.raw.named(name, allKinds&^funcKind) {
				decoded := o.blob(info.raw).decode(t.id, 0)
				if kindOf(decoded) != kind {
					continue
				}
				if _, fwd := decoded.(*btf.Fwd); !fwd {
					return []btf.Type{decoded}, nil
				}
				if declared == nil {
					declared = []btf.Type{decoded}
				}
			}
		}
	}
	return declared, nil
}

// Enumerators is View.Enumerators for the module.
func (o *Outline) Enumerators(name string) ([]*btf.Enum, error) {
	for _, infos := range o.view.scopes(o.module) {
		found, err := infos()
		if err != nil {
			return nil, err
		}
		var enums []*btf.Enum
		for _, info := range found {
			for id := range info.raw.enumsWith(name) {
				if e, ok := o.blob(info.raw).decode(id, 0).(*btf.Enum); ok {
					enums = append(enums, e)
				}
			}
		}
		if len(enums) > 0 {
			return enums, nil
		}
	}
	return nil, nil
}

// A NamedFunction is a function as BTF has it, of which nothing was decoded.
type NamedFunction struct {
	Name, Module string
	id           uint32
}

// Function decodes a function of the module. A kfunc lacks its implicit arguments.
func (o *Outline) Function(f NamedFunction) *btf.Func {
	info, err := o.view.moduleInfo(o.module)
	if err != nil {
		return nil
	}
	t, _ := o.blob(info.raw).decode(f.id, 0).(*btf.Func)
	return t
}

// blob returns the decoder of a blob.
func (o *Outline) blob(raw *rawBTF) *outlineBlob {
	b := o.blobs[raw]
	if b == nil {
		b = &outlineBlob{raw: raw, known: map[uint32]btf.Type{}, cut: o.cut}
		if raw.base != nil {
			b.base = o.blob(raw.base)
		}
		o.blobs[raw] = b
	}
	return b
}

// An outlineBlob decodes types of one blob.
type outlineBlob struct {
	raw   *rawBTF
	base  *outlineBlob
	known map[uint32]btf.Type
	cut   map[string]cutType // of the Outline
}

// maxOutline bounds how deep types are nested that are decoded together. Damaged ones may nest
// without end.
const maxOutline = 48

// decode decodes a type. What is nested too deep, or is not there, is void.
func (b *outlineBlob) decode(id uint32, depth int) btf.Type {
	if id != 0 && id < b.raw.firstID() {
		return b.base.decode(id, depth)
	}
	if t, ok := b.known[id]; ok {
		return t
	}
	raw, ok := b.raw.byID(id)
	if !ok || depth > maxOutline {
		return &btf.Void{}
	}
	return b.build(raw, depth+1)
}

// remember keeps a type, before what it is made of is decoded: that may lead to it again.
func (b *outlineBlob) remember(id uint32, t btf.Type) { b.known[id] = t }

// build decodes a type and what it is made of.
func (b *outlineBlob) build(raw rawType, depth int) btf.Type {
	name := string(b.raw.text(raw.name))
	switch raw.kind {
	case kindStruct:
		t := &btf.Struct{Name: name, Size: raw.ref}
		b.remember(raw.id, t)
		t.Members = b.members(raw, depth)
		return t
	case kindUnion:
		t := &btf.Union{Name: name, Size: raw.ref}
		b.remember(raw.id, t)
		t.Members = b.members(raw, depth)
		return t
	case kindPtr:
		t := &btf.Pointer{}
		b.remember(raw.id, t)
		t.Target = b.target(raw.ref, depth)
		return t
	case kindFuncProto:
		t := &btf.FuncProto{}
		b.remember(raw.id, t)
		t.Return = b.decode(raw.ref, depth)
		for p := raw.data; len(p) >= 8; p = p[8:] {
			t.Params = append(t.Params, btf.FuncParam{Name: string(b.raw.text(b.raw.uint32(p))), Type: b.decode(b.raw.uint32(p[4:]), depth)})
		}
		return t
	case kindEnum, kindEnum64:
		t := b.enum(raw, name)
		b.remember(raw.id, t)
		return t
	}
	t := b.simple(raw, name, depth)
	b.remember(raw.id, t)
	return t
}

// simple decodes a type that is made of at most one other.
func (b *outlineBlob) simple(raw rawType, name string, depth int) btf.Type {
	switch raw.kind {
	case kindInt:
		return &btf.Int{Name: name, Size: raw.ref, Encoding: btf.IntEncoding(b.raw.uint32(raw.data) >> 24 & 0xf)}
	case kindFloat:
		return &btf.Float{Name: name, Size: raw.ref}
	case kindFwd:
		return forward(name, raw.flag)
	case kindArray:
		return &btf.Array{Type: b.decode(b.raw.uint32(raw.data), depth), Index: &btf.Int{Name: "int", Size: 4}, Nelems: b.raw.uint32(raw.data[8:])}
	case kindTypedef:
		return &btf.Typedef{Name: name, Type: b.decode(raw.ref, depth)}
	case kindConst:
		return &btf.Const{Type: b.decode(raw.ref, depth)}
	case kindVolatile:
		return &btf.Volatile{Type: b.decode(raw.ref, depth)}
	case kindRestrict:
		return &btf.Restrict{Type: b.decode(raw.ref, depth)}
	case kindTypeTag:
		return &btf.TypeTag{Value: name, Type: b.decode(raw.ref, depth)}
	case kindFunc:
		return &btf.Func{Name: name, Type: b.decode(raw.ref, depth)}
	}
	return &btf.Void{}
}

func forward(name string, union bool) *btf.Fwd {
	t := &btf.Fwd{Name: name, Kind: btf.FwdStruct}
	if union {
		t.Kind = btf.FwdUnion
	}
	return t
}

// target decodes what a pointer leads to: of a struct that has a name, the declaration.
func (b *outlineBlob) target(id uint32, depth int) btf.Type {
	of := b
	if id != 0 && id < b.raw.firstID() {
		of = b.base
	}
	raw, ok := of.raw.byID(id)
	if ok && (raw.kind == kindStruct || raw.kind == kindUnion) {
		if name := of.raw.text(raw.name); len(name) > 0 {
			if spelling := keyword(raw) + string(name); b.cut[spelling].blob == nil {
				b.cut[spelling] = cutType{of, id}
			}
			return forward(string(name), raw.kind == kindUnion)
		}
	}
	if ok && depth <= maxOutline {
		switch raw.kind {
		case kindConst:
			return &btf.Const{Type: of.target(raw.ref, depth+1)}
		case kindVolatile:
			return &btf.Volatile{Type: of.target(raw.ref, depth+1)}
		case kindTypeTag:
			return &btf.TypeTag{Value: string(of.raw.text(raw.name)), Type: of.target(raw.ref, depth+1)}
		case kindTypedef:
			return &btf.Typedef{Name: string(of.raw.text(raw.name)), Type: of.target(raw.ref, depth+1)}
		}
	}
	return of.decode(id, depth)
}

// members decodes the members of a struct or union. The flag says that an offset has the size of a
// bitfield in its highest byte.
func (b *outlineBlob) members(raw rawType, depth int) []btf.Member {
	members := make([]btf.Member, 0, raw.vlen)
	for m := raw.data; len(m) >= 12; m = m[12:] {
		offset, bits := b.raw.uint32(m[8:]), uint32(0)
		if raw.flag {
			offset, bits = offset&0xffffff, offset>>24
		}
		members = append(members, btf.Member{Name: string(b.raw.text(b.raw.uint32(m))), Type: b.decode(b.raw.uint32(m[4:]), depth),
			Offset: btf.Bits(offset), BitfieldSize: btf.Bits(bits)})
	}
	return members
}

// enum decodes an enum. The flag says that it is signed.
func (b *outlineBlob) enum(raw rawType, name string) *btf.Enum {
	t := &btf.Enum{Name: name, Size: raw.ref, Signed: raw.flag}
	each := extra[raw.kind].each
	for v := raw.data; len(v) >= each; v = v[each:] {
		value := uint64(b.raw.uint32(v[4:]))
		switch {
		case raw.kind == kindEnum64:
			value |= uint64(b.raw.uint32(v[8:])) << 32
		case raw.flag:
			value = uint64(int64(int32(value)))
		}
		t.Values = append(t.Values, btf.EnumValue{Name: string(b.raw.text(b.raw.uint32(v))), Value: value})
	}
	return t
}
