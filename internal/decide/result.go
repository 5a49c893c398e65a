// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"slices"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// resultOf returns the error that a call has returned, as the record or the SPEC says: 0 if they do
// not tell which. failed says whether it was one. NULL is one if the SPEC asks for calls that return it.
func resultOf(e *event.Event) (told int32, failed bool) {
	half := e.Probe.Return
	if half == nil {
		return 0, false
	}
	if e.Record != nil {
		for i := range e.Record.Slots {
			s := &e.Record.Slots[i]
			if !isResult(s.Term) || s.Size != 8 {
				continue
			}
			if v, ok := e.Value(s); ok {
				if told = asError(v); told != 0 || v != 0 {
					return told, told != 0
				}
			}
		}
	}
	for _, p := range half.Predicates {
		n, is := predicted(p.Term)
		if is {
			told, failed = n, true
		}
		if told != 0 {
			break
		}
	}
	return told, failed
}

// isResult reports whether a term is what the function returned, perhaps as another number.
func isResult(t expr.Term) bool {
	switch t := t.(type) {
	case *expr.Result:
		return !t.Part && t.Width >= 4
	case *expr.Convert:
		return isResult(t.X)
	}
	return false
}

// isPointer reports whether a term is a pointer, perhaps as a number.
func isPointer(t expr.Term) bool {
	if c, ok := t.(*expr.Convert); ok {
		return isPointer(c.X)
	}
	return plan.ClassOf(t.Type()).Pointer
}

// predicted reports whether a predicate only holds for results that are errors, return < 0 or
// return == -22, and which one it is, 0 if it may be several. It also reports it of return == 0 for a
// pointer, which is NULL.
func predicted(t expr.Term) (n int32, failed bool) {
	b, ok := t.(*expr.BinaryTerm)
	if !ok {
		if c, ok := t.(*expr.Convert); ok {
			return predicted(c.X)
		}
		return 0, false
	}
	c, ok := b.Y.(*expr.Const)
	if !ok || !isResult(b.X) {
		return 0, false
	}
	switch {
	case b.Op == expr.OpEq && asError(c.V) != 0:
		return asError(c.V), true
	case equalsNull(b, c):
		return 0, true
	case b.Op == expr.OpLt && signed(b.X) && int64(c.V) <= 0 && int64(c.V) > -mostErrno:
		return 0, true
	}
	return 0, false
}

// equalsNull reports whether a comparison is return == 0 for a pointer.
func equalsNull(b *expr.BinaryTerm, c *expr.Const) bool {
	return b.Op == expr.OpEq && c.V == 0 && isPointer(b.X)
}

// asksNull reports whether the SPEC asks for calls that return NULL.
func asksNull(half *layout.Half) bool {
	return half != nil && slices.ContainsFunc(half.Predicates, func(p layout.Predicate) bool {
		t := p.Term
		for c, ok := t.(*expr.Convert); ok; c, ok = t.(*expr.Convert) {
			t = c.X
		}
		b, ok := t.(*expr.BinaryTerm)
		if !ok || !isResult(b.X) {
			return false
		}
		c, ok := b.Y.(*expr.Const)
		return ok && equalsNull(b, c)
	})
}

func signed(t expr.Term) bool { return plan.ClassOf(t.Type()).Signed }

// mostErrno is MAX_ERRNO of linux/err.h.
const mostErrno = 4095

// asError returns a number that is an error, as an int or as a long; else 0.
func asError(v uint64) int32 {
	if n := int32(v); n < 0 && n >= -mostErrno && (v>>32 == 0 || v>>32 == 1<<32-1) {
		return n
	}
	return 0
}
