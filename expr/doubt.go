// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/errno"
)

// doubt records a warning. It drops duplicates, because compared checks some expressions
// again.
func (c *checker) doubt(at Span, hint, format string, args ...any) {
	d := &Error{CodeDoubt, at, fmt.Sprintf(format, args...), hint}
	if c.scope.Doubt != nil && !slices.ContainsFunc(c.doubts, func(o *Error) bool { return *o == *d }) {
		c.doubts = append(c.doubts, d)
	}
}

// doubtBinary looks for comparisons that are valid but hardly meant.
func (c *checker) doubtBinary(x *Binary, a, b operand) {
	switch {
	case ops[x.Op].class == classBitwise:
		c.doubtPrecedence(x)
	case ops[x.Op].class == classLogic:
		c.doubtLiteral(x)
	case x.Op.Comparison():
		c.doubtErrno(x)
		c.doubtUnit(x)
		for _, s := range []side{{x.X, x.Op, a, b}, {x.Y, mirrored[x.Op], b, a}} {
			if _, both := s.x.val.(*Const); both {
				continue
			}
			if k, constant := s.with.val.(*Const); constant && !c.doubtArray(s) && !c.doubtSign(x, s, k) {
				c.doubtLimits(x, s, k)
			}
		}
	}
}

// A side is one operand of a comparison, seen with the operator turned so that the operand
// is on its left.
type side struct {
	text    Expr
	op      Op
	x, with operand
}

// doubtPrecedence warns of x & y == z. C reads it as x & (y == z).
func (c *checker) doubtPrecedence(x *Binary) {
	l, comparesL := x.X.(*Binary)
	if r, ok := x.Y.(*Binary); ok && comparesL && l.Op.Comparison() && r.Op.Comparison() && x.Op != OpXor {
		c.doubt(x.Span(), fmt.Sprintf("write %s%s", x.Op, x.Op), "%s takes bits of two comparisons together", x.Op)
		return
	}
	told := func(read, write string, op Op) {
		if x == c.top {
			read += ", a value to show, which decides about no call"
		}
		c.doubt(x.Span(), "write "+write, "%s binds before %s, so this is %s", op, x.Op, read)
	}
	if y, ok := x.Y.(*Binary); ok && y.Op.Comparison() {
		l, m, r := c.textOf(x.X), c.textOf(y.X), c.textOf(y.Y)
		told(fmt.Sprintf("%s %s (%s %s %s)", l, x.Op, m, y.Op, r), fmt.Sprintf("(%s %s %s) %s %s", l, x.Op, m, y.Op, r), y.Op)
	}
	if y, ok := x.X.(*Binary); ok && y.Op.Comparison() {
		l, m, r := c.textOf(y.X), c.textOf(y.Y), c.textOf(x.Y)
		told(fmt.Sprintf("(%s %s %s) %s %s", l, y.Op, m, x.Op, r), fmt.Sprintf("%s %s (%s %s %s)", l, y.Op, m, x.Op, r), y.Op)
	}
}

// doubtLiteral warns of x == 1 || 2, where 2 is a truth value by itself.
func (c *checker) doubtLiteral(x *Binary) {
	for _, side := range [][2]Expr{{x.X, x.Y}, {x.Y, x.X}} {
		k, literal := unparen(side[0]).(*Int)
		if !literal || k.Value == 0 {
			continue
		}
		hint := ""
		if y, ok := unparen(side[1]).(*Binary); ok && y.Op.Comparison() && (x.Op == OpOr) == (y.Op != OpNe) {
			other := fmt.Sprintf("%s %s %s", c.textOf(y.X), y.Op, c.textOf(side[0]))
			hint = fmt.Sprintf("write %s %s %s", c.textOf(side[1]), x.Op, other)
		}
		c.doubt(side[0].Span(), hint, "%s is always true", c.textOf(side[0]))
	}
}

// leastDuration is the least number of nanoseconds that is likely to be meant as such.
const leastDuration = 1000

// doubtUnit warns of $duration > 10, which are nanoseconds. A literal with a unit is a long.
func (c *checker) doubtUnit(x *Binary) {
	for _, side := range [][2]Expr{{x.X, x.Y}, {x.Y, x.X}} {
		name, ok := unparen(side[0]).(*Context)
		k, literal := unparen(side[1]).(*Int)
		if ok && literal && name.Name == "$duration" && !k.Long && k.Value > 0 && k.Value < leastDuration {
			c.doubt(side[1].Span(), fmt.Sprintf("write the unit: %[1]dms, or %[1]dns", k.Value), "%[1]d is %[1]d nanoseconds", k.Value)
		}
	}
}

// doubtGlob warns of $comm == "nginx*", which holds for a name that ends with an asterisk. A text that
// is * or ? alone would be of no use as a glob.
func (c *checker) doubtGlob(x *Binary, s Expr, pattern *String) {
	if x.Op == OpMatch || len(pattern.Value) < 2 || !strings.ContainsAny(pattern.Value, "*?") {
		return
	}
	hint := fmt.Sprintf("%s ~ %s", c.textOf(s), c.textOf(pattern))
	if x.Op == OpNe {
		hint = "!(" + hint + ")"
	}
	c.doubt(pattern.Pos, "to match a glob write "+hint, "this compares with the text %s itself", c.textOf(pattern))
}

// doubtErrno warns of return == EINVAL. Kernel functions return -EINVAL.
func (c *checker) doubtErrno(x *Binary) {
	for _, side := range [][2]Expr{{x.X, x.Y}, {x.Y, x.X}} {
		name, isName := unparen(side[1]).(*Name)
		if !isName || !isResult(side[0]) || c.isParam(name.Name) {
			continue
		}
		if _, known := errno.Number(name.Name); known {
			c.doubt(side[1].Span(), "write -"+name.Name, "functions return errors as negative numbers, and %s is a positive one", name.Name)
		}
	}
}

// isResult reports whether x is the return value, possibly cast.
func isResult(x Expr) bool {
	switch x := unparen(x).(type) {
	case *Return:
		return true
	case *Cast:
		return isResult(x.X)
	}
	return false
}

// mirrored maps each comparison to the one that means the same with its operands swapped.
var mirrored = map[Op]Op{OpEq: OpEq, OpNe: OpNe, OpLt: OpGt, OpLe: OpGe, OpGt: OpLt, OpGe: OpLe}

// doubtArray warns of array == 0, which compares the array's address. It reports whether it
// did.
func (c *checker) doubtArray(s side) bool {
	if s.x.array == nil {
		return false
	}
	text := c.textOf(s.text)
	hint := fmt.Sprintf("write %s[0]", text)
	if charLike(s.x.array.Type) {
		hint += fmt.Sprintf(`, or %s == "text"`, text)
	}
	c.doubt(s.text.Span(), hint, "this compares where the array %s lies, not what is in it", text)
	return true
}

// doubtSign warns of x < 0 and the like if x is unsigned. It reports whether it did.
func (c *checker) doubtSign(at *Binary, s side, k *Const) bool {
	own, _ := number(s.x.val.Type())
	other, _ := number(s.with.val.Type())
	if own.signed {
		return false
	}
	outcome := ""
	switch minusOne := other.signed && int64(k.V) == -1 && !common(s.x, s.with).signed; {
	case s.op == OpLt && k.V == 0, s.op == OpGt && minusOne:
		outcome = "never"
	case s.op == OpGe && k.V == 0, s.op == OpLe && minusOne:
		outcome = "always"
	default:
		return false
	}
	hint := ""
	switch {
	case isPointer(s.x.t):
		hint = "an error is a pointer >= -4095"
	case own.size == 8:
		hint = fmt.Sprintf("to read it as a signed number write (long)%s", c.textOf(s.text))
	case own.size == 4:
		hint = fmt.Sprintf("to read it as a signed number write (int)%s", c.textOf(s.text))
	}
	c.doubt(at.Span(), hint, "this %s holds: %s is %s, which has no negative values", outcome, c.textOf(s.text), typeName(s.x.t))
	return true
}

// doubtLimits warns of x == 300 and the like if no value of x's type can make a difference.
// gcc does so with -Wtype-limits.
func (c *checker) doubtLimits(at *Binary, s side, k *Const) {
	own, ok := number(s.x.val.Type())
	to := common(s.x, s.with)
	bits, declared := bitsOf(s.x.val).Size, typeName(s.x.t)
	if bits == 0 {
		bits = uint8(8 * own.size)
	} else {
		declared += fmt.Sprintf(" : %d", bits)
	}
	if i, isInt := btf.UnderlyingType(s.x.val.Type()).(*btf.Int); isInt && i.Encoding == btf.Bool {
		bits = 1
	}
	if !ok || bits >= uint8(8*to.size) || own.signed && !to.signed {
		return // every constant may be one of its values
	}
	least, most := int64(0), int64(1)<<bits-1
	if own.signed {
		least, most = -1<<(bits-1), most>>1
	}
	n := int64(k.V)
	switch {
	case to.signed && to.size == 4:
		n = int64(int32(n))
	case to.size == 4:
		n = int64(uint32(n))
	case !to.signed && n < 0:
		n = math.MaxInt64 // the constant is above every limit
	}
	outcome := ""
	switch below, above := n < least, n > most; {
	case s.op == OpEq && (below || above), s.op == OpLt && n <= least, s.op == OpLe && below, s.op == OpGt && n >= most, s.op == OpGe && above:
		outcome = "never"
	case s.op == OpNe && (below || above), s.op == OpLt && above, s.op == OpLe && n >= most, s.op == OpGt && below, s.op == OpGe && n <= least:
		outcome = "always"
	default:
		return
	}
	c.doubt(at.Span(), "", "this %s holds: %s is %s, whose values are %d to %d", outcome, c.textOf(s.text), declared, least, most)
}

// doubtLength warns of a string that is longer than the text it is compared with can be.
func (c *checker) doubtLength(at *Binary, x Expr, text *Text, pattern string) {
	if text.Terminated() || text.Cut() {
		return
	}
	most, least, hint := int(text.Max), len(pattern), ""
	if text.Addr == nil { // a task's name always ends with a NUL
		most--
	}
	if at.Op == OpMatch {
		least -= strings.Count(pattern, "*")
	}
	if least <= most {
		return
	}
	outcome := "never"
	if at.Op == OpNe {
		outcome = "always"
	}
	if text.Addr == nil && at.Op != OpMatch {
		hint = "write " + strconv.Quote(pattern[:most])
	}
	c.doubt(at.Span(), hint, "this %s holds: %s has at most %d bytes", outcome, c.textOf(x), most)
}

// common returns the type in which two operands are compared. Pointers compare as unsigned
// numbers.
func common(x, y operand) numeric {
	if isPointer(x.t) || isPointer(y.t) {
		return numeric{8, false}
	}
	return balance(promoted(x.val), promoted(y.val))
}
