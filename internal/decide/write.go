// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// A writer writes one condition.
type writer struct {
	n *namer
	d *event.Decision
	c *code.Condition
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
	if w.c.Common || w.c.Computed && w.c.Left.Value != nil && w.c.Left.Value.Kind == code.Masked {
		return w.writeMasked(&left, &right)
	}
	if w.larger(&left) || w.larger(&right) {
		return "", "", nil // a half of it was compared
	}
	if w.c.Computed || !left.known() || !right.known() || left.mask != 0 || left.at != 0 || right.at != 0 {
		return "", "", nil
	}
	typ := left.typ
	if right.constant {
		right.text = w.number(right.value, typ, left.signed)
	}
	if is, ok := w.isError(&left, &right); ok {
		return is + "  /* " + w.valued(&left) + " */", opposite(is), left.others
	}
	if cast := w.cast(&left); cast != "" {
		left.text, left.typ, left.signed = cast+left.text, nil, true
		if right.constant {
			right.text = w.number(right.value, nil, true)
		} else {
			right.text, right.typ, right.signed = cast+right.text, nil, true
		}
	}
	relation := " " + w.c.Relation.String() + " "
	return w.valued(&left) + relation + w.valued(&right), clean(left.text) + " " + w.c.Relation.Not().String() + " " + clean(right.text), left.others
}

// larger reports whether a side is larger than what was compared.
func (w *writer) larger(s *side) bool {
	if s.typ == nil || s.constant || s.mask != 0 {
		return false
	}
	n, err := btf.Sizeof(s.typ)
	return err != nil || n > w.c.Size
}

// isError writes what IS_ERR compiles to: a pointer that is above the largest address.
func (w *writer) isError(left, right *side) (text string, ok bool) {
	const above = ^uint64(4096) + 1
	_, pointer := btf.UnderlyingType(orVoid(left.typ)).(*btf.Pointer)
	if !pointer || !right.constant || right.value != above || !w.c.Unsigned || w.c.Size != 8 {
		return "", false
	}
	text = "IS_ERR(" + clean(left.text) + ")"
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
	if w.c.Unsigned || w.c.Relation == code.Equal || w.c.Relation == code.Different || left.typ == nil {
		return ""
	}
	switch t := btf.UnderlyingType(left.typ).(type) {
	case *btf.Int:
		if t.Encoding == btf.Signed {
			return ""
		}
	case *btf.Enum:
		if t.Signed {
			return ""
		}
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
	if left.mask != 0 {
		if left.mask != mask || len(left.others) > 0 {
			return "", "", nil
		}
		return w.bits(clean(left.text), clean(left.text))
	}
	if n, err := btf.Sizeof(orVoid(left.typ)); left.typ != nil && (err != nil || n > w.c.Size) {
		left.valued = false // only a part of it was read
		mask <<= 8 * left.at
	}
	and := " & 0x" + strconv.FormatUint(mask, 16) + ")"
	holds, needed, _ = w.bits("("+w.valued(left)+and, "("+clean(left.text)+and)
	return holds, needed, left.others
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
			return side{naming: naming{text: w.number(v, nil, true)}, value: v, constant: true}
		}
		out.naming = w.n.value(s.Value, w.c.Size)
		return out
	}
	o := &w.d.Site.Operands[s.Operand]
	if s.Value != nil && s.Value.Kind == code.Constant && !o.Memory {
		v := uint64(s.Value.N)
		return side{naming: naming{text: w.number(v, nil, true)}, value: v, constant: true}
	}
	out.naming = w.n.operand(o, s.Value)
	if s.Operand < len(w.d.Values) && !w.d.Unreadable[s.Operand] {
		out.value, out.valued = w.d.Values[s.Operand], true
	}
	return out
}

// valued writes a name with its value.
func (w *writer) valued(s *side) string {
	if s.constant || !s.valued {
		return clean(s.text)
	}
	if v := int32(uint32(s.value)); s.result && v < 0 && errno.Name(uint64(-int64(v))) != "" && w.c.Size >= 4 {
		return clean(s.text) + " (-" + errno.Name(uint64(-int64(v))) + ")"
	}
	return clean(s.text) + " (" + w.number(s.value, s.typ, s.signed) + ")"
}

// clean takes what a terminal would act on out of a name, which a file of debug info can have.
func clean(name string) string { return string(terminal.AppendName(nil, name)) }

// number writes a number of the size that is compared, by its type.
func (w *writer) number(v uint64, t btf.Type, signed bool) string {
	size := w.c.Size
	if size <= 0 || size > 8 {
		size = 8
	}
	low := v << (64 - 8*size)
	s := int64(low) >> (64 - 8*size)
	u := low >> (64 - 8*size)
	switch t := btf.UnderlyingType(orVoid(t)).(type) {
	case *btf.Pointer:
		switch {
		case u == 0:
			return "NULL"
		case s < 0 && s > -4096 && errno.Name(uint64(-s)) != "":
			return "-" + errno.Name(uint64(-s))
		}
		return fmt.Sprintf("0x%x", u)
	case *btf.Int:
		signed = t.Encoding == btf.Signed
	case *btf.Enum:
		signed = t.Signed
	}
	switch {
	case signed && !w.c.Unsigned:
		return strconv.FormatInt(s, 10)
	case u >= 1<<16:
		return fmt.Sprintf("0x%x", u)
	}
	return strconv.FormatUint(u, 10)
}
