// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"strconv"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/qualifier"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// Limits for one declaration. Corrupt BTF can hold a pointer to itself, or a
// function that takes itself twice as a parameter.
const (
	maxDeclDepth  = 64
	maxDeclLength = 1 << 16
)

// AppendFunc appends the C prototype of a function, as
//
//	int ip_send_skb(struct net * net, struct sk_buff * skb);
func AppendFunc(dst []byte, name string, proto *btf.FuncProto) []byte {
	w := newDeclWriter(dst, spellDecl)
	w.decl(proto, name)
	return append(w.dst, ';')
}

// AppendTypeName appends the name of a type as a cast spells it, without
// qualifiers: `struct sk_buff *`, `int *[2]`, `void (*)(struct sk_buff *)`.
func AppendTypeName(dst []byte, t btf.Type) []byte {
	w := newDeclWriter(dst, spellCast)
	w.decl(t, "")
	return w.dst
}

// AppendDecl appends the declaration of a variable, member or parameter of a
// type, without a semicolon: `const char * name`, `int (*fn)(int)`. Types
// without a name are written out on the same line.
func AppendDecl(dst []byte, t btf.Type, name string) []byte {
	w := newDeclWriter(dst, spellDecl)
	w.decl(t, name)
	return w.dst
}

// spelling says which of the two ways to write a declaration is meant.
type spelling uint8

const (
	// spellDecl keeps qualifiers, sets a name off from the star before it and
	// writes out types without a name: C that compiles.
	spellDecl spelling = iota
	// spellCast drops qualifiers and the bodies of types without a name, and
	// places spaces as libbpf does.
	spellCast
)

// declWriter writes declarations inside out: what stands left of the name on
// the way down the chain of types, what stands right of it on a second way.
type declWriter struct {
	dst   []byte
	limit int // dst grows no further than this
	how   spelling
	depth int
	tight bool // the name follows a star inside parentheses
	mark  int  // start of the outermost name, with the parenthesis before it
	// body, where set, writes the body of a type without a name.
	body func(w *declWriter, t btf.Type)
}

func newDeclWriter(dst []byte, how spelling) *declWriter {
	return &declWriter{dst: dst, limit: len(dst) + maxDeclLength, how: how}
}

// over reports whether the declaration is too long or too deep to go on.
func (w *declWriter) over() bool {
	return w.depth > maxDeclDepth || len(w.dst) > w.limit
}

func (w *declWriter) decl(t btf.Type, name string) {
	outer := w.tight
	w.tight = false
	w.left(t)
	w.name(name)
	w.right(t)
	w.tight = outer
}

func (w *declWriter) str(s string) { w.dst = append(w.dst, s...) }

func (w *declWriter) last() byte {
	if len(w.dst) == 0 {
		return 0
	}
	return w.dst[len(w.dst)-1]
}

func (w *declWriter) name(name string) {
	if name == "" {
		return
	}
	if last := w.last(); last != '(' && last != ' ' && (last != '*' || !w.tight) && len(w.dst) > 0 {
		w.str(" ")
	}
	if w.mark == 0 {
		w.mark = len(w.dst)
	}
	w.dst = terminal.AppendName(w.dst, name)
}

func (w *declWriter) left(t btf.Type) {
	if w.over() {
		w.str("...")
		return
	}
	w.depth++
	defer func() { w.depth-- }()

	switch t := t.(type) {
	case *btf.Pointer:
		w.left(t.Target)
		w.star(t.Target)
	case *btf.Array:
		w.left(t.Type)
	case *btf.FuncProto:
		w.left(t.Return)
	case *btf.Func:
		w.left(t.Type)
	case *btf.Const, *btf.Volatile, *btf.Restrict:
		w.qualified(qualifier.Outer(t))
	case *btf.TypeTag:
		// A tag is no C that every compiler takes.
		w.left(t.Type)
	default:
		w.base(t)
	}
}

// star writes the star of a pointer to target, and the parenthesis that it
// needs where target is written right of the name.
func (w *declWriter) star(target btf.Type) {
	switch qualifier.Bare(target).(type) {
	case *btf.Array:
		if w.how == spellDecl {
			w.str(" ")
		}
		w.group()
	case *btf.FuncProto:
		w.str(" ")
		w.group()
	default:
		if last := w.last(); last != '*' && last != '(' {
			w.str(" ")
		}
		w.str("*")
	}
}

// group opens the parenthesis around a star and the name.
func (w *declWriter) group() {
	if w.mark == 0 {
		w.mark = len(w.dst)
	}
	w.str("(*")
	w.tight = true
}

// qualified writes a type with a qualifier: before the name of a type, behind
// the star of a pointer. An array's qualifier is its elements', a function has none.
func (w *declWriter) qualified(q qualifier.Layer, t btf.Type) {
	if w.how == spellCast || qualifier.Has(t, q) {
		w.left(t)
		return
	}
	switch under := qualifier.Bare(t).(type) {
	case *btf.Pointer:
		w.left(t)
		w.str(" ")
		w.str(q.String())
	case *btf.FuncProto:
		w.left(t)
	case *btf.Array:
		w.arrayQualified(q, under, t)
	default:
		w.str(q.String())
		w.str(" ")
		w.left(t)
	}
}

// arrayQualified moves the qualifier of an array on to its elements. gcc names
// it twice, for the array and for the elements; then it is written once.
func (w *declWriter) arrayQualified(q qualifier.Layer, arr *btf.Array, t btf.Type) {
	elem := arr.Type
	for inner, ok := qualifier.Bare(elem).(*btf.Array); ok && w.depth < maxDeclDepth; inner, ok = qualifier.Bare(elem).(*btf.Array) {
		elem = inner.Type
		w.depth++
	}
	if qualifier.Has(elem, q) {
		w.left(t)
		return
	}
	switch qualifier.Bare(elem).(type) {
	case *btf.Pointer:
		w.left(t)
		w.str(" ")
		w.str(q.String())
	default:
		w.str(q.String())
		w.str(" ")
		w.left(t)
	}
}

func (w *declWriter) right(t btf.Type) {
	if w.over() {
		return
	}
	w.depth++
	defer func() { w.depth-- }()

	switch t := t.(type) {
	case *btf.Pointer:
		switch qualifier.Bare(t.Target).(type) {
		case *btf.Array, *btf.FuncProto:
			w.str(")")
		}
		w.right(t.Target)
	case *btf.Array:
		w.str("[")
		w.dst = strconv.AppendUint(w.dst, uint64(t.Nelems), 10)
		w.str("]")
		w.right(t.Type)
	case *btf.FuncProto:
		w.params(t.Params)
		w.right(t.Return)
	case *btf.Func:
		w.right(t.Type)
	case *btf.Const, *btf.Volatile, *btf.Restrict, *btf.TypeTag:
		_, inner := qualifier.Outer(t)
		w.right(inner)
	}
}

func (w *declWriter) params(params []btf.FuncParam) {
	w.str("(")
	defer w.str(")")
	if len(params) == 0 || len(params) == 1 && isVoid(params[0].Type) {
		w.str("void")
		return
	}
	for i, p := range params {
		if i > 0 {
			w.str(", ")
		}
		if w.over() {
			w.str("...")
			return
		}
		// BTF writes varargs as a last parameter without a type.
		if i == len(params)-1 && isVoid(p.Type) {
			w.str("...")
			return
		}
		w.decl(p.Type, p.Name)
	}
}

// base writes the type at the end of the chain, the one that has a name.
func (w *declWriter) base(t btf.Type) {
	switch t := t.(type) {
	case *btf.Void:
		w.str("void")
	case *btf.Struct:
		w.tagged("struct", t.Name, t)
	case *btf.Union:
		w.tagged("union", t.Name, t)
	case *btf.Enum:
		w.tagged("enum", t.Name, t)
	case *btf.Fwd:
		w.tagged(t.Kind.String(), t.Name, nil)
	case nil:
		w.str("void")
	default:
		if name := t.TypeName(); name != "" {
			w.dst = terminal.AppendName(w.dst, name)
			return
		}
		w.str("void /* no C type */")
	}
}

// tagged writes `struct name`, or the whole type where it has no name.
func (w *declWriter) tagged(keyword, name string, t btf.Type) {
	w.str(keyword)
	if name != "" {
		w.str(" ")
		w.dst = terminal.AppendName(w.dst, name)
		return
	}
	if t == nil || w.how == spellCast {
		return
	}
	if w.body != nil {
		w.body(w, t)
		return
	}
	w.lineBody(t)
}

// lineBody writes the body of a type on the same line.
func (w *declWriter) lineBody(t btf.Type) {
	tight := w.tight
	w.tight = false
	defer func() { w.tight = tight }()

	w.str(" { ")
	switch t := t.(type) {
	case *btf.Struct:
		w.lineMembers(t.Members)
	case *btf.Union:
		w.lineMembers(t.Members)
	case *btf.Enum:
		for i, v := range t.Values {
			if w.over() {
				break
			}
			if i > 0 {
				w.str(", ")
			}
			w.dst = appendEnumerator(w.dst, t, v)
		}
		w.str(" ")
	}
	w.str("}")
}

func (w *declWriter) lineMembers(members []btf.Member) {
	for _, m := range members {
		if w.over() {
			w.str("... ")
			return
		}
		w.decl(m.Type, m.Name)
		if m.BitfieldSize > 0 {
			w.str(":")
			w.dst = strconv.AppendUint(w.dst, uint64(m.BitfieldSize), 10)
		}
		w.str("; ")
	}
}

// appendEnumerator appends `NAME = value`, in the sign that the enum has.
func appendEnumerator(dst []byte, e *btf.Enum, v btf.EnumValue) []byte {
	dst = terminal.AppendName(dst, v.Name)
	dst = append(dst, " = "...)
	if e.Signed {
		return strconv.AppendInt(dst, int64(v.Value), 10)
	}
	return strconv.AppendUint(dst, v.Value, 10)
}

func isVoid(t btf.Type) bool {
	_, ok := qualifier.Bare(t).(*btf.Void)
	return ok || t == nil
}
