// SPDX-License-Identifier: Apache-2.0

package userfunc

import (
	"debug/dwarf"

	"github.com/cilium/ebpf/btf"
)

// gnuVector is DW_AT_GNU_vector: an array that has it is a vector, as SIMD instructions take it.
const gnuVector = dwarf.Attr(0x2107)

// passed returns the type of a parameter or result that an entry refers to; it is void where there is
// none. What is no pointer and cannot be described is a struct that is only declared, which C passes
// nowhere: so nobody takes it for something whose place is known. So is a vector, whose place depends
// on what the compiler was told of the CPU.
func (c *typeCollector) passed(e *dwarf.Entry) (btf.Type, error) {
	t, err := c.typeOf(e)
	if err != nil {
		return nil, err
	}
	e, name := c.plainly(e)
	if e == nil {
		return t, nil // void
	}
	switch e.Tag {
	case dwarf.TagPointerType, dwarf.TagReferenceType, dwarf.TagRvalueReferenceType, dwarf.TagUnspecifiedType:
		if void(t) {
			return &btf.Pointer{Target: t}, nil // a word of which no C type is known
		}
		return t, nil
	case dwarf.TagArrayType, dwarf.TagStructType, dwarf.TagUnionType:
		left := mostMembers
		if !void(t) && !c.hasVector(e, &left) {
			return t, nil
		}
	default:
		if !void(t) {
			return t, nil
		}
	}
	declared := &btf.Fwd{Name: name}
	if e.Tag == dwarf.TagUnionType {
		declared.Kind = btf.FwdUnion
	}
	if tag, _ := e.Val(dwarf.AttrName).(string); (e.Tag == dwarf.TagStructType || e.Tag == dwarf.TagUnionType) && tag == name {
		return declared, nil
	}
	return &btf.Typedef{Name: name, Type: declared}, nil
}

// returned does for results what passed does for parameters. A vector of 16 bytes is in the first floating-point
// register, whatever the compiler was told, and so is described as a number that is. A larger one may be in
// memory, and its address is the first argument then.
func (c *typeCollector) returned(e *dwarf.Entry) (btf.Type, error) {
	of, name := c.plainly(e)
	if of == nil || of.Tag != dwarf.TagArrayType || of.Val(gnuVector) == nil {
		return c.passed(e)
	}
	t, err := c.typeOf(e)
	if err != nil {
		return nil, err
	}
	if size, err := btf.Sizeof(t); err != nil || size != 16 {
		return c.passed(e)
	}
	vector := &btf.Float{Name: "vector", Size: 16}
	if name == "" {
		return vector, nil
	}
	return &btf.Typedef{Name: name, Type: vector}, nil
}

// plainly returns the type that an entry refers to without typedefs and qualifiers, nil for void, and
// the first name on the way.
func (c *typeCollector) plainly(e *dwarf.Entry) (to *dwarf.Entry, name string) {
	for range mostDepth {
		off, ok := e.Val(dwarf.AttrType).(dwarf.Offset)
		if !ok {
			return nil, name
		}
		r := c.data.Reader()
		r.Seek(off)
		next, err := r.Next()
		if err != nil || next == nil {
			return nil, name
		}
		if of, _ := next.Val(dwarf.AttrName).(string); name == "" {
			name = identifier(of)
		}
		switch next.Tag {
		case dwarf.TagTypedef, dwarf.TagConstType, dwarf.TagVolatileType, dwarf.TagRestrictType, dwarf.TagAtomicType:
			e = next
			continue
		}
		return next, name
	}
	return nil, name
}

// hasVector reports whether a type is a vector or has one, or more than left members.
func (c *typeCollector) hasVector(e *dwarf.Entry, left *int) bool {
	if *left--; *left < 0 {
		return true
	}
	if e.Tag == dwarf.TagArrayType {
		if e.Val(gnuVector) != nil {
			return true
		}
		of, _ := c.plainly(e)
		return of != nil && c.hasVector(of, left)
	}
	if e.Tag != dwarf.TagStructType && e.Tag != dwarf.TagUnionType {
		return false
	}
	for m, err := range c.children(e.Offset) {
		if err != nil {
			return true
		}
		if m.Tag != dwarf.TagMember {
			continue
		}
		if of, _ := c.plainly(m); of != nil && c.hasVector(of, left) {
			return true
		}
	}
	return false
}
