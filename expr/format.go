// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"fmt"
	"strconv"
)

// FormatTerm writes a term as text for people: for annotations of generated code and for
// --explain. param returns the name of a parameter by its index. Implicit conversions are
// left out, and the result need not parse. Recordings hash this text to notice
// a change in how records are laid out, so a change of the text rejects older recordings.
func FormatTerm(t Term, param func(int) string) string {
	f := func(t Term) string { return FormatTerm(t, param) }
	switch t := t.(type) {
	case *Const:
		if n, _ := number(t.T); n.signed {
			return strconv.FormatInt(int64(t.V), 10)
		}
		return strconv.FormatUint(t.V, 10)
	case *Arg:
		if t.Off != 0 {
			return fmt.Sprintf("%s+%d", param(t.Index), t.Off)
		}
		return param(t.Index)
	case *Result:
		return "return"
	case *ContextTerm:
		return [...]string{"$pid", "$tid", "$uid", "$cpu", "$time", "$duration", "$comm", "record",
			"$cgroup", "$func", "$stack", "$ustack", "$task"}[t.Var]
	case *Passed:
		return f(t.X)
	case *Load:
		s := fmt.Sprintf("*(%s+%d:%d)", f(t.Addr), t.Off, t.Width)
		if t.Bits.Size != 0 {
			s += fmt.Sprintf("[%d:%d]", t.Bits.Shift, t.Bits.Size)
		}
		return s
	case *Convert:
		return f(t.X)
	case *UnaryTerm:
		return t.Op.String() + f(t.X)
	case *BinaryTerm:
		return "(" + f(t.X) + " " + t.Op.String() + " " + f(t.Y) + ")"
	case *Logic:
		return "(" + f(t.X) + " " + t.Op.String() + " " + f(t.Y) + ")"
	case *Swap:
		return fmt.Sprintf("swap%d(%s)", 8*t.Size, f(t.X))
	case *Match:
		return f(t.X) + " " + t.Op.String() + " " + strconv.Quote(t.Pattern)
	case *Kept:
		return fmt.Sprintf("kept[%d]", t.Slot)
	case *Object:
		if t.Addr == nil {
			return "by-value " + typeName(t.T)
		}
		return fmt.Sprintf("%s at %s+%d", typeName(t.T), f(t.Addr), t.Off)
	case *Text:
		if t.Addr == nil {
			return "$comm"
		}
		return fmt.Sprintf("string at %s+%d", f(t.Addr), t.Off)
	case *Buffer:
		return fmt.Sprintf("%s bytes at %s", f(t.N), f(t.Addr))
	}
	panic(fmt.Sprintf("expr: no text for %T", t))
}
