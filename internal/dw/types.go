// SPDX-License-Identifier: Apache-2.0

package dw

import (
	"cmp"
	"debug/dwarf"
	"errors"
	"fmt"
)

// Limits on types in debug info.
const (
	mostAliases = 64      // typedefs, qualifiers and dimensions of arrays in a row
	mostDeep    = 50_000  // types that lead to each other, as the standard library recurses
	mostEntries = 1 << 22 // entries that are read of one file
	mostTexts   = 1 << 28 // bytes of texts in these, which may be parts of each other
)

// ErrTypes is why types are not read although the debug info may be whole.
var ErrTypes = errors.New("its debug info is not read")

var (
	errAliases    = fmt.Errorf("%w: it has more than %d typedefs, qualifiers and dimensions in a row, or a ring of them", ErrTypes, mostAliases)
	errDeep       = fmt.Errorf("%w: it has more than %d types that lead to each other in a row", ErrTypes, mostDeep)
	errEntries    = fmt.Errorf("%w: its types take more than %d entries", ErrTypes, mostEntries)
	errTexts      = fmt.Errorf("%w: its types have names of more than %d MiB", ErrTypes, mostTexts>>20)
	errShared     = fmt.Errorf("%w: parts of it are in a file that it shares with others (dwz -m)", ErrTypes)
	errSignatures = fmt.Errorf("%w: its types are in units of their own (gcc -fdebug-types-section)", ErrTypes)
)

// Types reads types of debug info that may be hostile. [dwarf.Data.Type] recurses along the types that
// lead to each other, and its types' Size along typedefs, qualifiers and arrays, both without bound: a
// file can overflow the stack, which ends the process and cannot be recovered from. So all that Type
// would read is walked first.
type Types struct {
	data    *dwarf.Data
	checked map[dwarf.Offset]bool         // what the library has read, and what is walked now
	aliases map[dwarf.Offset]dwarf.Offset // of typedefs and the like: the type that they stand for
	fresh   []dwarf.Offset                // checked by the present walk
	arrays  []array
	// enums are of 8 bytes and have no sign, by the present walk; unsigned are those of all walks. The library has
	// their values as signed numbers.
	enums    []dwarf.Offset
	unsigned map[*dwarf.EnumType]bool
	// atomics are _Atomic types of C, by the present walk, which the library does not know; plain has those of all walks.
	atomics []atomic
	plain   map[*dwarf.UnsupportedType]dwarf.Type
	entries int
	texts   int
}

// An array is a member at the beginning of a struct, in front of a bit-field. DW_AT_data_bit_offset says
// where that is, without the offset in bytes by which the library tells arrays without elements, which
// older compilers described as having one: it takes the array for one of these.
type array struct {
	of     dwarf.Offset // the struct
	member int
	typ    dwarf.Offset
}

// An atomic is an _Atomic type, and the type that it is one of.
type atomic struct{ typ, of dwarf.Offset }

// NewTypes returns the types of debug info.
func NewTypes(data *dwarf.Data) *Types {
	return &Types{data: data, checked: map[dwarf.Offset]bool{}, aliases: map[dwarf.Offset]dwarf.Offset{}, unsigned: map[*dwarf.EnumType]bool{}, plain: map[*dwarf.UnsupportedType]dwarf.Type{}}
}

// Type returns the type at an offset. The error is an [ErrTypes] if a limit is exceeded.
func (t *Types) Type(off dwarf.Offset) (typ dwarf.Type, err error) {
	t.fresh, t.arrays, t.enums, t.atomics = t.fresh[:0], t.arrays[:0], t.enums[:0], t.atomics[:0]
	defer func() {
		// The library asks a typedef for its size although what it stands for was not read.
		if r := recover(); r != nil {
			typ, err = nil, errors.New("its debug info is damaged")
		}
		if err != nil { // the library has forgotten them too
			for _, off := range t.fresh {
				delete(t.checked, off)
			}
		}
	}()
	if err := t.walk(off); err != nil {
		return nil, err
	}
	if typ, err = t.data.Type(off); err != nil {
		return nil, err
	}
	return typ, t.mend()
}

// Unsigned reports whether an enumeration of a type that Type has returned is an unsigned number, although
// values of it may be negative in e.
func (t *Types) Unsigned(e *dwarf.EnumType) bool { return t.unsigned[e] }

// Plain returns the type that an _Atomic type of C is one of; nil if a type that Type leads to is something else that the library
// does not know.
func (t *Types) Plain(u *dwarf.UnsupportedType) dwarf.Type { return t.plain[u] }

// mend gives arrays back the elements that the library has taken from them, and notes which enumerations
// have no sign, and what is atomic.
func (t *Types) mend() error {
	for _, a := range t.atomics {
		typ, err := t.data.Type(a.typ)
		if err != nil {
			return err
		}
		of, err := t.data.Type(a.of)
		if err != nil {
			return err
		}
		if typ, ok := typ.(*dwarf.UnsupportedType); ok {
			t.plain[typ] = of
		}
	}
	t.atomics = t.atomics[:0]
	for _, off := range t.enums {
		e, err := t.data.Type(off)
		if err != nil {
			return err
		}
		if e, ok := e.(*dwarf.EnumType); ok {
			t.unsigned[e] = true
		}
	}
	t.enums = t.enums[:0]
	for _, a := range t.arrays {
		of, err := t.data.Type(a.of)
		if err != nil {
			return err
		}
		whole, err := t.data.Type(a.typ)
		if err != nil {
			return err
		}
		if of, ok := of.(*dwarf.StructType); ok && a.member < len(of.Field) {
			of.Field[a.member].Type = whole
		}
	}
	t.arrays = t.arrays[:0]
	return nil
}

// Shared returns an error if an entry has its name, its type or the entry that it is an instance of in a file that
// several share. The library does not read that: it takes them for missing.
func Shared(e *dwarf.Entry) error {
	for _, attr := range []dwarf.Attr{dwarf.AttrName, dwarf.AttrType, dwarf.AttrAbstractOrigin, dwarf.AttrSpecification} {
		f := e.AttrField(attr)
		if f == nil {
			continue
		}
		own := true
		switch f.Class {
		case dwarf.ClassReferenceAlt, dwarf.ClassStringAlt: // GNU's forms
			own = false
		case dwarf.ClassReference: // DW_FORM_ref_sup4 has another type
			_, own = f.Val.(dwarf.Offset)
		case dwarf.ClassString: // DW_FORM_strp_sup
			_, own = f.Val.(string)
		}
		if !own {
			return errShared
		}
	}
	return nil
}

// walk visits what the library will, in the same order: so it is as deep.
func (t *Types) walk(off dwarf.Offset) error {
	left := [][]dwarf.Offset{{off}} // to visit, at each depth
	for len(left) > 0 {
		top := &left[len(left)-1]
		if len(*top) == 0 {
			left = left[:len(left)-1]
			continue
		}
		next := (*top)[0]
		*top = (*top)[1:]
		if t.checked[next] {
			continue
		}
		if len(left) > mostDeep {
			return errDeep
		}
		t.checked[next] = true
		t.fresh = append(t.fresh, next)
		to, err := t.leadsTo(next)
		if err != nil {
			return err
		}
		left = append(left, to)
	}
	for _, off := range t.fresh {
		n := 0
		for of, ok := t.aliases[off]; ok; of, ok = t.aliases[of] {
			if n++; n >= mostAliases {
				return errAliases
			}
		}
	}
	return nil
}

// member notes an array that the next member of its struct makes the library take elements from. before
// is the member before this one; it has a type only if it is at the beginning and no bit-field.
func (t *Types) member(m *dwarf.Entry, before *array) {
	at := m.Val(dwarf.AttrDataMemberLoc)
	if bit, _ := m.Val(dwarf.AttrDataBitOffset).(int64); bit > 0 && at == nil && before.typ != 0 {
		t.arrays = append(t.arrays, *before)
	}
	before.member++
	before.typ = 0
	if n, _ := at.(int64); n == 0 && m.Val(dwarf.AttrBitSize) == nil {
		before.typ, _ = m.Val(dwarf.AttrType).(dwarf.Offset)
	}
}

// withoutSign reports whether an enumeration is an unsigned number: gcc says so of itself, clang of the
// type that it is stored as.
func (t *Types) withoutSign(e *dwarf.Entry) bool {
	const unsigned = 7 // DW_ATE_unsigned
	for range 8 {
		if encoding, ok := e.Val(dwarf.AttrEncoding).(int64); ok {
			return encoding == unsigned
		}
		off, ok := e.Val(dwarf.AttrType).(dwarf.Offset)
		if !ok {
			return false
		}
		r := t.data.Reader()
		r.Seek(off)
		next, err := r.Next()
		if err != nil || next == nil {
			return false
		}
		e = next
	}
	return false
}

// count adds up the texts of an entry, which the library copies.
func (t *Types) count(e *dwarf.Entry) error {
	for i := 0; e != nil && i < len(e.Field); i++ {
		text, _ := e.Field[i].Val.(string)
		t.texts += len(text)
	}
	if t.texts > mostTexts {
		return errTexts
	}
	return nil
}

// leadsTo returns the types that one refers to. Of an entry that cannot be read there are none: the
// library will say what is wrong.
func (t *Types) leadsTo(off dwarf.Offset) (to []dwarf.Offset, err error) {
	r := t.data.Reader()
	r.Seek(off)
	e, err := r.Next()
	if t.entries++; err != nil || e == nil || e.Offset != off {
		return nil, nil
	}
	if err := cmp.Or(Shared(e), t.count(e)); err != nil {
		return nil, err
	}
	add := func(e *dwarf.Entry) {
		err = cmp.Or(err, Shared(e))
		switch of := e.Val(dwarf.AttrType).(type) {
		case dwarf.Offset:
			to = append(to, of)
		case uint64:
			err = errSignatures // the library follows rings of them without end
		}
	}
	if e.Val(dwarf.AttrSignature) != nil {
		return nil, errSignatures
	}
	kids := dwarf.Tag(0)
	switch e.Tag {
	case dwarf.TagTypedef, dwarf.TagConstType, dwarf.TagVolatileType, dwarf.TagRestrictType, dwarf.TagArrayType:
		add(e)
		if len(to) > 0 {
			t.aliases[off] = to[0]
		}
		if e.Tag == dwarf.TagArrayType {
			kids = dwarf.TagSubrangeType
		}
	case dwarf.TagAtomicType:
		add(e)
		if len(to) > 0 {
			t.aliases[off] = to[0]
			t.atomics = append(t.atomics, atomic{off, to[0]})
		}
	case dwarf.TagPointerType:
		add(e)
	case dwarf.TagSubroutineType:
		add(e)
		kids = dwarf.TagFormalParameter
	case dwarf.TagStructType, dwarf.TagUnionType, dwarf.TagClassType:
		kids = dwarf.TagMember
	case dwarf.TagEnumerationType: // their names may be shared
		kids = dwarf.TagEnumerator
		if size, _ := e.Val(dwarf.AttrByteSize).(int64); size == 8 && t.withoutSign(e) {
			t.enums = append(t.enums, off)
		}
	}
	if err != nil || kids == 0 || !e.Children {
		return to, err
	}
	dimensions, before := 0, array{of: off, member: -1}
	for depth := 0; err == nil; {
		if t.entries++; t.entries > mostEntries {
			return nil, errEntries
		}
		kid, bad := r.Next()
		if err := t.count(kid); err != nil {
			return nil, err
		}
		switch {
		case bad != nil || kid == nil || kid.Tag == 0 && depth == 0:
			return to, nil
		case kid.Tag == 0:
			depth--
		case kid.Children: // the library passes over these
			depth++
		case depth > 0 || kid.Tag != kids:
		case kids != dwarf.TagSubrangeType:
			add(kid)
			if e.Tag == dwarf.TagStructType || e.Tag == dwarf.TagClassType {
				t.member(kid, &before)
			}
		default:
			if dimensions++; dimensions > mostAliases {
				return nil, errAliases
			}
		}
	}
	return to, err
}
