// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// A writer writes one condition.
type writer struct {
	n    *namer
	note *plan.Note // of the jump; nil if there is none
	d    *event.Decision
	c    *code.Condition
}

// A side is one side of a condition: what it is called and its value.
type side struct {
	naming
	value    uint64
	valued   bool
	constant bool
}

// write returns what held, and what would have had to hold; "" if a side has no name.
func (w *writer) write() (holds, needed string, or []string) {
	left, right := w.side(&w.c.Left), w.side(&w.c.Right)
	if left.constant && right.constant { // the source compares a variable
		left = w.operand(&w.c.Left)
	}
	if w.c.Common || w.c.Computed && w.c.Left.Value != nil && w.c.Left.Value.Kind == code.Masked {
		return w.writeMasked(&left, &right)
	}
	if w.larger(&left) || w.larger(&right) {
		return "", "", nil // a half of it was compared
	}
	if w.c.Computed || !left.known() || !right.known() || left.Mask != 0 || left.At != 0 || right.Mask != 0 || right.At != 0 {
		return "", "", nil
	}
	switch {
	case right.constant && left.bits:
		right.Text = maskText(right.value, w.c.Size)
	case right.constant:
		right.Text = w.number(right.value, left.Class)
	}
	if is, ok := w.isError(&left, &right); ok {
		return is + "  /* " + w.valued(&left) + " */", opposite(is), left.Others
	}
	if cast := w.cast(&left); cast != "" {
		left.Text, left.Class = cast+left.Text, code.Class{Signed: true}
		if right.constant {
			right.Text = w.number(right.value, left.Class)
		} else {
			right.Text, right.Class = cast+right.Text, left.Class
		}
	}
	if w.c.Unsigned && left.Class.Signed && w.c.Relation != code.Equal && w.c.Relation != code.Different {
		left.Text = map[int]string{1: "(u8)", 2: "(u16)", 4: "(unsigned)", 8: "(unsigned long)"}[w.c.Size] + left.Text
	}
	relation := " " + w.c.Relation.String() + " "
	return w.valued(&left) + relation + w.valued(&right), clean(left.Text) + " " + w.c.Relation.Not().String() + " " + clean(right.Text), left.Others
}

// larger reports whether a side is larger than what was compared.
func (w *writer) larger(s *side) bool {
	return !s.constant && s.Mask == 0 && s.Class.Size > w.c.Size
}

// isError writes what IS_ERR compiles to: a pointer that is above the largest address.
func (w *writer) isError(left, right *side) (text string, ok bool) {
	const above = ^uint64(4096) + 1
	if !left.Class.Pointer || !right.constant || right.value != above || !w.c.Unsigned || w.c.Size != 8 {
		return "", false
	}
	text = "IS_ERR(" + clean(left.Text) + ")"
	switch w.c.Relation {
	case code.Greater:
		return text, true
	case code.NotGreater:
		return "!" + text, true
	}
	return "", false
}

// opposite negates what isError returns.
func opposite(is string) string {
	if rest, ok := strings.CutPrefix(is, "!"); ok {
		return rest
	}
	return "!" + is
}

// cast returns the type that the sides were compared as, where that is signed and theirs is not.
func (w *writer) cast(left *side) string {
	if w.c.Unsigned || w.c.Relation == code.Equal || w.c.Relation == code.Different || left.Class.Size == 0 || left.Class.Signed {
		return ""
	}
	return map[int]string{1: "(s8)", 2: "(s16)", 4: "(int)", 8: "(long)"}[w.c.Size]
}

// writeMasked is write for bits: "(flags (0x3) & 0x2) != 0".
func (w *writer) writeMasked(left, right *side) (holds, needed string, or []string) {
	mask := right.value
	if w.c.Computed {
		v := w.c.Left.Value
		mask = uint64(v.N)
		*left = side{naming: w.n.value(v.Base, w.c.Size)}
	} else if !right.constant {
		return "", "", nil
	}
	if !left.known() {
		return "", "", nil
	}
	if w.c.Size < 8 {
		mask &= 1<<(8*w.c.Size) - 1
	}
	if left.Class.Bool && mask == 1 { // which is all of it
		left.value &= 1
		return w.bits(w.valued(left), clean(left.Text))
	}
	if left.Mask != 0 {
		if left.Mask != mask || len(left.Others) > 0 {
			return "", "", nil
		}
		return w.bits(clean(left.Text), clean(left.Text))
	}
	if left.Class.Size > w.c.Size {
		left.valued = false // only a part of it was read
		mask <<= 8 * left.At
	}
	and := " & " + maskText(mask, max(w.c.Size, left.Class.Size)) + ")"
	holds, needed, _ = w.bits("("+w.hexadecimal(left)+and, "("+clean(left.Text)+and)
	return holds, needed, left.Others
}

// bits writes whether bits were set: with the value, and without.
func (w *writer) bits(valued, what string) (holds, needed string, or []string) {
	switch w.c.Relation {
	case code.Equal, code.Different:
		return valued + " " + w.c.Relation.String() + " 0", what + " " + w.c.Relation.Not().String() + " 0", nil
	}
	return "", "", nil
}

// side names one side.
func (w *writer) side(s *code.Side) (out side) {
	if s.Operand == code.None {
		if s.Value != nil && s.Value.Kind == code.Constant {
			v := uint64(s.Value.N)
			return side{naming: naming{Name: plan.Name{Text: w.number(v, code.Class{Signed: true})}}, value: v, constant: true}
		}
		out.naming = w.n.value(s.Value, w.c.Size)
		return out
	}
	o := &w.d.Site.Operands[s.Operand]
	if s.Value != nil && s.Value.Kind == code.Constant && !o.Memory {
		v := uint64(s.Value.N)
		return side{naming: naming{Name: plan.Name{Text: w.number(v, code.Class{Signed: true})}}, value: v, constant: true}
	}
	return w.operand(s)
}

// operand names a side that is an operand of the site.
func (w *writer) operand(s *code.Side) (out side) {
	if s.Operand == code.None {
		return out
	}
	out.naming = w.n.operand(w.note, s.Operand, w.d.Site.Operands[s.Operand].Size, s.Value)
	if s.Operand < len(w.d.Values) && !w.d.Unreadable[s.Operand] {
		out.value, out.valued = w.d.Values[s.Operand], true
	}
	return out
}

// hexadecimal writes a name with its value, of which bits matter.
func (w *writer) hexadecimal(s *side) string {
	if s.constant || !s.valued {
		return clean(s.Text)
	}
	return clean(s.Text) + " (0x" + strconv.FormatUint(s.value, 16) + ")"
}

// valued writes a name with its value.
func (w *writer) valued(s *side) string {
	if s.constant || !s.valued {
		return clean(s.Text)
	}
	if s.bits {
		return w.hexadecimal(s)
	}
	if v := int32(uint32(s.value)); s.result && v < 0 && errno.Name(uint64(-int64(v))) != "" && w.c.Size >= 4 {
		return clean(s.Text) + " (-" + errno.Name(uint64(-int64(v))) + ")"
	}
	return clean(s.Text) + " (" + w.number(s.value, s.Class) + ")"
}

// clean takes what a terminal would act on out of a name, which a file of debug info can have.
func clean(name string) string { return string(terminal.AppendName(nil, name)) }

// number writes a number of the size that is compared, by its class.
func (w *writer) number(v uint64, t code.Class) string {
	size := w.c.Size
	if size <= 0 || size > 8 {
		size = 8
	}
	low := v << (64 - 8*size)
	s := int64(low) >> (64 - 8*size)
	u := low >> (64 - 8*size)
	switch {
	case t.Pointer && u == 0:
		return "NULL"
	case t.Pointer && s < 0 && s >= -mostErrno && errno.Name(uint64(-s)) != "":
		return "-" + errno.Name(uint64(-s))
	case t.Pointer, !(t.Signed && !w.c.Unsigned) && u >= 1<<16:
		return fmt.Sprintf("0x%x", u)
	case t.Signed && !w.c.Unsigned:
		return strconv.FormatInt(s, 10)
	}
	return strconv.FormatUint(u, 10)
}
