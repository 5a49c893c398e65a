// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/ksnoop/ksnoop/internal/glob"
)

// A Machine is the state of one call, over which terms are computed. Arg, Result and
// Context cannot fail; Read can.
type Machine interface {
	// Arg fills p with bytes of parameter index, in register form, from byte off on.
	Arg(index int, off uint32, p []byte)
	// Result does the same for the return value.
	Result(off uint32, p []byte)
	// Context returns a context value as of phase at. Times are in nanoseconds.
	Context(v ContextVar, at Phase) uint64
	// Comm returns the name of the current task as of phase at.
	Comm(at Phase) string
	// Read fills p with memory at addr, as of phase at. It returns false, and p is
	// undefined, if any byte of it cannot be read.
	Read(space Space, at Phase, addr uint64, p []byte) bool
	// Kept returns the value of a slot that was filled at entry, or the fault that
	// occurred.
	Kept(slot int) (uint64, error)
}

// Faults that computing a term can meet. A predicate that faults does not hold.
var (
	ErrUnreadable = errors.New("unreadable memory")
	ErrDivide     = errors.New("division by zero")
)

// Eval computes a scalar term and returns its value in register form. It defines the
// language: generated code must give the same value. The error is nil, ErrUnreadable or
// ErrDivide. m may be nil if t has only constants.
func Eval(t Term, m Machine) (uint64, error) {
	switch t := t.(type) {
	case *Const:
		return t.V, nil
	case *Arg:
		var p [9]byte
		m.Arg(t.Index, t.Off, p[:t.Width])
		return extract(t, p, t.Bits), nil
	case *Result:
		var p [9]byte
		m.Result(t.Off, p[:t.Width])
		return extract(t, p, t.Bits), nil
	case *ContextTerm:
		return m.Context(t.Var, t.At), nil
	case *Passed:
		return Eval(t.X, m)
	case *Kept:
		return m.Kept(t.Slot)
	case *Load:
		return evalLoad(t, m)
	case *Convert:
		v, err := Eval(t.X, m)
		n, _ := number(t.T)
		return n.extend(v), err
	case *UnaryTerm:
		return evalUnary(t, m)
	case *BinaryTerm:
		return evalBinary(t, m)
	case *Logic:
		v, err := Eval(t.X, m)
		if err != nil || (v != 0) == (t.Op == OpOr) {
			return truth(v != 0), err
		}
		v, err = Eval(t.Y, m)
		return truth(v != 0), err
	case *Swap:
		v, err := Eval(t.X, m)
		return bits.ReverseBytes64(v) >> (64 - 8*t.Size), err
	case *Match:
		return evalMatch(t, m)
	}
	panic(fmt.Sprintf("expr: %T has no value", t))
}

// truth is C's result of a comparison: 0 or 1, of type int.
func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// extract takes a number or a bitfield out of the bytes that hold it. A bitfield of more
// than 57 bits may span 9 bytes.
func extract(t Term, p [9]byte, b Bits) uint64 {
	v := binary.LittleEndian.Uint64(p[:])
	n, _ := number(t.Type())
	if b.Size == 0 {
		return n.extend(v)
	}
	v = (v>>b.Shift | uint64(p[8])<<(64-b.Shift)) << (64 - b.Size)
	if n.signed {
		return uint64(int64(v) >> (64 - b.Size))
	}
	return v >> (64 - b.Size)
}

// evalLoad reads memory. Adding Off wraps around, as the address computation of a
// program does.
func evalLoad(t *Load, m Machine) (uint64, error) {
	addr, err := Eval(t.Addr, m)
	if err != nil {
		return 0, err
	}
	var p [9]byte
	if !m.Read(t.Space, t.At, addr+uint64(t.Off), p[:t.Width]) {
		return 0, ErrUnreadable
	}
	return extract(t, p, t.Bits), nil
}

func evalUnary(t *UnaryTerm, m Machine) (uint64, error) {
	v, err := Eval(t.X, m)
	if err != nil {
		return 0, err
	}
	n, _ := number(t.T)
	switch t.Op {
	case OpNot:
		return truth(v == 0), nil
	case OpCompl:
		return n.extend(^v), nil
	case OpNeg:
		return n.extend(-v), nil
	}
	panic("expr: no unary term is " + t.Op.String())
}

// evalBinary computes both operands, even if the first one decides; only Logic skips
// one.
func evalBinary(t *BinaryTerm, m Machine) (uint64, error) {
	x, err := Eval(t.X, m)
	if err != nil {
		return 0, err
	}
	y, err := Eval(t.Y, m)
	if err != nil {
		return 0, err
	}
	if t.Op.Comparison() {
		n, _ := number(t.X.Type())
		return truth(compare(t.Op, x, y, n.signed)), nil
	}
	n, _ := number(t.T)
	v, err := arithmetic(t.Op, x, y, n)
	return n.extend(v), err
}

// compare returns x op y for numbers in register form.
func compare(op Op, x, y uint64, signed bool) bool {
	if signed { // flipping the top bits maps the order of signed numbers to that of unsigned ones
		x, y = x^1<<63, y^1<<63
	}
	switch op {
	case OpEq:
		return x == y
	case OpNe:
		return x != y
	case OpLt:
		return x < y
	case OpLe:
		return x <= y
	case OpGt:
		return x > y
	case OpGe:
		return x >= y
	}
	panic("expr: no comparison is " + op.String())
}

// arithmetic computes x op y; the caller extends the result to n. Where C leaves a case
// undefined, the language says what BPF does: shift counts are taken modulo the width, and
// the most negative number divided by -1 is itself, with remainder 0.
func arithmetic(op Op, x, y uint64, n numeric) (uint64, error) {
	count := y & uint64(8*n.size-1)
	switch op {
	case OpBitOr:
		return x | y, nil
	case OpXor:
		return x ^ y, nil
	case OpBitAnd:
		return x & y, nil
	case OpAdd:
		return x + y, nil
	case OpSub:
		return x - y, nil
	case OpMul:
		return x * y, nil
	case OpShl:
		return x << count, nil
	case OpShr:
		if n.signed {
			return uint64(int64(x) >> count), nil
		}
		return x >> count, nil
	case OpDiv, OpMod:
		return divide(op, x, y, n.signed)
	}
	panic("expr: no arithmetic is " + op.String())
}

// divide returns x / y or x % y, rounded towards zero as in C.
func divide(op Op, x, y uint64, signed bool) (uint64, error) {
	switch {
	case y == 0:
		return 0, ErrDivide
	case !signed && op == OpDiv:
		return x / y, nil
	case !signed:
		return x % y, nil
	case op == OpDiv:
		return uint64(int64(x) / int64(y)), nil
	}
	return uint64(int64(x) % int64(y)), nil
}

// evalMatch compares a string. A string that cannot be read is a fault, for != as well.
func evalMatch(t *Match, m Machine) (uint64, error) {
	s, err := readText(t.X, MatchLimit(t), m)
	if err != nil {
		return 0, err
	}
	switch t.Op {
	case OpEq:
		return truth(s == t.Pattern), nil
	case OpNe:
		return truth(s != t.Pattern), nil
	}
	if t.X.Cut() && len(s) == int(t.X.Max) {
		return matchStart(t.Pattern, s)
	}
	return truth(glob.Match(t.Pattern, s)), nil
}

// matchStart matches a string of which only the start was read, and which is longer than any pattern. If what
// was not read decides, that is a fault.
func matchStart(pattern, start string) (uint64, error) {
	pieces := glob.Pieces(pattern)
	openEnd := pieces[len(pieces)-1] == ""
	switch {
	case len(pieces) == 1, !glob.Match(pieces[0]+"*", start):
		return 0, nil
	case openEnd && glob.Match(pattern, start):
		return 1, nil
	}
	return 0, ErrUnreadable
}

// MatchLimit returns how many bytes of a string must be read to compare it. For ==
// and != that is just enough to see a difference: the literal, its NUL and, behind a
// pointer, one byte more, since the last byte read counts as a NUL. For ~ it is all of
// the Text. The task's name is always read whole: the kernel bounds it by 16 bytes.
func MatchLimit(t *Match) uint32 {
	switch {
	case t.Op == OpMatch, t.X.Addr == nil:
		return t.X.Max
	case t.X.Terminated():
		return min(t.X.Max, uint32(len(t.Pattern))+2)
	}
	return min(t.X.Max, uint32(len(t.Pattern))+1)
}

// ReadText reads a string and returns it without its NUL. The error is nil or
// ErrUnreadable.
func ReadText(t *Text, m Machine) (string, error) { return readText(t, t.Max, m) }

// readText reads at most limit bytes of a string. A string behind a pointer is read byte by
// byte, so memory after its NUL need not be readable, and byte number limit counts as the
// NUL. In an array all limit bytes must be readable.
func readText(t *Text, limit uint32, m Machine) (string, error) {
	if t.Addr == nil {
		s := m.Comm(t.At)
		return s[:min(len(s), int(limit))], nil
	}
	addr, err := Eval(t.Addr, m)
	if err != nil {
		return "", err
	}
	addr += uint64(t.Off)
	p := make([]byte, limit)
	if !m.Read(t.Space, t.At, addr, p) {
		if !t.Terminated() {
			return "", ErrUnreadable
		}
		for i := range p {
			if !m.Read(t.Space, t.At, addr+uint64(i), p[i:i+1]) {
				return "", ErrUnreadable
			}
			if p[i] == 0 {
				break
			}
		}
	}
	if t.Terminated() {
		p[limit-1] = 0
	}
	if i := bytes.IndexByte(p, 0); i >= 0 {
		p = p[:i]
	}
	return string(p), nil
}
