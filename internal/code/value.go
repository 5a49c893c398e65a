// SPDX-License-Identifier: Apache-2.0

package code

// A Value is what a register or memory held at one moment of a call, as far as the code says
// where that came from. It never changes.
type Value struct {
	Kind ValueKind
	// Word is the register of an Argument.
	Word int
	// N is a Constant, what a Sum adds, the mask of a Masked, or where in Memory a value is: N
	// bytes behind what Base points to.
	N    int64
	Size int // of Memory: in bytes
	Base *Value
	// Target is the function of a Result, and of what is Opaque since a Strange function with a name was
	// called: its result, if it returns as compilers make functions.
	Target uint64
	// handed says of a Result that the function was called with an error, which it may only have passed on.
	handed bool
	// From is the instruction that made it, Step the pass in which that was.
	From uint64
	Step int
}

// A ValueKind says where a value came from.
type ValueKind uint8

const (
	Opaque   ValueKind = iota // the code does not tell, or it is not understood
	Argument                  // what a register held when the function was called
	Constant
	Result // what a called function returned; Target is 0 if it is not known which
	Memory // what was in memory
	Sum    // an address: Base and N
	Masked // Base & N
	Frame  // an address on the stack: N bytes from where the return address is
	Chosen // made by an instruction that decides without a jump, which is at From
)

// Made reports whether two values are of the same instruction, executed once.
func (v *Value) Made(as *Value) bool {
	return v != nil && as != nil && v.From == as.From && v.Step == as.Step && v.Kind == as.Kind
}

// Returned reports whether a value, or what it is a part of, is known to be what a function has returned.
func (v *Value) Returned() bool {
	return v != nil && (v.Kind == Result || v.Kind == Opaque && v.Target != 0 || v.Kind == Masked && v.Base.Returned())
}

// Same reports whether two values are the same: one, or what was at the same place. Memory may have
// changed in between.
func (v *Value) Same(as *Value) bool {
	switch {
	case v == nil || as == nil || v.Kind != as.Kind || v.Kind == Opaque || v.Kind == Chosen:
		return false
	case v == as:
		return true
	case v.N != as.N || v.Size != as.Size || v.Word != as.Word:
		return false
	case v.Base != nil:
		return v.Base.Same(as.Base)
	}
	return v.Kind == Argument || v.Made(as)
}

// Other reports whether both sides are constants, and not the same one.
func (s *Side) Other(as *Side) bool { return s.constant() && as.constant() && s.Value.N != as.Value.N }

// plus returns the address n bytes behind one.
func (v *Value) plus(n int64) *Value {
	switch {
	case v == nil:
		return nil
	case n == 0:
		return v
	}
	switch v.Kind {
	case Sum, Frame, Constant:
		sum := *v
		sum.N += n
		if v.Kind == Sum && sum.N == 0 {
			return v.Base
		}
		return &sum
	case Argument, Result, Memory:
		return &Value{Kind: Sum, Base: v, N: n, From: v.From, Step: v.Step}
	}
	return nil
}

// load returns what is in memory at an address.
func (v *Value) load(disp int64, size int) *Value {
	if v = v.plus(disp); v == nil {
		return nil
	}
	m := &Value{Kind: Memory, Base: v, Size: size}
	if v.Kind == Sum {
		m.Base, m.N = v.Base, v.N
	}
	return m
}

// A Comparison is what the flags say after an instruction: they compare Left with Right, or
// what both have in common with 0.
type Comparison struct {
	Addr        uint64
	Left, Right Side
	Common      bool // of Left and Right, the bits that both have are compared with 0
	// Computed says that the flags are of a result, which is Left, and that only tests for 0 and
	// for the sign are about it.
	Computed bool
	Size     int // of what is compared, in bytes
}

// A Side is one side of a comparison.
type Side struct {
	// Operand is the operand of the site that it is, by its index; None if it is none.
	Operand int
	Value   *Value // nil: it is not known where it came from
	text    string // of the operand
}

// A Relation says how the sides of a comparison were to each other.
type Relation uint8

const (
	NoRelation Relation = iota // a test that C has no operator for
	Equal
	Different
	Less
	NotLess
	Greater
	NotGreater
)

// String returns it as C has it.
func (r Relation) String() string {
	return [...]string{"?", "==", "!=", "<", ">=", ">", "<="}[r]
}

// Not returns the opposite.
func (r Relation) Not() Relation {
	return [...]Relation{NoRelation, Different, Equal, NotLess, Less, NotGreater, Greater}[r]
}

// A Condition is a comparison, and how it came out.
type Condition struct {
	Comparison
	Relation Relation
	Unsigned bool // the sides were compared as unsigned numbers
}

// relation returns what a test says if it jumps.
func (c *Comparison) relation(test Test) (r Relation, unsigned bool) {
	switch test.Kind {
	case FlagsAMD64:
		return c.relationAMD64(test.Code)
	case FlagsARM64:
		return c.relationARM64(test.Code)
	case Zero:
		r = Equal
	case NotZero:
		r = Different
	case BitClear:
		r = NotLess
		if !test.sign() {
			r = Equal
		}
	case BitSet:
		r = Less
		if !test.sign() {
			r = Different
		}
	}
	return r, false
}

// relationAMD64 is relation of the flags of amd64.
func (c *Comparison) relationAMD64(code uint8) (r Relation, unsigned bool) {
	switch code >> 1 & 7 {
	case 1: // carry
		switch {
		case c.Computed || c.Common:
			return NoRelation, false
		}
		r, unsigned = Less, true
	case 2:
		r = Equal
	case 3:
		switch {
		case c.Computed:
			return NoRelation, false
		case c.Common: // there is no carry
			r = Equal
		default:
			r, unsigned = NotGreater, true
		}
	case 4: // the sign: without a comparison there is no overflow
		if !c.Common && !c.Computed && !c.Right.Zero() {
			return NoRelation, false
		}
		r = Less
	case 6:
		if c.Computed {
			return NoRelation, false
		}
		r = Less
	case 7:
		if c.Computed {
			return NoRelation, false
		}
		r = NotGreater
	}
	if code&1 != 0 {
		r = r.Not()
	}
	return r, unsigned
}

// relationARM64 is relation of the flags of arm64. Of what both sides have in common there is neither a
// carry nor an overflow, and TST of one register is a comparison with 0 here.
func (c *Comparison) relationARM64(code uint8) (r Relation, unsigned bool) {
	switch code >> 1 & 7 {
	case 0:
		r = Equal
	case 1:
		r, unsigned = NotLess, true
	case 2: // the sign: without a comparison there is no overflow
		r = Less
		if !c.Common && !c.Right.Zero() {
			return NoRelation, false
		}
	case 4:
		r, unsigned = Greater, true
	case 5:
		r = NotLess
	case 6:
		r = Greater
	default:
		return NoRelation, false
	}
	if unsigned && (c.Common || c.Right.Zero()) {
		return NoRelation, false
	}
	if code&1 != 0 {
		r = r.Not()
	}
	return r, unsigned
}

func (s *Side) constant() bool { return s.Value != nil && s.Value.Kind == Constant }

// Zero reports whether a side is the constant 0.
func (s *Side) Zero() bool { return s.Value != nil && s.Value.Kind == Constant && s.Value.N == 0 }

// isError reports whether a number is an error, as an int or as a long.
func isError(v uint64) bool {
	const mostErrno = 4095
	n := int32(v)
	return n < 0 && n >= -mostErrno
}
