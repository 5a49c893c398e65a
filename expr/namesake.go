// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// The source files of a kernel or a program may each have a type of their own by one name. What is
// meant is then decided by the function's signature, which is of one file, or by the member that is
// named. Where both leave more than one possibility, and these differ, it is a fault.

// meant returns the type that a name of several means. Of structs and unions, or typedefs of them,
// that nothing tells apart yet it returns a copy of the first, of which c.several has them all.
func (c *checker) meant(n TypeName, found []btf.Type) (btf.Type, bool) {
	var all []btf.Type
	for _, t := range found {
		if !slices.ContainsFunc(all, func(have btf.Type) bool { return alike(have, t) }) {
			all = append(all, t)
		}
	}
	if len(all) > 1 {
		all = c.ofSignature(all)
	}
	if t := c.narrow(all); t != nil {
		return t, true
	}
	c.ambiguous(all[0], all, n.Pos)
	return nil, false
}

// narrow returns what stands for one or more types of one name, or nil if nothing can.
func (c *checker) narrow(all []btf.Type) btf.Type {
	if len(all) == 1 {
		return all[0]
	}
	var one btf.Type
	switch t := all[0].(type) {
	case *btf.Struct:
		of := *t
		one = &of
	case *btf.Union:
		of := *t
		one = &of
	case *btf.Typedef: // typedef struct { … } state_t, in which only members tell them apart
		if slices.ContainsFunc(all, func(t btf.Type) bool { _, ok := members(t); return !ok }) {
			return nil
		}
		of := *t
		one = &of
	case *btf.Enum:
		return agreed(all)
	default:
		return nil
	}
	if c.several == nil {
		c.several = map[btf.Type][]btf.Type{}
	}
	c.several[one] = all
	return one
}

// agreed returns the enum of what several enums do not contradict each other about; nil if they are not
// alike as numbers. A name that it lacks is ambiguous wherever it is used.
func agreed(all []btf.Type) btf.Type {
	of := *all[0].(*btf.Enum)
	of.Values = nil
	for _, t := range all {
		e, ok := t.(*btf.Enum)
		if !ok || e.Size != of.Size || e.Signed != of.Signed {
			return nil
		}
		of.Values = append(of.Values, e.Values...)
	}
	values := slices.Clone(of.Values)
	of.Values = slices.DeleteFunc(of.Values, func(v btf.EnumValue) bool {
		return slices.ContainsFunc(values, func(o btf.EnumValue) bool { return (o.Name == v.Name) != (o.Value == v.Value) })
	})
	return &of
}

// ofSignature returns the one of several types that the function's parameters or its result are of, or
// point to; all if there is not exactly one.
func (c *checker) ofSignature(all []btf.Type) []btf.Type {
	var named []btf.Type
	have := func(t btf.Type) {
		if p, ok := pointee(t); ok {
			t = p
		}
		for _, of := range all {
			if t != nil && typeName(t) == typeName(of) && alike(t, of) && !slices.Contains(named, of) {
				named = append(named, of)
			}
		}
	}
	for _, p := range c.scope.Params {
		have(p.Type)
	}
	if c.scope.Return != nil {
		have(c.scope.Return)
	}
	if len(named) == 1 {
		return named
	}
	return all
}

// having returns those of several structs that have a member. It is a fault if none has, or if the
// member is not at the same place, and alike, in all that have it.
func (c *checker) having(all []btf.Type, name string, at Span) ([]btf.Type, bool) {
	var with []btf.Type
	var first btf.Member
	var places []string
	differ := false
	for _, t := range all {
		m, off, ok := findMember(t, name, 0)
		if !ok {
			continue
		}
		if m.Offset = off; len(with) == 0 {
			first = m
		}
		differ = differ || m.Offset != first.Offset || m.BitfieldSize != first.BitfieldSize || !alike(m.Type, first.Type)
		with = append(with, t)
		size, _ := sizeOf(t)
		places = append(places, fmt.Sprintf("at byte %d of %d", off/8, size))
	}
	switch {
	case len(with) == 0:
		_, ok := c.fault(CodeUnknownMember, at, memberHint(all[0], name), "none of the %d types %q has a member %q", len(all), typeName(all[0]), name)
		return nil, ok
	case differ:
		_, ok := c.fault(CodeAmbiguous, at, fmt.Sprintf("say which by the offset: *(type *)((char *)p + %d)", first.Offset/8),
			"%d types are called %q, and %q is not the same in all: %s", len(all), typeName(all[0]), name, strings.Join(places, ", "))
		return nil, ok
	}
	return with, true
}

// ambiguous reports that something needs the size, or all of the members, of one of several types.
func (c *checker) ambiguous(t btf.Type, all []btf.Type, at Span) (operand, bool) {
	var sizes []string
	for _, of := range all {
		size, _ := sizeOf(of)
		sizes = append(sizes, fmt.Sprint(size))
	}
	return c.fault(CodeAmbiguous, at, "ksnoop info --types has them all", "%d types are called %q, of %s bytes, and nothing tells which is meant", len(all), typeName(t), strings.Join(sizes, ", "))
}

// settled reports whether the size of t is known, or that there are several by its name.
func (c *checker) settled(t btf.Type, at Span) bool {
	all := c.several[t]
	for _, of := range all {
		a, _ := sizeOf(of)
		if b, _ := sizeOf(all[0]); a != b {
			c.ambiguous(t, all, at)
			return false
		}
	}
	return true
}

// alike reports whether two types have the same layout and the same members: the files that have them
// include the same header. What pointers lead to counts by its name.
func alike(a, b btf.Type) bool {
	// Types of files and recordings may contain themselves.
	left := 1 << 14
	return likeness(a, b, 64, &left)
}

func likeness(a, b btf.Type, depth int, left *int) bool {
	if *left--; depth == 0 || *left < 0 {
		return false
	}
	a, b = btf.UnderlyingType(a), btf.UnderlyingType(b)
	switch a := a.(type) {
	case *btf.Struct, *btf.Union:
		x, _ := members(a)
		y, ok := members(b)
		sizeA, _ := sizeOf(a)
		sizeB, _ := sizeOf(b)
		return ok && sizeA == sizeB && slices.EqualFunc(x, y, func(m, n btf.Member) bool {
			return m.Name == n.Name && m.Offset == n.Offset && m.BitfieldSize == n.BitfieldSize && likeness(m.Type, n.Type, depth-1, left)
		})
	case *btf.Array:
		b, ok := b.(*btf.Array)
		return ok && a.Nelems == b.Nelems && likeness(a.Type, b.Type, depth-1, left)
	case *btf.Pointer:
		_, ok := b.(*btf.Pointer)
		return ok && typeName(a) == typeName(b)
	case *btf.Enum:
		b, ok := b.(*btf.Enum)
		return ok && a.Size == b.Size && a.Signed == b.Signed && slices.Equal(a.Values, b.Values)
	case *btf.Int:
		b, ok := b.(*btf.Int)
		return ok && a.Size == b.Size && a.Encoding == b.Encoding
	case *btf.Float:
		b, ok := b.(*btf.Float)
		return ok && a.Size == b.Size
	}
	return typeName(a) == typeName(b)
}
