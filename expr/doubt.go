// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"fmt"
	"slices"

	"github.com/ksnoop/ksnoop/internal/errno"
)

// doubt notes what can hardly be meant, once: some expressions are checked twice.
func (c *checker) doubt(at Span, hint, format string, args ...any) {
	d := &Error{CodeDoubt, at, fmt.Sprintf(format, args...), hint}
	if c.scope.Doubt != nil && !slices.ContainsFunc(c.doubts, func(o *Error) bool { return *o == *d }) {
		c.doubts = append(c.doubts, d)
	}
}

// doubtBinary looks for comparisons that are legal and always mean something else.
func (c *checker) doubtBinary(x *Binary, a, b operand) {
	switch {
	case ops[x.Op].class == classBitwise:
		c.doubtPrecedence(x)
	case x.Op.Comparison():
		c.doubtErrno(x)
		c.doubtSign(x, x.X, x.Op, a, b)
		c.doubtSign(x, x.Y, mirrored[x.Op], b, a)
	}
}

// doubtPrecedence is about x & y == z: C gives it the shape x & (y == z).
func (c *checker) doubtPrecedence(x *Binary) {
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

// doubtErrno is about return == EINVAL: functions return -EINVAL.
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

// isResult reports whether x is what the function returned, converted or not.
func isResult(x Expr) bool {
	switch x := unparen(x).(type) {
	case *Return:
		return true
	case *Cast:
		return isResult(x.X)
	}
	return false
}

// mirrored are the operators that compare as others do with their operands swapped.
var mirrored = map[Op]Op{OpLt: OpGt, OpLe: OpGe, OpGt: OpLt, OpGe: OpLe}

// doubtSign is about x < 0 where x has no negative values; text is that of x.
func (c *checker) doubtSign(at *Binary, text Expr, op Op, x, with operand) {
	k, constant := with.val.(*Const)
	if _, both := x.val.(*Const); !constant || both {
		return
	}
	own, _ := number(x.val.Type())
	other, _ := number(with.val.Type())
	if own.signed {
		return
	}
	outcome := ""
	switch minusOne := other.signed && int64(k.V) == -1; {
	case op == OpLt && k.V == 0, op == OpGt && minusOne && !common(x, with).signed:
		outcome = "never"
	case op == OpGe && k.V == 0, op == OpLe && minusOne && !common(x, with).signed:
		outcome = "always"
	default:
		return
	}
	hint := ""
	switch {
	case isPointer(x.t):
		hint = "an error is a pointer >= -4095"
	case own.size == 8:
		hint = fmt.Sprintf("to read it as a signed number write (long)%s", c.textOf(text))
	case own.size == 4:
		hint = fmt.Sprintf("to read it as a signed number write (int)%s", c.textOf(text))
	}
	c.doubt(at.Span(), hint, "this %s holds: %s is %s, which has no negative values", outcome, c.textOf(text), typeName(x.t))
}

// common is the type in which two operands are compared; pointers are compared as
// unsigned numbers.
func common(x, y operand) numeric {
	if isPointer(x.t) || isPointer(y.t) {
		return numeric{8, false}
	}
	return balance(promoted(x.val), promoted(y.val))
}
