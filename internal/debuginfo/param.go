// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"iter"
	"slices"
	"strings"
)

// A Param is a parameter of an inlined function, and where its value is when the function's
// code starts.
type Param struct {
	Name  string
	Type  Type
	Place Place
}

// A Type is a C type, described by its name.
type Type struct {
	Name   string // "struct sk_buff *"; void for a type without a name
	Size   uint32
	Signed bool   `json:",omitempty"`
	Target uint32 `json:",omitempty"` // for a pointer: size of its target in bytes, 0 if unknown
}

// params returns the parameters of an instance in the order of their declaration. c is at
// the instance's attributes.
func (f *inlineFinder) params(c cursor, a *abbrev, e *entry, addr uint64) []Param {
	u := f.unit
	origin, ok := u.reference(e.origin)
	if !ok {
		return nil
	}
	params, entries := f.declared(origin)
	if !a.children || len(params) == 0 {
		return params
	}
	if err := f.reader.info.relocateLate(); err != nil {
		f.reader.info.fail(err)
		return params
	}
	p := placer{info: f.reader.info, unit: u, addr: addr, frames: f.frameTable(), base: f.frameBase()}
	u.skip(&c, a)
	for _, a := range u.children(&c, &f.visits) {
		if a.role != roleParameter {
			continue
		}
		body := c
		var abstract, location, constant value
		for _, attr := range u.abbrevs.of(a) {
			switch v := u.read(&body, attr); attr.name {
			case attrAbstractOrigin:
				abstract = v
			case attrLocation:
				location = v
			case attrConstValue:
				constant = v
			}
		}
		off, ok := u.reference(abstract)
		if i := slices.Index(entries, off); ok && i >= 0 && params[i].Place.Ops == nil {
			params[i].Place = p.place(location, constant)
		}
	}
	return params
}

// children yields the offsets and shapes of an entry's children. The entry's attributes end
// at the cursor. At each step the cursor is at the child's attributes.
func (u *unit) children(c *cursor, visits *int) iter.Seq2[uint64, *abbrev] {
	return func(yield func(uint64, *abbrev) bool) {
		for depth := 0; depth >= 0 && c.pos < len(c.b); {
			if *visits--; *visits < 0 {
				return
			}
			off := u.sections.bias | uint64(c.pos)
			code := c.uleb()
			if code == 0 {
				depth--
				continue
			}
			a := u.abbrevs.find(code)
			if a == nil || depth == 0 && !yield(off, a) {
				return
			}
			if u.skipTree(c, a) {
				depth++
			}
		}
	}
}

// declared returns the parameters of the function at off, in any unit, and the offsets of
// their entries.
func (f *inlineFinder) declared(function uint64) (params []Param, entries []uint64) {
	u := f.unitOf(function)
	if u == nil {
		return nil, nil
	}
	c := u.cursor(function)
	a := u.abbrevs.find(c.uleb())
	if a == nil || !a.children {
		return nil, nil
	}
	u.skip(&c, a)
	var types []value
	for off, a := range u.children(&c, &f.visits) {
		if a.role != roleParameter {
			continue
		}
		body := c
		var name, typ value
		for _, attr := range u.abbrevs.of(a) {
			switch v := u.read(&body, attr); attr.name {
			case attrName:
				name = v
			case attrType:
				typ = v
			}
		}
		params, entries = append(params, Param{Name: identifier(u.str(name))}), append(entries, off)
		types = append(types, typ)
	}
	for i := range params {
		// Types may be in other units; caching those may have evicted this one.
		if u = f.unitOf(function); u != nil {
			params[i].Type = f.typeOf(u, types[i])
		}
	}
	return params, entries
}

// identifier returns a C name. An extremely long one is a sign of a damaged file, where
// many may share it.
func identifier(b []byte) string {
	const most = 256
	if len(b) > most {
		return ""
	}
	return string(b)
}

// unitOf returns the unit of an entry.
func (f *inlineFinder) unitOf(off uint64) *unit {
	return f.reader.unitOf(f.unit, off)
}

// A typeEntry is what an entry says about a type.
type typeEntry struct {
	tag            uint16
	name, of       value
	size, encoding uint64
}

// typeEntry reads an entry of a type, as far as its name and size need it.
func (u *unit) typeEntry(off uint64) (t typeEntry, ok bool) {
	c := u.cursor(off)
	a := u.abbrevs.find(c.uleb())
	if a == nil {
		return t, false
	}
	t.tag = a.tag
	for _, attr := range u.abbrevs.of(a) {
		switch v := u.read(&c, attr); attr.name {
		case attrName:
			t.name = v
		case attrType:
			t.of = v
		case attrByteSize:
			t.size = v.n
		case attrEncoding:
			t.encoding = v.n
		}
	}
	return t, !c.bad
}

// typeOf returns the type that a value refers to.
func (f *inlineFinder) typeOf(u *unit, ref value) Type {
	const most = 32 // a damaged file may have a cycle
	s := spelling{addrSize: uint32(u.addrSize)}
	for range most {
		off, ok := u.reference(ref)
		if !ok {
			break // void
		}
		if u = f.unitOf(off); u == nil {
			break
		}
		t, ok := u.typeEntry(off)
		if !ok || !s.add(&t, identifier(u.str(t.name))) {
			break
		}
		ref = t.of
	}
	return s.finish()
}

// A spelling assembles the name of a type, from the outside in.
type spelling struct {
	addrSize uint32
	typ      Type
	sized    bool
	stars    int
	constant bool // the next part is const
}

// add adds one entry. more says whether further entries matter.
func (s *spelling) add(t *typeEntry, name string) (more bool) {
	kind := ""
	switch t.tag {
	case tagPointerType:
		if s.typ.Name != "" { // of a typedef, only the size
			return s.size(s.addrSize, false)
		}
		s.size(s.addrSize, false)
		s.stars, s.constant = s.stars+1, false
		return true
	case tagConstType:
		s.constant = true
		return true
	case tagVolatileType, tagRestrictType, tagAtomicType:
		return true
	case tagTypedef:
		s.named(name)
		return !s.sized
	case tagStructureType:
		kind = "struct "
	case tagUnionType:
		kind = "union "
	case tagEnumerationType:
		kind = "enum "
	case tagBaseType:
	default: // a function or an array
		return false
	}
	if name != "" {
		s.named(kind + name)
	}
	if s.stars == 1 && s.typ.Target == 0 {
		s.typ.Target = uint32(min(t.size, 1<<31))
	}
	return s.size(uint32(min(t.size, 1<<31)), t.encoding == encodingSigned || t.encoding == encodingSignedChar)
}

// named sets the name, unless an outer entry has set one. const matters only for what a
// pointer points to.
func (s *spelling) named(name string) {
	if s.typ.Name != "" {
		return
	}
	if s.typ.Name = name; s.constant && s.stars > 0 {
		s.typ.Name = "const " + name
	}
}

// size records the size. The first one found counts, and more is always false.
func (s *spelling) size(n uint32, signed bool) (more bool) {
	if !s.sized {
		s.typ.Size, s.typ.Signed, s.sized = n, signed, true
	}
	return false
}

// finish assembles the name from the parts that were found.
func (s *spelling) finish() Type {
	if s.typ.Name == "" {
		s.typ.Name = "void"
	}
	if s.stars > 0 {
		s.typ.Name += " " + strings.Repeat("*", s.stars)
	}
	return s.typ
}

// frameTable returns the frame table, made on first use.
func (f *inlineFinder) frameTable() *frameTable {
	if f.frames == nil {
		f.frames = newFrameTable(f.reader.info.sections.frame, f.unit.addrSize)
	}
	return f.frames
}

// frameBase returns the frame base of the function being walked.
func (f *inlineFinder) frameBase() []byte {
	u := f.unit
	c := u.cursor(f.function)
	a := u.abbrevs.find(c.uleb())
	if a == nil {
		return nil
	}
	for _, attr := range u.abbrevs.of(a) {
		if v := u.read(&c, attr); attr.name == attrFrameBase {
			return v.text
		}
	}
	return nil
}
