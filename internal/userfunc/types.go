// SPDX-License-Identifier: Apache-2.0

package userfunc

import (
	"debug/dwarf"
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/dw"
)

// Limits on types. The types of one function of a large C program lead to thousands of others.
const (
	mostTypes    = 50_000
	mostMembers  = 1 << 12 // of one struct
	mostElements = 1 << 26 // of one array
	mostDepth    = 64      // of types in types, pointers apart
)

var errManyTypes = fmt.Errorf("its types lead to more than %d others", mostTypes)

// A typeMaker makes BTF of types in DWARF: the same C, which all that comes after understands.
type typeMaker struct {
	arch  string
	types *dw.Types // which those that are made come from
	made  map[dwarf.Type]btf.Type
	named map[structKey][]namedStruct // units describe the same ones again
	// alikeTo has types that a type was found to be the same as, and compared is how much was looked at for that.
	alikeTo  map[dwarf.Type]dwarf.Type
	compared int
	depth    int
	err      error
	// pointers lead to types that are not made yet. To follow them within others would go as deep as the program's types
	// are long.
	pointers []pointer
}

type pointer struct {
	from *btf.Pointer
	to   dwarf.Type
}

// full reports whether there is room for few more types.
func (m *typeMaker) full() bool { return len(m.made) >= mostTypes/2 }

// of returns the BTF for a type and all that it leads to; nil stands for void. What C does not have becomes void.
func (m *typeMaker) of(t dwarf.Type) btf.Type {
	made := m.within(t)
	for len(m.pointers) > 0 {
		p := m.pointers[len(m.pointers)-1]
		m.pointers = m.pointers[:len(m.pointers)-1]
		p.from.Target = m.within(p.to)
	}
	return made
}

// within is of for a type in others. It leaves pointers to of.
func (m *typeMaker) within(t dwarf.Type) btf.Type {
	if t == nil || m.err != nil {
		return &btf.Void{}
	}
	if made, ok := m.made[t]; ok {
		return made
	}
	if len(m.made) >= mostTypes {
		m.err = errManyTypes
		return &btf.Void{}
	}
	m.depth++
	defer func() { m.depth-- }()
	if m.depth > 4*mostDepth {
		m.err = errors.New("its types lead into each other without end")
		return &btf.Void{}
	}
	switch t := t.(type) {
	case *dwarf.PtrType:
		made := &btf.Pointer{}
		m.made[t] = made
		m.pointers = append(m.pointers, pointer{made, t.Type})
		return made
	case *dwarf.StructType:
		return m.structure(t)
	case *dwarf.QualType:
		return m.qualified(t)
	case *dwarf.TypedefType:
		made := &btf.Typedef{Name: identifier(t.Name)}
		if made.Name == "" {
			return m.within(t.Type)
		}
		m.made[t] = made
		made.Type = m.within(t.Type)
		return made
	case *dwarf.ArrayType:
		return m.array(t)
	case *dwarf.UnsupportedType:
		return m.within(m.types.Plain(t))
	}
	made := m.plain(t)
	m.made[t] = made
	return made
}

// plain returns the BTF for a type that leads to no other, or to a function's.
func (m *typeMaker) plain(t dwarf.Type) btf.Type {
	size := uint32(t.Size())
	integer := func(e btf.IntEncoding) btf.Type {
		if size == 0 || size > 16 {
			return &btf.Void{}
		}
		return &btf.Int{Name: t.Common().Name, Size: size, Encoding: e}
	}
	switch t := t.(type) {
	case *dwarf.BoolType:
		return integer(btf.Bool)
	case *dwarf.CharType:
		return integer(btf.Signed) // char of amd64; on arm64 the compiler says unsigned
	case *dwarf.IntType:
		return integer(btf.Signed)
	case *dwarf.UcharType, *dwarf.UintType, *dwarf.AddrType:
		return integer(btf.Unsigned)
	case *dwarf.FloatType:
		return m.float(t.Name, size)
	case *dwarf.ComplexType:
		return m.complexFloat(t)
	case *dwarf.EnumType:
		return m.enum(t)
	case *dwarf.FuncType:
		proto := &btf.FuncProto{Return: m.within(t.ReturnType)}
		for _, p := range t.ParamType {
			if _, more := p.(*dwarf.DotDotDotType); more {
				proto.Params = append(proto.Params, btf.FuncParam{Type: &btf.Void{}})
				break
			}
			proto.Params = append(proto.Params, btf.FuncParam{Type: m.within(p)})
		}
		return proto
	}
	return &btf.Void{}
}

func (m *typeMaker) qualified(t *dwarf.QualType) btf.Type {
	switch t.Qual {
	case "const":
		made := &btf.Const{}
		m.made[t] = made
		made.Type = m.within(t.Type)
		return made
	case "volatile":
		made := &btf.Volatile{}
		m.made[t] = made
		made.Type = m.within(t.Type)
		return made
	}
	return m.within(t.Type) // restrict, _Atomic
}

// array returns an array. One of several dimensions is one of all elements, as in the kernel's BTF.
func (m *typeMaker) array(t *dwarf.ArrayType) btf.Type {
	n, elem := max(t.Count, 0), t.Type // a flexible one has -1
	for range mostDepth {
		inner, ok := elem.(*dwarf.ArrayType)
		if !ok {
			break
		}
		if elem = inner.Type; inner.Count > mostElements/max(n, 1) {
			n = mostElements + 1
			break
		}
		n *= max(inner.Count, 0)
	}
	if n > mostElements {
		m.err = fmt.Errorf("it has an array of more than %d elements", mostElements)
		return &btf.Void{}
	}
	made := &btf.Array{Index: &btf.Int{Name: "long unsigned int", Size: 8}, Nelems: uint32(n)}
	m.made[t] = made
	made.Type = m.within(elem)
	return made
}

func (m *typeMaker) structure(t *dwarf.StructType) btf.Type {
	name := identifier(t.StructName)
	if t.Incomplete {
		kind := btf.FwdStruct
		if t.Kind == "union" {
			kind = btf.FwdUnion
		}
		if name == "" {
			return &btf.Void{}
		}
		made := &btf.Fwd{Name: name, Kind: kind}
		m.made[t] = made
		return made
	}
	if len(t.Field) > mostMembers || t.ByteSize < 0 || t.ByteSize > 1<<28 {
		m.err = fmt.Errorf("struct %s is too large", t.StructName)
		return &btf.Void{}
	}
	key := structKey{t.Kind, t.StructName, t.ByteSize, len(t.Field)}
	if namesakes := m.named[key]; name != "" && len(namesakes) < mostNamesakes {
		for _, known := range namesakes {
			if m.same(known.from, t) {
				m.made[t] = known.made
				return known.made
			}
		}
	}
	if t.Kind == "union" {
		made := &btf.Union{Name: name, Size: uint32(t.ByteSize)}
		m.made[t], m.named[key] = made, append(m.named[key], namedStruct{t, made})
		made.Members = m.members(t)
		return made
	}
	made := &btf.Struct{Name: name, Size: uint32(t.ByteSize)}
	m.made[t], m.named[key] = made, append(m.named[key], namedStruct{t, made})
	made.Members = m.members(t)
	return made
}

func (m *typeMaker) members(t *dwarf.StructType) []btf.Member {
	var members []btf.Member
	for _, f := range t.Field {
		member := btf.Member{Name: identifier(f.Name), Type: m.within(f.Type), Offset: btf.Bits(8 * f.ByteOffset)}
		if f.BitSize != 0 {
			member.BitfieldSize = btf.Bits(f.BitSize)
			switch {
			case f.DataBitOffset != 0 || f.BitOffset == 0 && f.ByteSize == 0:
				member.Offset = btf.Bits(8*f.ByteOffset + f.DataBitOffset)
			default: // DWARF 3: from the highest bit of the unit
				size, _ := btf.Sizeof(member.Type)
				member.Offset = btf.Bits(8*f.ByteOffset + 8*max(f.ByteSize, int64(size)) - f.BitOffset - f.BitSize)
			}
		}
		if size := 8 * uint64(t.ByteSize); uint64(member.Offset) > size || uint64(member.BitfieldSize) > 64 {
			m.err = fmt.Errorf("a member of struct %s is outside of it", t.StructName)
			return nil
		}
		if void(member.Type) {
			continue // what C does not have
		}
		members = append(members, member)
	}
	return members
}

func void(t btf.Type) bool {
	_, ok := t.(*btf.Void)
	return ok
}

func (m *typeMaker) enum(t *dwarf.EnumType) btf.Type {
	if t.ByteSize != 1 && t.ByteSize != 2 && t.ByteSize != 4 && t.ByteSize != 8 || len(t.Val) > mostMembers {
		return &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	}
	made := &btf.Enum{Name: identifier(t.EnumName), Size: uint32(t.ByteSize)}
	for _, v := range t.Val {
		made.Signed = made.Signed || v.Val < 0 && !m.types.Unsigned(t)
		if name := identifier(v.Name); name != "" {
			made.Values = append(made.Values, btf.EnumValue{Name: name, Value: uint64(v.Val)})
		}
	}
	return made
}

// identifier returns a name if it is one of C, else "": a template's, or what a hostile file has.
func identifier(name string) string {
	if len(name) > 512 || name == "" || name[0] >= '0' && name[0] <= '9' {
		return ""
	}
	if strings.IndexFunc(name, func(r rune) bool {
		return !(r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}) >= 0 {
		return ""
	}
	return name
}
