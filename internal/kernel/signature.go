// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"slices"
	"strings"
)

// A Spelling is a type without its qualifiers, as a parameter or a result.
type Spelling struct {
	// Names are its possible names: "struct sk_buff", "u32", "long unsigned int".
	Names  []string
	Stars  int // levels of pointer
	Return bool
}

// Having returns a test of whether BTF says that a function takes and returns all the
// wanted types. For a compiler's copy, the original's description counts.
func (v *View) Having(wanted []Spelling) (func(Function) bool, error) {
	infos, err := v.infos("")
	if err != nil {
		return nil, err
	}
	sets := make(functionSet)
	for _, info := range infos {
		s := newSignatures(info.raw)
		for t := range info.raw.all() {
			if t.kind != kindFunc || !s.satisfies(t.ref, wanted) {
				continue
			}
			name := string(info.raw.text(t.name))
			sets.add(name, info.name)
			if kfunc, ok := strings.CutSuffix(name, implicitSuffix); ok && info.isWhole(kfunc, name) {
				sets.add(kfunc, info.name)
			}
		}
	}
	return func(f Function) bool {
		name := f.Name
		if base, ok := copyOf(name); ok {
			name = base
		}
		return sets.has(name, f.Module)
	}, nil
}

// HasSymbols reports whether function names are known from more than BTF.
func (v *View) HasSymbols() bool {
	t, err := v.functions()
	return err == nil && len(t.symbols) > 0
}

// signatures compares types of a blob by ID. It decodes no type: there are 60,000 functions
// to look at.
type signatures struct {
	raw   *rawBTF
	types []rawType
	base  *signatures
	fits  map[uint64]bool // by ID and number of the spelling
}

func newSignatures(raw *rawBTF) *signatures {
	s := &signatures{raw: raw, types: make([]rawType, 0, raw.count-raw.firstID()), fits: make(map[uint64]bool)}
	for t := range raw.all() {
		s.types = append(s.types, t)
	}
	if raw.base != nil {
		s.base = newSignatures(raw.base)
	}
	return s
}

// typ returns the header of a type, looked up in the base for types of vmlinux.
func (s *signatures) typ(id uint32) (t rawType, ok bool) {
	if first := s.raw.firstID(); id >= first {
		i := int(id - first)
		if i >= len(s.types) {
			return t, false
		}
		return s.types[i], true
	}
	if s.base == nil {
		return t, false // void
	}
	return s.base.typ(id)
}

// satisfies reports whether a prototype has all wanted types.
func (s *signatures) satisfies(proto uint32, wanted []Spelling) bool {
	p, ok := s.typ(proto)
	if !ok || p.kind != kindFuncProto {
		return false
	}
	for i := range wanted {
		if wanted[i].Return {
			if !s.is(p.ref, wanted, i) {
				return false
			}
			continue
		}
		takes := false
		for param := p.data; len(param) >= 8 && !takes; param = param[8:] {
			takes = s.is(s.raw.order.Uint32(param[4:]), wanted, i)
		}
		if !takes {
			return false
		}
	}
	return true
}

// is caches spelled: many functions have parameters of the same type.
func (s *signatures) is(id uint32, wanted []Spelling, i int) bool {
	key := uint64(i)<<32 | uint64(id)
	fits, known := s.fits[key]
	if !known {
		fits = s.spelled(id, &wanted[i])
		s.fits[key] = fits
	}
	return fits
}

// maxQualifiers bounds the chain of qualifiers in corrupt BTF.
const maxQualifiers = 32

// spelled reports whether a type is the wanted one.
func (s *signatures) spelled(id uint32, w *Spelling) bool {
	stars := 0
	for range maxQualifiers {
		t, ok := s.typ(id)
		if !ok {
			return stars == w.Stars && slices.Contains(w.Names, "void")
		}
		switch t.kind {
		case kindPtr:
			stars++
		case kindConst, kindVolatile, kindRestrict, kindTypeTag:
		default:
			return stars == w.Stars && slices.Contains(w.Names, keyword(t)+string(s.raw.text(t.name)))
		}
		id = t.ref
	}
	return false
}

// keyword returns the word before a type's name in C.
func keyword(t rawType) string {
	switch t.kind {
	case kindStruct:
		return "struct "
	case kindUnion:
		return "union "
	case kindEnum, kindEnum64:
		return "enum "
	case kindFwd:
		if t.flag {
			return "union "
		}
		return "struct "
	}
	return ""
}
