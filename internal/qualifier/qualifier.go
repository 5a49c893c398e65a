// SPDX-License-Identifier: Apache-2.0

// Package qualifier looks through what C and BTF wrap around a type: const,
// volatile, restrict, type tags, typedefs, and the declaration of a variable.
package qualifier

import (
	"slices"

	"github.com/cilium/ebpf/btf"
)

// A Layer is one way to wrap a type, or a set of them.
type Layer uint8

const (
	Const Layer = 1 << iota
	Volatile
	Restrict
	Tag     // as __user: no C that every compiler takes
	Typedef // a name for a type
	Var     // a variable of a type

	// All are the qualifiers, and not typedefs and variables.
	All = Const | Volatile | Restrict | Tag
)

// most is how many layers are looked through. Types of recordings and files may
// contain themselves.
const most = 64

// Outer returns the outermost layer of a type and the type in it, or 0 and t.
func Outer(t btf.Type) (Layer, btf.Type) {
	switch t := t.(type) {
	case *btf.Const:
		return Const, t.Type
	case *btf.Volatile:
		return Volatile, t.Type
	case *btf.Restrict:
		return Restrict, t.Type
	case *btf.TypeTag:
		return Tag, t.Type
	case *btf.Typedef:
		return Typedef, t.Type
	case *btf.Var:
		return Var, t.Type
	}
	return 0, t
}

// Strip returns the type below the layers that are in a set; ok is false if it
// never ends, and then the type is void.
func Strip(t btf.Type, layers Layer) (below btf.Type, ok bool) {
	for range most {
		layer, inner := Outer(t)
		if layer&layers == 0 {
			return t, true
		}
		t = inner
	}
	return (*btf.Void)(nil), false
}

// Bare returns the type below all qualifiers; typedefs stay.
func Bare(t btf.Type) btf.Type {
	t, _ = Strip(t, All)
	return t
}

// Has reports whether a type has a qualifier, among others perhaps.
func Has(t btf.Type, q Layer) bool {
	for range most {
		layer, inner := Outer(t)
		switch {
		case layer&All == 0:
			return false
		case layer&q != 0:
			return true
		}
		t = inner
	}
	return false
}

// HasTag reports whether one of some type tags is among a type's outer layers,
// as far as these are in a set.
func HasTag(t btf.Type, layers Layer, tags ...string) bool {
	for range most {
		layer, inner := Outer(t)
		if layer&layers == 0 {
			return false
		}
		if tag, ok := t.(*btf.TypeTag); ok && slices.Contains(tags, tag.Value) {
			return true
		}
		t = inner
	}
	return false
}

// String returns the word of C, or "" if there is none.
func (l Layer) String() string {
	switch l {
	case Const:
		return "const"
	case Volatile:
		return "volatile"
	case Restrict:
		return "restrict"
	case Typedef:
		return "typedef"
	}
	return ""
}
