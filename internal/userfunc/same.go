// SPDX-License-Identifier: Apache-2.0

package userfunc

import (
	"debug/dwarf"
	"reflect"
	"slices"

	"github.com/cilium/ebpf/btf"
)

// A structKey is what structs and unions that may be the same have in common.
type structKey struct {
	kind, name string
	size       int64
	fields     int
}

// A namedStruct is a struct or union that was made.
type namedStruct struct {
	from *dwarf.StructType
	made btf.Type
}

type typePair [2]dwarf.Type

// Limits on comparing. Beyond the first, the members of two structs tell whether they are the same, and not what these lead to; beyond
// the second, a struct is one of its own.
const (
	mostCompared  = 1 << 19 // types and members
	mostNamesakes = 64      // of one key
)

// same reports whether a struct, which may be of another unit, is the same in C as one that is known, with all that they lead to: units may
// each have a struct state of their own, or one of whose members are pointers to such. A struct that a unit only declares is the same as
// any of its name.
func (m *typeMaker) same(known, t *dwarf.StructType) bool {
	assumed := map[typePair]bool{}
	for todo := []typePair{{known, t}}; len(todo) > 0; {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if known, is := m.alikeTo[p[1]]; p[0] == p[1] || assumed[p] || is && known == p[0] {
			continue
		}
		more, alike := m.alike(p)
		if !alike {
			return false
		}
		if m.compared += 1 + len(more); m.compared > mostCompared {
			return true
		}
		assumed[p] = true
		todo = append(todo, more...)
	}
	for p := range assumed {
		m.alikeTo[p[1]] = p[0]
	}
	return true
}

// alike compares two types but for those that they lead to, of which it returns the pairs.
func (m *typeMaker) alike(p typePair) (more []typePair, ok bool) {
	if p[0] == nil || p[1] == nil || reflect.TypeOf(p[0]) != reflect.TypeOf(p[1]) {
		return nil, p[0] == p[1]
	}
	switch a := p[0].(type) {
	case *dwarf.PtrType:
		return []typePair{{a.Type, p[1].(*dwarf.PtrType).Type}}, true
	case *dwarf.QualType:
		b := p[1].(*dwarf.QualType)
		return []typePair{{a.Type, b.Type}}, a.Qual == b.Qual
	case *dwarf.TypedefType:
		b := p[1].(*dwarf.TypedefType)
		return []typePair{{a.Type, b.Type}}, a.Name == b.Name
	case *dwarf.ArrayType:
		b := p[1].(*dwarf.ArrayType)
		return []typePair{{a.Type, b.Type}}, a.Count == b.Count
	case *dwarf.UnsupportedType:
		return []typePair{{m.types.Plain(a), m.types.Plain(p[1].(*dwarf.UnsupportedType))}}, true
	case *dwarf.FuncType:
		b := p[1].(*dwarf.FuncType)
		if len(a.ParamType) != len(b.ParamType) {
			return nil, false
		}
		more = []typePair{{a.ReturnType, b.ReturnType}}
		for i := range a.ParamType {
			more = append(more, typePair{a.ParamType[i], b.ParamType[i]})
		}
		return more, true
	case *dwarf.EnumType:
		b := p[1].(*dwarf.EnumType)
		return nil, a.EnumName == b.EnumName && a.ByteSize == b.ByteSize && slices.EqualFunc(a.Val, b.Val, func(x, y *dwarf.EnumValue) bool { return *x == *y })
	case *dwarf.StructType:
		return alikeStructs(a, p[1].(*dwarf.StructType))
	}
	return nil, p[0].Common().Name == p[1].Common().Name && p[0].Size() == p[1].Size()
}

func alikeStructs(a, b *dwarf.StructType) (more []typePair, ok bool) {
	if a.Kind != b.Kind || a.StructName != b.StructName {
		return nil, false
	}
	if a.Incomplete || b.Incomplete {
		return nil, true
	}
	if a.ByteSize != b.ByteSize || len(a.Field) != len(b.Field) {
		return nil, false
	}
	for i, x := range a.Field {
		y := *b.Field[i]
		more = append(more, typePair{x.Type, y.Type})
		if y.Type = x.Type; *x != y {
			return nil, false
		}
	}
	return more, true
}
