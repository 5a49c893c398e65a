// SPDX-License-Identifier: Apache-2.0

package expr

import "github.com/cilium/ebpf/btf"

// A Phase is the moment at which something is read or decided.
type Phase uint8

const (
	AtEntry  Phase = iota // when the function is called
	AtReturn              // when it returns
)

// A Space is the address space of a pointer.
type Space uint8

const (
	Kernel Space = iota
	User
)

// A ContextVar is a value of the context of a call.
type ContextVar uint8

// The context values: pid is what user space calls so (the kernel's tgid), tid
// the kernel's pid; times are nanoseconds of CLOCK_MONOTONIC.
const (
	ContextPID      ContextVar = iota // $pid
	ContextTID                        // $tid
	ContextUID                        // $uid
	ContextCPU                        // $cpu
	ContextTime                       // $time
	ContextDuration                   // $duration
	ContextComm                       // $comm, a string: only inside a Match or a Text
	ContextRecord                     // the address of a tracepoint's fields, or of the registers
)

// A Term is a typed computation without side effects. A scalar term's value is
// held in 64 bits, extended by sign or by zeroes according to its type; that
// is its register form. Widening is therefore free, and comparing two terms of
// one type is one 64-bit comparison of that type's sign.
type Term interface {
	// Type returns the C type of the value.
	Type() btf.Type
	term()
}

// Bits selects a bitfield from the little-endian number that was loaded: Size
// bits from bit Shift up. Size 0 means all of it.
type Bits struct{ Shift, Size uint8 }

// The scalar terms.
type (
	// A Const is known before any call.
	Const struct {
		T btf.Type
		V uint64
	}
	// An Arg is a parameter, or a part of one that is passed by value: Width
	// bytes at byte Off of its image in registers.
	Arg struct {
		T     btf.Type
		Index int
		Off   uint32
		Width uint32
		Bits  Bits
	}
	// A Result is the function's return value, or a part of it as in Arg.
	Result struct {
		T     btf.Type
		Off   uint32
		Width uint32
		Bits  Bits
	}
	// A ContextTerm is a value of the context of the call.
	ContextTerm struct {
		T   btf.Type
		Var ContextVar
		At  Phase // of no meaning to $duration and to ContextRecord
	}
	// A Passed is what X was at entry, in what is read at return: exit(p). A
	// function may change its parameters, so the registers tell it no more.
	Passed struct{ X Term }
	// A Load reads Width bytes (1 to 8, of bitfields up to 9) at address Addr +
	// Off. It is a fault if they cannot be read.
	Load struct {
		T     btf.Type
		Addr  Term
		Off   int64
		Width uint32
		Bits  Bits
		Space Space
		At    Phase
		// Typed says that Addr has the type it was declared with, so that the
		// kernel's verifier knows the object as well as we do.
		Typed bool
	}
	// A Convert is a conversion to T, written or implied.
	Convert struct {
		T btf.Type
		X Term
	}
	// A UnaryTerm is -x, ~x or !x.
	UnaryTerm struct {
		T  btf.Type
		Op Op
		X  Term
	}
	// A BinaryTerm is an arithmetic, bitwise or comparing operator. Except for
	// shifts both operands have the register form of one common type.
	BinaryTerm struct {
		T    btf.Type
		Op   Op
		X, Y Term
	}
	// A Logic is x && y or x || y; y is not computed if x decides.
	Logic struct {
		T    btf.Type
		Op   Op
		X, Y Term
	}
	// A Swap reverses the bytes of x, which has Size bytes. ntohs(x), ntohl(x)
	Swap struct {
		T    btf.Type
		Size uint32
		X    Term
	}
	// A Match compares a string with a text or a glob: OpEq, OpNe or OpMatch.
	Match struct {
		T       btf.Type
		Op      Op
		X       *Text
		Pattern string
	}
	// A Kept is a value that was computed at entry and is still wanted at
	// return. Whoever lays out the records puts it in place of the entry term.
	Kept struct {
		T    btf.Type
		Slot int
	}
)

// The terms that are more than a number: they can be captured, not computed with.
type (
	// An Object is the sizeof(T) bytes at Addr + Off, or, where Addr is nil,
	// a parameter (Arg ≥ 0) or the return value (Arg < 0) passed by value.
	Object struct {
		T     btf.Type
		Addr  Term
		Off   int64
		Arg   int
		Space Space
		At    Phase
	}
	// A Text is a string at Addr + Off of which at most Max bytes are read, the
	// NUL at its end included; in an array there need be none. Where Addr is
	// nil it is the task's comm.
	Text struct {
		T     btf.Type // the array or pointer it was read through
		Addr  Term
		Off   int64
		Max   uint32
		Space Space
		At    Phase
	}
	// A Buffer is N bytes at Addr, at most Max of them.
	Buffer struct {
		T     btf.Type
		Addr  Term
		N     Term
		Max   uint32
		Space Space
		At    Phase
	}
)

func (t *Const) Type() btf.Type       { return t.T }
func (t *Arg) Type() btf.Type         { return t.T }
func (t *Result) Type() btf.Type      { return t.T }
func (t *ContextTerm) Type() btf.Type { return t.T }
func (t *Passed) Type() btf.Type      { return t.X.Type() }
func (t *Load) Type() btf.Type        { return t.T }
func (t *Convert) Type() btf.Type     { return t.T }
func (t *UnaryTerm) Type() btf.Type   { return t.T }
func (t *BinaryTerm) Type() btf.Type  { return t.T }
func (t *Logic) Type() btf.Type       { return t.T }
func (t *Swap) Type() btf.Type        { return t.T }
func (t *Match) Type() btf.Type       { return t.T }
func (t *Kept) Type() btf.Type        { return t.T }
func (t *Object) Type() btf.Type      { return t.T }
func (t *Text) Type() btf.Type        { return t.T }
func (t *Buffer) Type() btf.Type      { return t.T }

func (*Const) term()       {}
func (*Arg) term()         {}
func (*Result) term()      {}
func (*ContextTerm) term() {}
func (*Passed) term()      {}
func (*Load) term()        {}
func (*Convert) term()     {}
func (*UnaryTerm) term()   {}
func (*BinaryTerm) term()  {}
func (*Logic) term()       {}
func (*Swap) term()        {}
func (*Match) term()       {}
func (*Kept) term()        {}
func (*Object) term()      {}
func (*Text) term()        {}
func (*Buffer) term()      {}

// Terminated reports whether the end of the string is known only by its NUL: it
// is behind a pointer, rather than in an array.
func (t *Text) Terminated() bool {
	_, array := btf.UnderlyingType(t.T).(*btf.Array)
	return !array
}

// bitsOf returns the bitfield that t is, if it is one.
func bitsOf(t Term) Bits {
	switch t := t.(type) {
	case *Arg:
		return t.Bits
	case *Result:
		return t.Bits
	case *Load:
		return t.Bits
	}
	return Bits{}
}

// Operands returns pointers to the terms that t is computed from, so that they
// can be replaced in a clone of t.
func Operands(t Term) []*Term {
	switch t := t.(type) {
	case *Passed:
		return []*Term{&t.X}
	case *Load:
		return []*Term{&t.Addr}
	case *Convert:
		return []*Term{&t.X}
	case *UnaryTerm:
		return []*Term{&t.X}
	case *BinaryTerm:
		return []*Term{&t.X, &t.Y}
	case *Logic:
		return []*Term{&t.X, &t.Y}
	case *Swap:
		return []*Term{&t.X}
	case *Match:
		return Operands(t.X)
	case *Object:
		if t.Addr != nil {
			return []*Term{&t.Addr}
		}
	case *Text:
		if t.Addr != nil {
			return []*Term{&t.Addr}
		}
	case *Buffer:
		return []*Term{&t.Addr, &t.N}
	case *Const, *Arg, *Result, *ContextTerm, *Kept:
	}
	return nil
}

// Walk calls f for t and for every term below it, as long as f returns true.
func Walk(t Term, f func(Term) bool) bool {
	if !f(t) {
		return false
	}
	for _, x := range Operands(t) {
		if !Walk(*x, f) {
			return false
		}
	}
	return true
}

// PhaseOf returns when t can be computed: at return if anything in it is only
// known then.
func PhaseOf(t Term) Phase {
	early := Walk(t, func(t Term) bool {
		switch t := t.(type) {
		case *Result, *Passed:
			return false
		case *ContextTerm:
			return t.At == AtEntry && t.Var != ContextDuration
		case *Load:
			return t.At == AtEntry
		case *Object:
			return t.At == AtEntry && (t.Addr != nil || t.Arg >= 0)
		case *Text:
			return t.At == AtEntry
		case *Match:
			return t.X.At == AtEntry
		case *Buffer:
			return t.At == AtEntry
		}
		return true
	})
	if early {
		return AtEntry
	}
	return AtReturn
}

// ReadsMemory reports whether computing t loads anything through a pointer.
func ReadsMemory(t Term) bool {
	return !Walk(t, func(t Term) bool {
		switch t := t.(type) {
		case *Load:
			return InRecord(t)
		case *Buffer:
			return false
		case *Object:
			return t.Addr == nil
		case *Text:
			return t.Addr == nil
		case *Match:
			return t.X.Addr == nil
		}
		return true
	})
}

// InRecord reports whether t loads one of the fields or registers that a
// program is handed, which it can always read.
func InRecord(t *Load) bool {
	c, ok := t.Addr.(*ContextTerm)
	return ok && c.Var == ContextRecord
}

// Clone returns a copy of t that shares no term with it.
func Clone(t Term) Term {
	switch u := t.(type) {
	case *Const:
		t = copyOf(u)
	case *Arg:
		t = copyOf(u)
	case *Result:
		t = copyOf(u)
	case *ContextTerm:
		t = copyOf(u)
	case *Passed:
		t = copyOf(u)
	case *Load:
		t = copyOf(u)
	case *Convert:
		t = copyOf(u)
	case *UnaryTerm:
		t = copyOf(u)
	case *BinaryTerm:
		t = copyOf(u)
	case *Logic:
		t = copyOf(u)
	case *Swap:
		t = copyOf(u)
	case *Match:
		m := copyOf(u)
		m.X = Clone(u.X).(*Text)
		return m
	case *Kept:
		t = copyOf(u)
	case *Object:
		t = copyOf(u)
	case *Text:
		t = copyOf(u)
	case *Buffer:
		t = copyOf(u)
	}
	for _, x := range Operands(t) {
		*x = Clone(*x)
	}
	return t
}

func copyOf[T any](p *T) *T {
	c := *p
	return &c
}

// Same reports whether two terms compute the same value in the same way.
func Same(a, b Term) bool {
	if shape(a) != shape(b) {
		return false
	}
	x, y := Operands(a), Operands(b)
	for i := range x {
		if !Same(*x[i], *y[i]) {
			return false
		}
	}
	return len(x) == len(y)
}

// shape is what a term is besides its operands and its type's name, comparable.
func shape(t Term) any {
	size, signed, _ := Number(t.Type())
	form := [2]any{size, signed}
	switch t := t.(type) {
	case *Const:
		return [2]any{form, Const{V: t.V}}
	case *Arg:
		return [2]any{form, Arg{Index: t.Index, Off: t.Off, Width: t.Width, Bits: t.Bits}}
	case *Result:
		return [2]any{form, Result{Off: t.Off, Width: t.Width, Bits: t.Bits}}
	case *ContextTerm:
		return [2]any{form, ContextTerm{Var: t.Var, At: t.At}}
	case *Passed:
		return [2]any{form, Passed{}}
	case *Load:
		return [2]any{form, Load{Off: t.Off, Width: t.Width, Bits: t.Bits, Space: t.Space, At: t.At}}
	case *Convert:
		return [2]any{form, Convert{}}
	case *UnaryTerm:
		return [2]any{form, UnaryTerm{Op: t.Op}}
	case *BinaryTerm:
		return [2]any{form, BinaryTerm{Op: t.Op}}
	case *Logic:
		return [2]any{form, Logic{Op: t.Op}}
	case *Swap:
		return [2]any{form, Swap{Size: t.Size}}
	case *Match:
		return [2]any{shape(t.X), Match{Op: t.Op, Pattern: t.Pattern}}
	case *Kept:
		return [2]any{form, Kept{Slot: t.Slot}}
	case *Object:
		return Object{Off: t.Off, Arg: t.Arg, Space: t.Space, At: t.At}
	case *Text:
		return Text{Off: t.Off, Max: t.Max, Space: t.Space, At: t.At}
	case *Buffer:
		return Buffer{Max: t.Max, Space: t.Space, At: t.At}
	}
	panic("expr: unknown term")
}
