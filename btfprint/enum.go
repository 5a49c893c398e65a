// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/terminal"
)

// enum sorts the enumerators by value, for binary search.
func (c *compiler) enum(t *btf.Enum) (body, error) {
	switch t.Size {
	case 1, 2, 4, 8:
	default:
		return body{}, fmt.Errorf("enum of %d bytes", t.Size)
	}
	b := body{kind: kindEnum, size: t.Size, signed: t.Signed, dense: true, flags: isFlags(t)}
	list := make([]enumerator, 0, len(t.Values))
	for _, v := range t.Values {
		c.buf = terminal.AppendName(c.buf[:0], v.Name)
		list = append(list, enumerator{v.Value, c.intern(c.buf)})
	}
	// The first name of a value wins.
	slices.SortStableFunc(list, func(x, y enumerator) int {
		switch {
		case x.value < y.value:
			return -1
		case x.value > y.value:
			return 1
		}
		return 0
	})
	list = slices.CompactFunc(list, func(x, y enumerator) bool { return x.value == y.value })
	b.first, b.n = uint32(len(c.p.enums)), uint32(len(list))
	c.p.enums = append(c.p.enums, list...)
	return b, nil
}

// isFlags reports whether the values of an enum look like flags: at least three are single
// bits, these outnumber the others, and the values do not simply count up from 0 or 1.
func isFlags(t *btf.Enum) bool {
	keep := ^uint64(0) >> (64 - 8*t.Size) // 1 << 31 is negative, if it is an int
	var singles uint64
	distinct, others := 0, 0
	top := uint64(0)
	seen := make(map[uint64]bool, len(t.Values))
	for _, v := range t.Values {
		v := v.Value & keep
		if seen[v] || v == 0 {
			continue
		}
		seen[v] = true
		distinct++
		top = max(top, v)
		if v&(v-1) == 0 {
			singles |= v
		} else {
			others++
		}
	}
	bits := distinct - others
	if bits < 3 || others >= bits || top <= uint64(distinct) {
		return false
	}
	for v := range seen {
		if v&^singles != 0 {
			return false
		}
	}
	return true
}

// enum writes the name of a value, or its number if it has none.
func (w *valueWriter) enum(f *field, b *body, off int) {
	v := w.p.number(f, b, w.raw, off)
	if dst, ok := w.p.appendEnum(w.dst, b, v, w.o.Plain); ok {
		w.dst = dst
		return
	}
	w.dst = appendEnumNumber(w.dst, b, v)
}

// appendEnumNumber appends a value without a name. Values of 64 bits get the suffix that C
// requires.
func appendEnumNumber(dst []byte, b *body, v uint64) []byte {
	switch {
	case b.signed && b.size == 8:
		dst = strconv.AppendInt(dst, int64(v), 10)
		return append(dst, "LL"...)
	case b.signed:
		return strconv.AppendInt(dst, int64(v), 10)
	case b.size == 8:
		dst = strconv.AppendUint(dst, v, 10)
		return append(dst, "ULL"...)
	}
	return strconv.AppendUint(dst, v, 10)
}

// appendEnum appends the name of a value or, for flags, the names of all its bits. It
// reports whether there is one.
func (p *Printer) appendEnum(dst []byte, b *body, v uint64, plain bool) ([]byte, bool) {
	list := p.enums[b.first : b.first+b.n]
	if name, ok := p.enumerator(list, v); ok {
		return append(dst, p.text[name.start:name.end]...), true
	}
	if plain || !b.flags || v == 0 {
		return dst, false
	}
	start := len(dst)
	unused := 64 - 8*b.size
	v = v << unused >> unused
	for bit := uint64(1); v != 0 && bit != 0; bit <<= 1 {
		if v&bit == 0 {
			continue
		}
		one := bit
		if b.signed {
			one = uint64(int64(bit<<unused) >> unused)
		}
		name, ok := p.enumerator(list, one)
		if !ok {
			return dst[:start], false
		}
		if len(dst) > start {
			dst = append(dst, '|')
		}
		dst = append(dst, p.text[name.start:name.end]...)
		v &^= bit
	}
	return dst, true
}

// enumerator finds the name of a value by binary search.
func (p *Printer) enumerator(list []enumerator, v uint64) (span, bool) {
	i, ok := slices.BinarySearchFunc(list, v, func(e enumerator, v uint64) int {
		switch {
		case e.value < v:
			return -1
		case e.value > v:
			return 1
		}
		return 0
	})
	if !ok {
		return span{}, false
	}
	return list[i].name, true
}
