// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/qualifier"
)

// An operand is a subexpression during the check: a value; a place in memory or registers
// that has not been loaded yet; a string; or a buffer. A place stays unloaded as long as
// possible, because &x, sizeof(x) and captures of aggregates need the place.
type operand struct {
	t     btf.Type
	val   Term  // the value; nil for a place, a text or a buffer
	place place // where it is, if val is nil
	space Space // address space of the place, or of what a pointer points to
	view  View
	// cast says that the user chose t. The verifier then sees another type, and a direct
	// load through it may be refused.
	cast bool
	// array is the array whose address val is, if the user wrote the array itself.
	array  *btf.Array
	text   *Text
	buffer *Buffer
}

// A place is where a value is, before it is loaded.
type place struct {
	addr Term // nil: in registers, of parameter arg or, if arg is resultArg, of the return value
	off  int64
	arg  int
	bits btf.Member // the bitfield, if BitfieldSize is set; it then holds the offset, not off
	at   Phase
}

const resultArg = -1

func value(t btf.Type, v Term) operand { return operand{t: t, val: v} }

// object returns the term that captures the whole aggregate at the operand's place. A parameter is what was
// passed: it is not read at return.
func (o *operand) object() Term {
	if o.place.addr == nil && o.place.arg != resultArg {
		return &Object{T: o.t, Off: o.place.off, Arg: o.place.arg, Space: o.space}
	}
	return &Object{T: o.t, Addr: o.place.addr, Off: o.place.off, Arg: o.place.arg, Space: o.space, At: o.place.at}
}

// addressOf returns the address of the operand's place, in memory, as a pointer of type t. What is read through
// it is read when the place would be: exit(p->a)[i] and *exit(p->a) are read at return.
func (c *checker) addressOf(o operand, t btf.Type) Term {
	addr := addOffset(o.place.addr, o.place.off, t)
	if o.place.at == AtReturn {
		return c.outside(addr)
	}
	return addr
}

// outside returns t, which stood in exit(), as a value of return. Within exit() nothing needs to be marked: all of
// it is of return, and marks would only split up what entry keeps.
func (c *checker) outside(t Term) Term {
	if c.at == AtReturn {
		return t
	}
	return passed(t)
}

// passed returns t as a value of return, if it is one of entry and not constant.
func passed(t Term) Term {
	if _, constant := t.(*Const); constant || PhaseOf(t) == AtReturn {
		return t
	}
	return &Passed{t}
}

// param returns parameter i as an operand, without asking whether it is absent.
func (c *checker) param(i int) operand {
	p := &c.scope.Params[i]
	switch {
	case p.Base != nil:
		return c.stored(p)
	case p.Value != nil:
		o := value(p.Type, p.Value)
		o.space = spaceOf(p.Type)
		return o
	}
	if n, ok := number(p.Type); ok {
		o := value(p.Type, &Arg{T: p.Type, Index: i, Width: n.size})
		o.space = spaceOf(p.Type)
		return o
	}
	return operand{t: p.Type, place: place{arg: i}}
}

// parameter returns a parameter that the SPEC names, or the fault that it is absent.
func (c *checker) parameter(i int, at Span) (operand, bool) {
	if !c.scope.Params[i].Absent {
		return c.param(i), true
	}
	name := c.paramName(i)
	if why := c.scope.Params[i].Why; why != "" {
		return c.fault(CodeAbsent, at, "", "%s of %s %s", name, c.scope.Func, why)
	}
	var known []string
	for i, p := range c.scope.Params {
		if !p.Absent {
			known = append(known, c.paramName(i))
		}
	}
	hint := "the compiler could do without its value, as without those of all other parameters"
	if len(known) > 0 {
		hint = "the compiler could do without its value; known there: " + strings.Join(known, ", ")
	}
	return c.fault(CodeAbsent, at, hint, "%s is optimised out of %s", name, c.scope.Func)
}

// stored returns a parameter that is in memory, such as a field of a tracepoint.
func (c *checker) stored(p *Param) operand {
	if p.Form != Plain {
		return located(p)
	}
	o := operand{t: p.Type, place: place{addr: p.Base, off: p.Off}}
	if _, own := p.Base.(*ContextTerm); !own && c.scope.User {
		o.space = User // of a copy of what is passed by value
	}
	if _, ok := number(p.Type); ok {
		return c.load(o)
	}
	return o
}

// located returns a tracepoint's dynamic array as a string or a buffer. The field is a
// 32-bit word with the array's length in the upper half and its offset in the lower one, as
// in include/trace/stages/stage1_struct_define.h.
func located(p *Param) operand {
	word := &Load{T: typeUint, Addr: p.Base, Off: p.Off, Width: 4}
	off := Term(&BinaryTerm{T: typeUlong, Op: OpBitAnd, X: convert(word, typeUlong), Y: &Const{typeUlong, 0xffff}})
	if p.Form == RelLocated {
		off = &BinaryTerm{T: typeUlong, Op: OpAdd, X: off, Y: &Const{typeUlong, uint64(p.Off) + 4}}
	}
	t := pointerTo(p.Type)
	addr := &BinaryTerm{T: t, Op: OpAdd, X: p.Base, Y: off}
	if isText(p.Type) {
		return operand{t: t, text: &Text{T: t, Addr: addr, Max: MaxText}}
	}
	n := &BinaryTerm{T: typeUlong, Op: OpShr, X: convert(word, typeUlong), Y: &Const{typeUlong, 16}}
	return operand{t: t, buffer: &Buffer{T: t, Addr: addr, N: n, Max: MaxText}}
}

// spaceOf returns User if type t is a pointer tagged __user, else Kernel.
func spaceOf(t btf.Type) Space {
	p, ok := btf.UnderlyingType(t).(*btf.Pointer)
	if ok && qualifier.HasTag(p.Target, qualifier.All, "user") {
		return User
	}
	return Kernel
}

// spaceBehind returns the address space of what a pointer points to.
func (c *checker) spaceBehind(o operand) Space {
	if c.scope.User {
		return User
	}
	return o.space
}

// result returns the return value; ok is false if there is none.
func (c *checker) result() (operand, bool) {
	t := c.scope.Return
	if t == nil {
		return operand{}, false
	}
	if _, void := btf.UnderlyingType(t).(*btf.Void); void {
		return operand{}, false
	}
	if n, ok := number(t); ok {
		return value(t, &Result{T: t, Width: n.size}), true
	}
	if c.scope.ReturnBase != nil {
		o := operand{t: t, place: place{addr: c.scope.ReturnBase, at: AtReturn}}
		o.space = c.spaceBehind(o)
		return o, true
	}
	return operand{t: t, place: place{arg: resultArg, at: AtReturn}}, true
}

// load turns a place into its value: the number there, or, for an array, the address of its
// first element. It returns any other operand unchanged.
func (c *checker) load(o operand) operand {
	if o.val != nil || o.text != nil || o.buffer != nil {
		return o
	}
	if arr, ok := btf.UnderlyingType(o.t).(*btf.Array); ok && o.place.addr != nil {
		t := pointerTo(arr.Type)
		return operand{t: t, val: c.addressOf(o, t), space: o.space, cast: true, array: arr}
	}
	n, ok := number(o.t)
	if !ok {
		return o
	}
	off, width, bits := o.place.off, n.size, Bits{}
	if size := uint32(o.place.bits.BitfieldSize); size != 0 {
		off, width, bits = bitfield(uint32(o.place.bits.Offset), size, n.size)
	}
	res := operand{t: o.t, view: o.view, space: max(o.space, spaceOf(o.t))}
	switch {
	case o.place.addr == nil && o.place.arg == resultArg:
		res.val = &Result{T: o.t, Off: uint32(off), Width: width, Bits: bits, Part: true}
	case o.place.addr == nil:
		res.val = &Arg{T: o.t, Index: o.place.arg, Off: uint32(off), Width: width, Bits: bits}
		if o.place.at == AtReturn {
			res.val = c.outside(res.val)
		}
	default:
		res.val = &Load{T: o.t, Addr: o.place.addr, Off: off, Width: width, Bits: bits,
			Space: o.space, At: o.place.at, Typed: !o.cast}
	}
	return res
}

// bitfield returns which bytes to read for a bitfield of size bits at bit offset pos. It
// prefers the smallest aligned unit that holds them all, as compilers do. If none does, it
// returns just the bytes that the bits touch.
func bitfield(pos, size, container uint32) (off int64, width uint32, bits Bits) {
	for width = 1; width <= max(container, 1); width *= 2 {
		start := pos / (8 * width) * (8 * width)
		if pos+size <= start+8*width {
			return int64(start / 8), width, Bits{uint8(pos - start), uint8(size)}
		}
	}
	start := pos / 8 * 8
	return int64(start / 8), (pos + size - start + 7) / 8, Bits{uint8(pos - start), uint8(size)}
}

// scalar returns o as a value, or reports why it is not a number.
func (c *checker) scalar(o operand, at Span) (operand, bool) {
	if o.text != nil || o.buffer != nil {
		return c.fault(CodeType, at, "", "a string has no number; compare it with == or ~ and a string literal")
	}
	o = c.load(o)
	if o.val != nil {
		return o, true
	}
	name := typeName(o.t)
	switch u := btf.UnderlyingType(o.t).(type) {
	case *btf.Struct, *btf.Union:
		ms, _ := members(u)
		hint := "name one of its members"
		if len(ms) > 0 && ms[0].Name != "" {
			hint += `, such as ".` + ms[0].Name + `"`
		}
		return c.fault(CodeType, at, hint, "%s is not a number", name)
	case *btf.Float, *btf.Int:
		return c.fault(CodeUnsupported, at, "it can be captured, not computed with", "%s is not an integer of at most 64 bits", name)
	}
	return c.fault(CodeType, at, "", "%s is not a number", name)
}

// truth returns o as a truth value: o itself if it is one, else o != 0.
func (c *checker) truth(o operand) Term {
	switch t := o.val.(type) {
	case *Logic, *Match:
		return t
	case *UnaryTerm:
		if t.Op == OpNot {
			return t
		}
	case *BinaryTerm:
		if t.Op.Comparison() {
			return t
		}
	}
	return fold(&BinaryTerm{T: typeInt, Op: OpNe, X: o.val, Y: &Const{o.val.Type(), 0}})
}
