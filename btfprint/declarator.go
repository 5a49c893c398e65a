// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"strconv"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/qualifier"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// Limits on one declaration. In corrupt BTF, a pointer may point to itself, or a function
// may take itself twice as a parameter.
const (
	maxDeclDepth  = 64
	maxDeclLength = 1 << 16
)

// AppendFunc appends the C prototype of a function, with a semicolon:
//
//	int ip_send_skb(struct net * net, struct sk_buff * skb);
func AppendFunc(dst []byte, name string, proto *btf.FuncProto) []byte {
	w := newDeclWriter(dst, spellDecl)
	w.decl(proto, name)
	return append(w.dst, ';')
}

// AppendTypeName appends the name of a type as in a cast, without qualifiers: `struct
// sk_buff *`, `int *[2]`, `void (*)(struct sk_buff *)`.
func AppendTypeName(dst []byte, t btf.Type) []byte {
	w := newDeclWriter(dst, spellCast)
	w.decl(t, "")
	return w.dst
}

// AppendDecl appends the declaration of a variable, member or parameter, without a
// semicolon: `const char * name`, `int (*fn)(int)`. It writes anonymous types out, on the
// same line.
func AppendDecl(dst []byte, t btf.Type, name string) []byte {
	w := newDeclWriter(dst, spellDecl)
	w.decl(t, name)
	return w.dst
}

// A spelling is one of two ways to write a declaration.
type spelling uint8

const (
	// spellDecl writes C that compiles: it keeps qualifiers, puts a space between a star
	// and the name, and writes out anonymous types.
	spellDecl spelling = iota
	// spellCast drops qualifiers and the bodies of anonymous types, and places spaces as
	// libbpf does.
	spellCast
)

// A declWriter writes declarations inside out, as C has them. left writes what is left of
// the name while it goes down the chain of types; right goes down again for what is right
// of the name.
type declWriter struct {
	dst   []byte
	limit int // dst grows no longer than this
	how   spelling
	depth int
	tight bool // a star inside parentheses comes right before the name
	mark  int  // start of the outermost name, with its parenthesis
	// body, if set, writes the body of an anonymous type.
	body func(w *declWriter, t btf.Type)
}

func newDeclWriter(dst []byte, how spelling) *declWriter {
	return &declWriter{dst: dst, limit: len(dst) + maxDeclLength, how: how}
}

// over reports whether the declaration has exceeded its limits.
func (w *declWriter) over() bool {
	return w.depth > maxDeclDepth || len(w.dst) > w.limit
}

// decl writes a whole declaration: what is left of the name, the name, and what is right
// of it.
func (w *declWriter) decl(t btf.Type, name string) {
	outer := w.tight
	w.tight = false
	w.left(t)
	w.name(name)
	w.right(t)
	w.tight = outer
}

func (w *declWriter) str(s string) { w.dst = append(w.dst, s...) }

// last returns the last byte written, or 0.
func (w *declWriter) last() byte {
	if len(w.dst) == 0 {
		return 0
	}
	return w.dst[len(w.dst)-1]
}

// name writes the name, with a space before it unless a star or a parenthesis comes
// first.
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

// left writes what is left of the name: the innermost type first, then stars and
// qualifiers on the way back.
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
		// Not every compiler takes tags, so they are left out.
		w.left(t.Type)
	default:
		w.base(t)
	}
}

// star writes the star of a pointer to target. If target continues to the right of the
// name, as arrays and functions do, the star needs a parenthesis.
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

// qualified writes a qualifier: before a named type, after the star of a pointer. The
// qualifier of an array belongs to its elements; a function has none.
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

// arrayQualified moves an array's qualifier to its elements. gcc describes it twice, on the
// array and on the elements; it is written once.
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

// right writes what is right of the name, array bounds and parameters, and closes the
// parentheses that star opened.
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

// params writes a list of parameters; (void) if it is empty.
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
		// BTF describes "..." as a last parameter without a type.
		if i == len(params)-1 && isVoid(p.Type) {
			w.str("...")
			return
		}
		w.decl(p.Type, p.Name)
	}
}

// base writes the named type at the end of the chain.
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

// tagged writes `struct name`, or the whole type if it is anonymous.
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

// lineMembers writes the members of an anonymous struct or union on one line.
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

// appendEnumerator appends `NAME = value`, signed if the enum is.
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
