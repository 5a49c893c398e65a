// SPDX-License-Identifier: Apache-2.0

package expr

import "github.com/cilium/ebpf/btf"

// A Phase is an end of a call, at which something is read or decided.
type Phase uint8

const (
	AtEntry  Phase = iota // when the function is entered
	AtReturn              // when it returns
)

// A Space is the address space of a pointer.
type Space uint8

const (
	Kernel Space = iota
	User
)

// A ContextVar is a value that belongs to the call rather than to its arguments.
type ContextVar uint8

// The context values. $pid is the process (the kernel's tgid), $tid the thread (the
// kernel's pid). Times are in nanoseconds of CLOCK_MONOTONIC.
const (
	ContextPID      ContextVar = iota // $pid
	ContextTID                        // $tid
	ContextUID                        // $uid
	ContextCPU                        // $cpu
	ContextTime                       // $time
	ContextDuration                   // $duration
	ContextComm                       // $comm, a string: occurs only inside a Match or a Text
	ContextRecord                     // address of a tracepoint's fields, or of the saved registers
	ContextCgroup                     // $cgroup, the ID of the task's cgroup (version 2)
	// These occur only in keys of aggregations.
	ContextFunc      // $func: the number of the probe
	ContextStack     // $stack: the number of a stack in the kernel; 0: there is none
	ContextUserStack // $ustack: the same in user space

	ContextTask // $task, the address of the task's struct task_struct
)

// A Term is a typed computation without side effects. The set of implementations is closed.
//
// The value of a scalar term fills 64 bits: it is sign- or zero-extended according to its
// type. This is its register form. It makes widening free, and lets one 64-bit comparison
// compare any two terms of the same type.
type Term interface {
	// Type returns the C type of the value.
	Type() btf.Type
	term()
}

// Bits selects a bitfield of a little-endian number that was loaded: Size bits, from bit
// Shift up. Size 0 selects the whole number.
type Bits struct{ Shift, Size uint8 }

// Scalar terms. T is the C type of the value in each of them.
type (
	// A Const is a value known in advance, in register form.
	Const struct {
		T btf.Type
		V uint64
	}
	// An Arg is a parameter, or a part of a parameter passed by value: Width bytes (1 to 9)
	// at byte Off of its image in registers.
	Arg struct {
		T     btf.Type
		Index int
		Off   uint32
		Width uint32
		Bits  Bits
	}
	// A Result is the function's return value or a part of it; see Arg.
	Result struct {
		T     btf.Type
		Off   uint32
		Width uint32
		Bits  Bits
		// Part says that it is part of a struct, array or union. Only the whole return value
		// may be an error.
		Part bool
	}
	// A ContextTerm is a value of the context of the call.
	ContextTerm struct {
		T   btf.Type
		Var ContextVar
		At  Phase // ignored for $duration and ContextRecord
	}
	// A Passed is the value that X had at entry, used at return: exit(p). A function may
	// overwrite its argument registers, so they cannot tell at return.
	Passed struct{ X Term }
	// A Load reads Width bytes (1 to 8, for a bitfield up to 9) at address Addr + Off. If
	// they cannot be read, the value is a fault.
	Load struct {
		T     btf.Type
		Addr  Term
		Off   int64
		Width uint32
		Bits  Bits
		Space Space
		At    Phase
		// Typed says that Addr has its declared type, without a cast by the user. The
		// kernel's verifier then knows the object's type too, and may allow a direct load.
		Typed bool
	}
	// A Convert converts X to T. It stands for casts and for C's implicit conversions.
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
	// A BinaryTerm is an arithmetic, bitwise or comparison operator. Except for shifts,
	// both operands have the register form of one common type.
	BinaryTerm struct {
		T    btf.Type
		Op   Op
		X, Y Term
	}
	// A Logic is x && y or x || y. If x decides, y is not computed, and its faults do not
	// count.
	Logic struct {
		T    btf.Type
		Op   Op
		X, Y Term
	}
	// A Swap reverses the low Size bytes of x (2 or 4). ntohs(x), ntohl(x)
	Swap struct {
		T    btf.Type
		Size uint32
		X    Term
	}
	// A Match compares a string with a literal (OpEq, OpNe) or with a glob (OpMatch).
	Match struct {
		T       btf.Type
		Op      Op
		X       *Text
		Pattern string
	}
	// A Kept is a value computed at entry and needed at return. Package layout substitutes
	// it for the term that entry computes; Slot is the index of its slot in the record.
	Kept struct {
		T    btf.Type
		Slot int
	}
)

// Terms that are more than a number. They can be captured but not computed with.
type (
	// An Object is an aggregate: the sizeof(T) bytes at Addr + Off. If Addr is nil, it was
	// passed by value: parameter number Arg, or the return value if Arg is negative.
	Object struct {
		T     btf.Type
		Addr  Term
		Off   int64
		Arg   int
		Space Space
		At    Phase
	}
	// A Text is a string at Addr + Off. At most Max bytes are read, its NUL included. A
	// string that fills an array has no NUL. If Addr is nil, the string is the task's name
	// ($comm).
	Text struct {
		T     btf.Type // array or pointer type that the string was read through
		Addr  Term
		Off   int64
		Max   uint32
		Space Space
		At    Phase
	}
	// A Buffer is N bytes at Addr. N is computed for each call and cut to Max.
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

// IsResult reports whether t is the function's whole return value.
func IsResult(t Term) bool {
	r, ok := t.(*Result)
	return ok && !r.Part
}

// Terminated reports whether only a NUL ends the string. This holds behind a pointer; an
// array ends it too.
func (t *Text) Terminated() bool {
	_, array := btf.UnderlyingType(t.T).(*btf.Array)
	return !array
}

// Cut reports whether the string is in an array of which only the first Max bytes are read. If no NUL is among
// them, it goes on.
func (t *Text) Cut() bool {
	arr, ok := btf.UnderlyingType(t.T).(*btf.Array)
	return ok && arr.Nelems > t.Max
}

// bitsOf returns the bitfield that t reads; its Size is 0 if t reads none.
func bitsOf(t Term) Bits {
	switch t := t.(type) {
	case *Arg:
		return t.Bits
	case *Result:
		return t.Bits
	case *Load:
		return t.Bits
	case *Passed:
		return bitsOf(t.X)
	}
	return Bits{}
}

// Operands returns pointers to t's operands. Assigning through them changes t; see Clone.
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

// Walk calls f for t and for all terms below it, parents first, until f returns false. It
// reports whether f always returned true.
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

// PhaseOf returns when t can be computed: at return, if any part of it is only known then.
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

// ReadsMemory reports whether computing t reads kernel or user memory. Such a read costs a
// helper call and can fault.
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

// ReadsKept reports whether computing t at return needs what entry has computed.
func ReadsKept(t Term) bool {
	return !Walk(t, func(t Term) bool {
		_, kept := t.(*Kept)
		return !kept
	})
}

// CanFault reports whether there may be no value: t reads memory, divides by what may be 0, or is a
// stack, for which there may be no place.
func CanFault(t Term) bool {
	return ReadsMemory(t) || !Walk(t, func(t Term) bool {
		switch t := t.(type) {
		case *Kept:
			return false
		case *ContextTerm:
			return t.Var != ContextStack && t.Var != ContextUserStack
		case *BinaryTerm:
			if t.Op == OpDiv || t.Op == OpMod {
				k, constant := t.Y.(*Const)
				return constant && k.V != 0
			}
		}
		return true
	})
}

// InRecord reports whether t loads a field or register that the program is handed. Such a
// load cannot fault.
func InRecord(t *Load) bool {
	c, ok := t.Addr.(*ContextTerm)
	return ok && c.Var == ContextRecord
}

// Clone returns a deep copy of t.
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

// Same reports whether two terms compute the same value from the same inputs. It ignores
// names of types: only width and sign matter to a value.
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

// shape returns a comparable value for everything about a term but its operands and the
// name of its type.
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
