// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"slices"

	"github.com/cilium/ebpf/btf"
)

// expr checks x and returns it as an operand, loaded only if an operator needed that. A
// bare name is looked up in want, the enum of the other operand, first; want may be nil.
func (c *checker) expr(x Expr, want *btf.Enum) (operand, bool) {
	switch x := x.(type) {
	case *Paren:
		return c.expr(x.X, want)
	case *Name:
		return c.lookup(x, want)
	case *Return:
		return c.returned(x)
	case *Context:
		return c.context(x)
	case *Any:
		return c.any(x)
	case *Int:
		n := numeric{4, !x.Unsigned}
		if x.Long {
			n.size = 8
		}
		return value(n.typ(), &Const{n.typ(), n.extend(x.Value)}), true
	case *String:
		return c.fault(CodeType, x.Pos, `compare a string with it, as in $comm == "ping"`, "a string literal is no value by itself")
	case *Unary:
		return c.unary(x, want)
	case *Binary:
		return c.binary(x, want)
	case *Member:
		return c.member(x)
	case *Index:
		return c.index(x)
	case *Cast:
		return c.cast(x)
	case *Sizeof:
		return c.sizeof(x)
	case *ContainerOf:
		return c.containerOf(x)
	case *Call:
		return c.call(x, want)
	case *Keyed:
		return c.call(x.X, want)
	}
	panic("expr: unknown node")
}

// value checks x and loads it: the result has a scalar value.
func (c *checker) value(x Expr, want *btf.Enum) (operand, bool) {
	o, ok := c.expr(x, want)
	if !ok {
		return o, false
	}
	return c.scalar(o, x.Span())
}

// returned checks `return`. A place in the code has none, and neither has a void
// function.
func (c *checker) returned(x *Return) (operand, bool) {
	if c.scope.Point {
		return c.point(x.Pos)
	}
	if why := c.scope.ReturnWhy; why != "" {
		return c.fault(CodeAbsent, x.Pos, "", "what %s returns %s", c.scope.Func, why)
	}
	o, ok := c.result()
	if !ok {
		return c.fault(CodeNoReturn, x.Pos, "", "%s returns nothing", c.scope.Func)
	}
	return o, true
}

// point reports the use of something that only a call has, such as `return`.
func (c *checker) point(at Span) (operand, bool) {
	return c.fault(CodeNoReturn, at, c.scope.PointHint, "%s is passed, and does not return", c.scope.Func)
}

// unary checks an operator before its operand. The operand is promoted first, so that -x
// of an unsigned char is a negative int, as in C.
func (c *checker) unary(x *Unary, want *btf.Enum) (operand, bool) {
	switch x.Op {
	case OpDeref:
		return c.deref(x)
	case OpAddr:
		return c.address(x)
	}
	o, ok := c.value(x.X, want)
	if !ok {
		return o, false
	}
	if x.Op == OpNot {
		return value(typeInt, fold(&UnaryTerm{typeInt, OpNot, o.val})), true
	}
	if isPointer(o.t) {
		return c.fault(CodeType, x.Pos, "", "%s cannot be applied to the pointer %s", x.Op, typeName(o.t))
	}
	n := promoted(o.val)
	v := convert(o.val, n.typ())
	if x.Op != OpPlus {
		v = fold(&UnaryTerm{n.typ(), x.Op, v})
	}
	return value(n.typ(), v), true
}

// deref checks *x.
func (c *checker) deref(x *Unary) (operand, bool) {
	o, ok := c.value(x.X, nil)
	if !ok {
		return o, false
	}
	p, ok := btf.UnderlyingType(o.t).(*btf.Pointer)
	if !ok {
		return c.fault(CodeType, x.X.Span(), "", "%s is not a pointer", typeName(o.t))
	}
	return c.through(o, p.Target, x.X.Span())
}

// through dereferences pointer o: it returns the place it points to, with type t.
func (c *checker) through(o operand, t btf.Type, at Span) (operand, bool) {
	if fwd, ok := btf.UnderlyingType(t).(*btf.Fwd); ok {
		t = c.complete(t, fwd)
	}
	if _, ok := sizeOf(t); !ok {
		return c.fault(CodeType, at, "cast it to a pointer to a known type first", "what %s points to has no known size", typeName(o.t))
	}
	return operand{t: t, space: c.spaceBehind(o), cast: o.cast, place: place{addr: o.val, at: c.when(o.val)}}, true
}

// address checks &x. x must be a place in memory.
func (c *checker) address(x *Unary) (operand, bool) {
	o, ok := c.expr(x.X, nil)
	if !ok {
		return o, false
	}
	if o.val != nil || o.text != nil || o.buffer != nil || o.place.addr == nil {
		return c.fault(CodeType, x.Pos, "", "only what lies in memory has an address")
	}
	if o.place.bits.BitfieldSize != 0 {
		return c.fault(CodeType, x.Pos, "", "a bitfield has no address")
	}
	t := pointerTo(o.t)
	return operand{t: t, val: c.addressOf(o, t), space: o.space, cast: true}, true
}

// member checks x.name and x->name. The operator must fit the type, as in C.
func (c *checker) member(x *Member) (operand, bool) {
	o, ok := c.expr(x.X, nil)
	if !ok {
		return o, false
	}
	if x.Arrow {
		if _, aggregate := members(o.t); aggregate {
			return c.fault(CodeType, x.X.Span(), `write "."`, "%s is not a pointer to a struct", typeName(o.t))
		}
		if o, ok = c.scalar(o, x.X.Span()); !ok {
			return o, false
		}
		p, isptr := btf.UnderlyingType(o.t).(*btf.Pointer)
		if !isptr {
			return c.fault(CodeType, x.X.Span(), "", "%s is not a pointer to a struct", typeName(o.t))
		}
		if o, ok = c.through(o, p.Target, x.X.Span()); !ok {
			return o, false
		}
	}
	if _, ok := members(o.t); !ok || o.val != nil {
		hint := ""
		if target, isptr := pointee(o.t); isptr {
			if _, aggregate := members(target); aggregate {
				hint = `write "->"`
			}
		}
		return c.fault(CodeType, x.NamePos, hint, "%s has no members", typeName(o.t))
	}
	return c.selectMember(o, x.Name, x.NamePos)
}

// selectMember moves an operand that is a struct or union to one of its members. It only
// adds offsets: nothing is loaded yet.
func (c *checker) selectMember(o operand, name string, at Span) (operand, bool) {
	if all := c.several[o.t]; all != nil {
		with, ok := c.having(all, name, at)
		if !ok {
			return o, false
		}
		o.t = with[0]
	}
	m, off, ok := findMember(o.t, name, 0)
	if !ok {
		return c.fault(CodeUnknownMember, at, memberHint(o.t, name), "%s has no member %q", typeName(o.t), name)
	}
	o.t = m.Type
	o.place.bits = btf.Member{}
	if m.BitfieldSize != 0 {
		m.Offset = off + btf.Bits(8*o.place.off)
		o.place.bits = m
		return o, true
	}
	o.place.off += int64(off.Bytes())
	return o, true
}

// index checks x[i]. A constant index into an array is checked against its bounds; any
// other index becomes pointer arithmetic.
func (c *checker) index(x *Index) (operand, bool) {
	o, ok := c.expr(x.X, nil)
	if !ok {
		return o, false
	}
	if n, isName := x.X.(*Name); isName {
		if _, aggregates := aggregators[n.Name]; aggregates && isKey(x.I) {
			return c.fault(CodeType, x.Span(), "to add calls up write "+n.Name+"()"+c.text[n.Pos.End:x.Pos.End], "%q is a parameter here, which has no keys", n.Name)
		}
	}
	if o.text != nil || o.buffer != nil {
		hint := "index the array or the pointer itself, without a function"
		if _, comm := unparen(x.X).(*Context); comm {
			hint = "write $task->comm"
		}
		return c.fault(CodeType, x.X.Span(), hint, "a string has no elements")
	}
	i, ok := c.value(x.I, nil)
	if !ok {
		return o, false
	}
	if isPointer(i.t) {
		return c.fault(CodeType, x.I.Span(), "", "an index must be an integer, not %s", typeName(i.t))
	}
	arr, isArray := btf.UnderlyingType(o.t).(*btf.Array)
	k, isConst := i.val.(*Const)
	if isArray && o.val == nil && isConst {
		return c.element(o, arr, int64(k.V), x.I.Span())
	}
	if isArray && o.val == nil && o.place.addr == nil {
		return c.fault(CodeUnsupported, x.I.Span(), "write a constant index", "the index into a value that is passed in registers must be constant")
	}
	target, isptr := pointee(o.t)
	if !isptr {
		hint := ""
		if _, again := unparen(x.X).(*Index); again {
			hint = "BTF has arrays of several dimensions as one: T a[2][3] is a[6], a[i][j] is a[i * 3 + j]"
		}
		return c.fault(CodeType, x.X.Span(), hint, "%s is neither an array nor a pointer", typeName(o.t))
	}
	if o, ok = c.scalar(o, x.X.Span()); !ok {
		return o, false
	}
	sum, ok := c.advance(o, i, OpAdd, x.X.Span())
	if !ok {
		return o, false
	}
	sum.cast = true
	return c.through(sum, target, x.X.Span())
}

// isKey reports whether x is a context value, by which nobody selects an element.
func isKey(x Expr) bool {
	_, ok := x.(*Context)
	return ok
}

// element selects a constant element of an array that has not been loaded.
func (c *checker) element(o operand, arr *btf.Array, i int64, at Span) (operand, bool) {
	if i < 0 || arr.Nelems > 0 && i >= int64(arr.Nelems) {
		return c.fault(CodeBounds, at, "", "index %d is outside of %s", i, typeName(o.t))
	}
	size, ok := sizeOf(arr.Type)
	if !ok {
		return c.fault(CodeType, at, "", "the elements of %s have no known size", typeName(o.t))
	}
	o.t = arr.Type
	o.place.off += i * size
	return o, true
}

// pointeeSize returns what a pointer points to and its size in bytes: that of void is 1, as gcc has it. If the
// pointer's BTF has only a forward declaration, the definition may be elsewhere in the kernel.
func (c *checker) pointeeSize(p btf.Type) (t btf.Type, size int64, ok bool) {
	t, _ = pointee(p)
	if fwd, declared := btf.UnderlyingType(t).(*btf.Fwd); declared {
		t = c.complete(t, fwd)
	}
	if _, void := btf.UnderlyingType(t).(*btf.Void); void {
		return t, 1, true
	}
	size, ok = sizeOf(t)
	return t, size, ok
}

// advance checks pointer arithmetic, p + i or p - i, in units of what p points to.
func (c *checker) advance(p, i operand, op Op, at Span) (operand, bool) {
	target, size, ok := c.pointeeSize(p.t)
	if !ok {
		return c.fault(CodeType, at, "", "what %s points to has no known size", typeName(p.t))
	}
	if !c.settled(target, at) {
		return operand{}, false
	}
	n := convert(i.val, typeLong)
	if size != 1 {
		n = fold(&BinaryTerm{T: typeLong, Op: OpMul, X: n, Y: &Const{typeLong, uint64(size)}})
	}
	sum := fold(&BinaryTerm{T: p.t, Op: op, X: p.val, Y: n})
	return operand{t: p.t, val: sum, space: p.space, cast: true}, true
}

// sizeof checks sizeof. An expression in it is checked but never computed, as in C.
func (c *checker) sizeof(x *Sizeof) (operand, bool) {
	var t btf.Type
	if x.X != nil {
		o, ok := c.expr(x.X, nil)
		if !ok {
			return o, false
		}
		t = o.t
	} else {
		var ok bool
		if t, ok = c.typeNamed(x.Type); !ok {
			return operand{}, false
		}
	}
	size, ok := sizeOf(t)
	if !ok {
		return c.fault(CodeType, x.Pos, "", "%s has no known size", typeName(t))
	}
	if !c.settled(t, x.Pos) {
		return operand{}, false
	}
	return value(typeUlong, &Const{typeUlong, uint64(size)}), true
}

// containerOf checks container_of(x, type, path). It walks the path from address 0 to find
// the offset, as the kernel's macro does with offsetof.
func (c *checker) containerOf(x *ContainerOf) (operand, bool) {
	t, ok := c.typeNamed(x.Type)
	if !ok {
		return operand{}, false
	}
	o, ok := c.value(x.X, nil)
	if !ok {
		return o, false
	}
	if !isPointer(o.t) {
		return c.fault(CodeType, x.X.Span(), "", "%s is not a pointer", typeName(o.t))
	}
	if all := c.several[t]; all != nil {
		with, ok := c.having(all, x.Path[0].Name, x.Path[0].Pos)
		if !ok {
			return operand{}, false
		}
		t = c.narrow(with)
	}
	inner := operand{t: t, place: place{addr: &Const{typeUlong, 0}}}
	for _, n := range x.Path {
		if inner, ok = c.selectMember(inner, n.Name, n.Pos); !ok {
			return inner, false
		}
	}
	if inner.place.bits.BitfieldSize != 0 {
		return c.fault(CodeType, x.Pos, "", "a bitfield has no address")
	}
	ptr := pointerTo(t)
	return operand{t: ptr, val: addOffset(o.val, -inner.place.off, ptr), space: o.space, cast: true}, true
}

// any checks $any(type): the first parameter with exactly this type, qualifiers aside.
func (c *checker) any(x *Any) (operand, bool) {
	wanted := x.Type.spellings()
	for i, p := range c.scope.Params {
		if slices.Contains(wanted, typeName(p.Type)) {
			return c.parameter(i, x.Pos)
		}
	}
	if _, ok := c.typeNamed(x.Type); !ok {
		return operand{}, false
	}
	return c.fault(CodeUnknownName, x.Pos, "", "%s has no parameter of type %s", c.scope.Func, wanted[0])
}
