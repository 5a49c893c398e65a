// SPDX-License-Identifier: Apache-2.0

package dw

import (
	"bytes"
	"debug/dwarf"
	"encoding/binary"
	"errors"
	"testing"
)

// An entry is a type in debug info that a test writes: its tag, the index of the type that it leads to,
// or -1, and the entries below it.
type entry struct {
	tag  dwarf.Tag
	to   int
	kids []entry
}

// debugInfo writes one unit of DWARF 4 and returns it with the offsets of its types.
func debugInfo(t testing.TB, types []entry) (*dwarf.Data, []dwarf.Offset) {
	t.Helper()
	// Abbreviations: for each tag one with DW_AT_type (DW_FORM_ref4), with and without children, and
	// for each one without attributes.
	tags := []dwarf.Tag{dwarf.TagCompileUnit, dwarf.TagTypedef, dwarf.TagConstType, dwarf.TagPointerType, dwarf.TagStructType, dwarf.TagMember, dwarf.TagArrayType, dwarf.TagSubrangeType, dwarf.TagSubroutineType, dwarf.TagFormalParameter, dwarf.TagBaseType}
	codes := map[dwarf.Tag]byte{}
	var abbrev []byte
	for i, tag := range tags {
		codes[tag] = byte(4*i + 1)
		for kind := range 4 {
			abbrev = append(abbrev, codes[tag]+byte(kind), byte(tag), byte(kind&1))
			if kind&2 != 0 {
				abbrev = append(abbrev, 0x49, 0x13)
			}
			abbrev = append(abbrev, 0, 0)
		}
	}
	abbrev = append(abbrev, 0)
	type fix struct{ at, to int }
	var fixes []fix
	info := append(make([]byte, 4), 4, 0, 0, 0, 0, 0, 8, codes[dwarf.TagCompileUnit]+1)
	var write func(e entry)
	write = func(e entry) {
		code := codes[e.tag]
		if len(e.kids) > 0 {
			code++
		}
		if e.to < 0 {
			info = append(info, code)
		} else {
			fixes = append(fixes, fix{len(info) + 1, e.to})
			info = append(info, code+2, 0, 0, 0, 0)
		}
		for _, kid := range e.kids {
			write(kid)
		}
		if len(e.kids) > 0 {
			info = append(info, 0)
		}
	}
	var at []dwarf.Offset
	for _, e := range types {
		at = append(at, dwarf.Offset(len(info)))
		write(e)
	}
	info = append(info, 0)
	binary.LittleEndian.PutUint32(info, uint32(len(info)-4))
	for _, f := range fixes {
		binary.LittleEndian.PutUint32(info[f.at:], uint32(at[f.to]))
	}
	d, err := dwarf.New(abbrev, nil, nil, info, nil, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d, at
}

// chain returns n types of a tag, each of which leads to the next, and the last to a type with an index.
func chain(tag dwarf.Tag, n, last int) (types []entry) {
	for i := range n {
		types = append(types, entry{tag: tag, to: i + 1})
	}
	types[n-1].to = last
	return types
}

func TestTypes(t *testing.T) {
	for name, tt := range map[string]struct {
		types []entry
		want  error
	}{
		"typedef of itself":       {chain(dwarf.TagTypedef, 1, 0), errAliases},
		"ring of typedefs":        {chain(dwarf.TagTypedef, 3, 0), errAliases},
		"ring of qualifiers":      {chain(dwarf.TagConstType, 2, 0), errAliases},
		"ring of arrays":          {chain(dwarf.TagArrayType, 2, 0), errAliases},
		"pointer to itself":       {chain(dwarf.TagPointerType, 1, 0), nil},
		"ring of pointers":        {chain(dwarf.TagPointerType, 1000, 0), nil},
		"64 typedefs":             {append(chain(dwarf.TagTypedef, mostAliases-1, mostAliases-1), entry{tag: dwarf.TagPointerType, to: -1}), nil},
		"65 typedefs":             {append(chain(dwarf.TagTypedef, mostAliases, mostAliases), entry{tag: dwarf.TagPointerType, to: -1}), errAliases},
		"as many as are followed": {chain(dwarf.TagPointerType, mostDeep, -1), nil},
		"one more":                {chain(dwarf.TagPointerType, mostDeep+1, -1), errDeep},
		"a million":               {chain(dwarf.TagPointerType, 1_000_000, -1), errDeep},
		// typedef struct { T *next; } T
		"list": {[]entry{{tag: dwarf.TagTypedef, to: 1}, {tag: dwarf.TagStructType, to: -1, kids: []entry{{tag: dwarf.TagMember, to: 2}}}, {tag: dwarf.TagPointerType, to: 0}}, nil},
		// of a function that takes itself
		"function": {[]entry{{tag: dwarf.TagTypedef, to: 1}, {tag: dwarf.TagSubroutineType, to: -1, kids: []entry{{tag: dwarf.TagFormalParameter, to: 0}}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d, at := debugInfo(t, tt.types)
			got, err := NewTypes(d).Type(at[0])
			if !errors.Is(err, tt.want) || err == nil && got == nil {
				t.Fatalf("%v, %v, want %v", got, err, tt.want)
			}
			if err == nil {
				got.Size()
			}
		})
	}
}

// TestTypesDimensions: an array has a type for each of its dimensions.
func TestTypesDimensions(t *testing.T) {
	for n, want := range map[int]error{mostAliases: nil, mostAliases + 1: errAliases} {
		array := entry{tag: dwarf.TagArrayType, to: 1}
		for range n {
			array.kids = append(array.kids, entry{tag: dwarf.TagSubrangeType, to: -1})
		}
		d, at := debugInfo(t, []entry{array, {tag: dwarf.TagPointerType, to: -1}})
		if _, err := NewTypes(d).Type(at[0]); !errors.Is(err, want) {
			t.Errorf("%d dimensions: %v", n, err)
		}
	}
}

// TestTypesAgain: a walk that failed does not count for the next one, whether it was ours or the library's.
func TestTypesAgain(t *testing.T) {
	const n = 2 * mostDeep
	for name, last := range map[string]entry{"deep": {tag: dwarf.TagPointerType, to: -1}, "damaged": {tag: dwarf.TagBaseType, to: -1}} {
		d, at := debugInfo(t, append(chain(dwarf.TagPointerType, n, n), last))
		types := NewTypes(d)
		for i := n - mostDeep/2; i >= 0; i -= mostDeep / 2 {
			_, err := types.Type(at[i])
			if (err == nil) != (name == "deep") || name == "damaged" && i < n-mostDeep && !errors.Is(err, ErrTypes) {
				t.Errorf("%s: from %d: %v", name, i, err)
			}
		}
	}
}

// TestTypesDamaged: a typedef that leads to itself through a struct that cannot be read.
func TestTypesDamaged(t *testing.T) {
	d, at := debugInfo(t, []entry{
		{tag: dwarf.TagTypedef, to: 1},
		{tag: dwarf.TagStructType, to: -1, kids: []entry{{tag: dwarf.TagMember, to: 2}, {tag: dwarf.TagMember, to: 3}}},
		{tag: dwarf.TagTypedef, to: 0},
		{tag: dwarf.TagBaseType, to: -1},
	})
	if typ, err := NewTypes(d).Type(at[0]); err == nil {
		t.Errorf("%v", typ)
	}
}

// TestTypesTexts: the names of all members may be one long one.
func TestTypesTexts(t *testing.T) {
	const long, member = 1 << 20, 2
	abbreviations := []byte{1, byte(dwarf.TagStructType), 1, 0, 0, member, byte(dwarf.TagMember), 0, byte(dwarf.AttrName), 0x0e, 0, 0, 0} // DW_FORM_strp
	for n, want := range map[int]error{mostTexts / long: nil, mostTexts/long + 1: errTexts} {
		info := binary.LittleEndian.AppendUint32(nil, uint32(9+5*n))
		at := dwarf.Offset(len(info) + 7)
		info = append(info, 4, 0, 0, 0, 0, 0, 8, 1)
		for range n {
			info = append(info, member, 0, 0, 0, 0)
		}
		d, err := dwarf.New(abbreviations, nil, nil, append(info, 0), nil, nil, nil, append(bytes.Repeat([]byte{'x'}, long), 0))
		if err != nil {
			t.Fatal(err)
		}
		if err := NewTypes(d).walk(at); !errors.Is(err, want) {
			t.Errorf("%d names: %v, want %v", n, err, want)
		}
	}
}
