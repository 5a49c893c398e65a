// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"math"
	"strconv"

	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/longdouble"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// AppendJSON appends raw as one JSON value without spaces.
//
// Structs and unions are objects; anonymous members are merged into the object around them.
// Integers of up to 64 bits are numbers with all digits; wider ones and pointers are
// hexadecimal strings. Enumerators and text are strings. In text, a backslash is doubled,
// and a byte that is not UTF-8 is written \xNN. NaN, infinities, and
// long doubles beyond the range of double are strings. Members that are zero are left out unless ShowZeroes is set. If bytes are missing, or a limit
// cuts the value, a last member `"...":true` or a last element `"..."` says so.
//
// With Typed the form of a value depends on its type alone, so that all values of a type fit
// in one column of a table: pointers are always objects with "addr", and perhaps "name" and
// "value"; enums are objects with "name", which may be null, and "value"; bools are never
// numbers. Strings64 makes strings of all integers of 64-bit types.
//
// Options for content apply; options for the form of text do not. A pointer that has a name
// or is followed is an object with the members "addr", "name" and "value". Error pointers
// have their error as name, if names are wanted at all. Arrays of bytes other than char are
// always arrays of numbers, even where AppendValue shows text.
func (p *Printer) AppendJSON(dst, raw []byte, o *ValueOptions) []byte {
	content := o.contentOnly()
	w := jsonWriter{newWalker(p, dst, raw, &content)}
	b := &p.bodies[p.root.body]
	if w.missing(&p.root, b, 0) && !w.flexible(b, 0) {
		w.str(`"..."`)
		return w.dst
	}
	w.bytes(&p.root, b, 0)
	return w.dst
}

// A jsonWriter writes JSON. It never stops in the middle: it marks gaps and closes all
// brackets.
type jsonWriter struct {
	walker
}

// comma separates a member or element from its predecessor.
func (w *jsonWriter) comma() {
	switch w.dst[len(w.dst)-1] {
	case '{', '[':
	default:
		w.dst = append(w.dst, ',')
	}
}

// bytes writes a value of any kind.
func (w *jsonWriter) bytes(f *field, b *body, off int) {
	if w.o.Readings && w.read(f, b, off) {
		return
	}
	switch b.kind {
	case kindStruct, kindUnion:
		if w.deep() {
			w.str(`{"...":true}`)
			return
		}
		w.depth++
		w.dst = append(w.dst, '{')
		w.members(b, off)
		w.gap(`"...":true`)
		w.dst = append(w.dst, '}')
		w.depth--
	case kindArray:
		w.elements(b, off)
	case kindBytes:
		w.byteArray(b, off)
	default:
		w.scalar(f, b, off)
	}
}

// read writes a well-known type as a string, or as a number if it is just a wrapped number.
func (w *jsonWriter) read(f *field, b *body, off int) bool {
	start := len(w.dst)
	dst, ok := w.reading(f, b, off)
	if !ok {
		return false
	}
	w.dst = dst
	if f.known != knownNumber && f.known != knownBig {
		w.quote(start)
	}
	return true
}

// quote turns the text from start on into a JSON string. It appends the quoted form and
// moves it into place.
func (w *jsonWriter) quote(start int) {
	end := len(w.dst)
	w.dst = append(w.dst, '"')
	w.dst = terminal.AppendJSON(w.dst, w.dst[start:end])
	w.dst = append(w.dst, '"')
	w.dst = w.dst[:start+copy(w.dst[start:], w.dst[end:])]
}

func (w *jsonWriter) deep() bool { return w.o.MaxDepth > 0 && w.depth >= w.o.MaxDepth }

// gap marks that the value is incomplete.
func (w *jsonWriter) gap(mark string) {
	if w.stopped {
		w.comma()
		w.str(mark)
	}
}

// members writes the members of a struct into an open object. At the first missing member
// it closes the object; everything written so far is complete.
func (w *jsonWriter) members(b *body, off int) {
	w.eachMember(w.fields(b, off), func(f *field) { w.member(f, off) })
}

// member writes a member with its key. An anonymous struct or union has none: its
// members go into the object that is open.
func (w *jsonWriter) member(f *field, off int) {
	b := &w.p.bodies[f.body]
	off += int(f.off)
	if w.full() {
		return
	}
	switch w.look(f, b, off) {
	case absent:
		w.stopped = true
		return
	case zero:
		return
	}
	if f.key == (span{}) {
		w.members(b, off)
		return
	}
	w.comma()
	w.span(f.key)
	w.bytes(f, b, off)
}

// elements writes an array. Elements that are zero are shown too: without them, the
// others would have the wrong index.
func (w *jsonWriter) elements(b *body, off int) {
	if w.deep() {
		w.str(`["..."]`)
		return
	}
	w.depth++
	w.dst = append(w.dst, '[')
	w.eachElement(b, off, func(i int, f *field, off int) bool {
		b := &w.p.bodies[f.body]
		if w.full() || w.missing(f, b, off) {
			w.stopped = true
			return false
		}
		w.comma()
		if w.most(i) {
			w.str(`"..."`)
			return false
		}
		w.bytes(f, b, off)
		return true
	})
	w.gap(`"..."`)
	w.dst = append(w.dst, ']')
	w.depth--
}

// byteArray writes chars as a string and other bytes as numbers.
func (w *jsonWriter) byteArray(b *body, off int) {
	raw, n := w.bytesOf(b, off)
	if b.isChar {
		w.text(raw, n)
		return
	}
	short := len(raw) < n
	w.dst = append(w.dst, '[')
	for i, c := range raw {
		if w.full() {
			break
		}
		w.comma()
		if w.most(i) {
			w.str(`"..."`)
			break
		}
		switch {
		case b.isBool && (c <= 1 || w.o.Typed):
			w.dst = strconv.AppendBool(w.dst, c != 0)
		case b.signed:
			w.dst = strconv.AppendInt(w.dst, int64(int8(c)), 10)
		default:
			w.dst = strconv.AppendUint(w.dst, uint64(c), 10)
		}
	}
	w.stopped = w.stopped || short
	w.gap(`"..."`)
	w.dst = append(w.dst, ']')
}

// text writes an array of n chars, of which raw was captured.
func (w *jsonWriter) text(raw []byte, n int) {
	raw, whole := ended(raw, n)
	short := !whole
	if w.o.MaxElements > 0 && len(raw) > w.o.MaxElements {
		raw, short = raw[:w.o.MaxElements], true
	} else if short {
		w.stopped = true
	}
	if room := max(w.limit-len(w.dst), 0) + 1; len(raw) > room {
		raw, short = raw[:room], true
	}
	w.dst = append(w.dst, '"')
	w.dst = terminal.AppendJSON(w.dst, raw)
	if short {
		w.str("...")
	}
	w.dst = append(w.dst, '"')
}

// scalar writes a value without parts. Integers of more than 64 bits are strings.
func (w *jsonWriter) scalar(f *field, b *body, off int) {
	raw := w.raw[off:]
	switch b.kind {
	case kindInt:
		v := w.p.number(f, b, w.raw, off)
		if b.isBool && (v <= 1 || w.o.Typed) {
			w.dst = strconv.AppendBool(w.dst, v != 0)
			return
		}
		w.integer(b, v)
	case kindEnum:
		w.enum(b, w.p.number(f, b, w.raw, off))
	case kindPointer:
		w.pointer(b, w.p.load(raw[:b.size]))
	case kindFloat:
		w.float(raw[:b.size])
	case kindLongDouble:
		w.longDouble(b, raw)
	case kindWide:
		w.dst = append(w.dst, '"')
		w.dst = w.p.appendWide(w.dst, raw[:b.size])
		w.dst = append(w.dst, '"')
	}
}

// integer writes all digits of an integer.
func (w *jsonWriter) integer(b *body, v uint64) {
	quoted := w.o.Strings64 && b.size == 8
	if quoted {
		w.str(`"`)
	}
	if b.signed {
		w.dst = strconv.AppendInt(w.dst, int64(v), 10)
	} else {
		w.dst = strconv.AppendUint(w.dst, v, 10)
	}
	if quoted {
		w.str(`"`)
	}
}

func (w *jsonWriter) enum(b *body, v uint64) {
	if w.o.Typed {
		w.typedEnum(b, v)
		return
	}
	start := len(w.dst)
	dst, ok := w.p.appendEnum(w.dst, b, v, w.o.Plain)
	if ok {
		w.dst = dst
		w.quote(start)
		return
	}
	w.integer(b, v)
}

// typedEnum writes the name and the value.
func (w *jsonWriter) typedEnum(b *body, v uint64) {
	w.str(`{"name":`)
	start := len(w.dst)
	dst, ok := w.p.appendEnum(w.dst, b, v, w.o.Plain)
	if w.dst = dst; ok {
		w.quote(start)
	} else {
		w.str("null")
	}
	w.str(`,"value":`)
	w.integer(b, v)
	w.str("}")
}

// float writes a number. JSON has no NaN and no infinities, so these are strings.
func (w *jsonWriter) float(raw []byte) {
	v := w.p.float(raw)
	quoted := v != v || math.IsInf(v, 0)
	if quoted {
		w.dst = append(w.dst, '"')
	}
	w.dst = w.p.appendFloat(w.dst, raw, false)
	if quoted {
		w.dst = append(w.dst, '"')
	}
}

// longDouble writes a number with all its digits, as a string if double has none of its size.
func (w *jsonWriter) longDouble(b *body, raw []byte) {
	start := len(w.dst)
	w.dst = longdouble.Format(b.n).Append(w.dst, raw)
	text := string(w.dst[start:])
	v, err := strconv.ParseFloat(text, 64)
	tiny := math.Abs(v) < 0x1p-1022 && text != "0" && text != "-0"
	if err != nil || v != v || math.IsInf(v, 0) || tiny {
		w.dst = append(append(append(w.dst[:start], '"'), text...), '"')
	}
}

// pointer writes an address, or an object if there is a name or a followed value.
func (w *jsonWriter) pointer(b *body, addr uint64) {
	start := len(w.dst)
	w.str(`{"addr":"0x`)
	w.dst = strconv.AppendUint(w.dst, addr, 16)
	w.str(`"`)
	plain := len(w.dst)
	if addr != 0 && w.o.PointerName != nil {
		w.pointerName(addr)
	}
	w.follow(&w.p.ptrs[b.first], addr)
	if len(w.dst) > plain || w.o.Typed {
		w.str("}")
		return
	}
	const prefix = len(`{"addr":`)
	w.dst = append(w.dst[:start], w.dst[start+prefix:plain]...)
}

// pointerName writes the member "name", if the address has one.
func (w *jsonWriter) pointerName(addr uint64) {
	start := len(w.dst)
	w.str(`,"name":`)
	name := len(w.dst)
	if e := errno.Name(-addr); e != "" {
		w.str("-")
		w.str(e)
	} else {
		w.dst = w.o.PointerName(w.dst, addr)
	}
	if len(w.dst) == name {
		w.dst = w.dst[:start]
		return
	}
	w.quote(name)
}

// follow writes the member "value", if memory at the address was captured.
func (w *jsonWriter) follow(t *pointee, addr uint64) {
	to, raw := w.behind(t, addr)
	if to == nil {
		return
	}
	w.str(`,"value":`)
	inner := *w
	inner.enter(to, raw, addr)
	root := &to.p.root
	b := &to.p.bodies[root.body]
	switch {
	case to.text:
		inner.text(throughNUL(raw), len(raw)+1)
	case inner.missing(root, b, 0):
		inner.str(`"..."`)
	default:
		inner.bytes(root, b, 0)
	}
	w.dst = inner.dst
}
