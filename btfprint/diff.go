// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"bytes"
	"strconv"

	"github.com/ksnoop/ksnoop/internal/longdouble"
)

// AppendDiff appends a line for each member that differs between two captures of a value,
// ended by a newline:
//
//	.sk_wmem_queued: 0 → 768
//
// A char array is one text. In any other array, each element that differs has its line. If
// bytes differ that belong to no member, a line says so; those of a number by itself are none. Only bytes that both captures have
// are compared; a last line `...` says that some are missing. Options for the shape of
// values are ignored.
func (p *Printer) AppendDiff(dst, before, after []byte, o *ValueOptions) []byte {
	n := min(len(before), len(after))
	content := o.contentOnly()
	w := diffWriter{newValueWriter(p, dst, after[:n], &content), before[:n]}
	w.diff(&p.root, 0)
	w.dst = w.dst[:w.line]
	if w.line == w.base && !w.stopped && p.bodies[p.root.body].kind != kindLongDouble && !bytes.Equal(before[:n], after[:n]) {
		w.str("/* only bytes of no member differ */\n")
	}
	if n < max(len(before), len(after)) || n < p.Size() {
		w.str("...\n")
	}
	return w.finish()
}

// A diffWriter walks two values in parallel; raw is the later one. Behind the last whole
// line of dst stands the path to the current member.
type diffWriter struct {
	valueWriter
	before []byte
}

// diff writes the differences in one member. It compares bytes first, as most members
// are equal. At its end the path is what it was at the beginning.
func (w *diffWriter) diff(f *field, off int) {
	b := &w.p.bodies[f.body]
	off += int(f.off)
	end := min(off+int(b.size), len(w.raw))
	if w.flexible(b, off) {
		end = len(w.raw)
	} else if w.missing(f, b, off) {
		return
	}
	if w.full() {
		return
	}
	if f.bits == 0 && b.same(w.before[off:end], w.raw[off:end]) {
		return
	}
	path := len(w.dst) - w.line
	if f.name.end > f.name.start {
		w.span(f.name)
		w.dst = w.dst[:len(w.dst)-len(" = ")]
	}
	value := func() { w.bytes(f, b, off) }
	switch {
	case w.o.Readings && w.reads(f, b, off):
		w.change(value)
	case b.kind == kindStruct || b.kind == kindUnion:
		w.diffMembers(b, off)
	case b.kind == kindBytes && w.isText(b, off, end):
		if !w.o.Plain {
			value = func() { w.text(w.raw[off:end], max(int(b.n), end-off)) }
		}
		w.change(value)
	case b.kind == kindArray || b.kind == kindBytes:
		w.diffElements(b, off, end)
	case f.bits == 0 || w.p.bitfield(f, w.before, off) != w.p.bitfield(f, w.raw, off):
		w.change(value)
	}
	w.dst = w.dst[:w.line+path]
}

// same reports whether two captures have one value, whatever its padding has.
func (b *body) same(before, after []byte) bool {
	if b.kind == kindLongDouble {
		n := longdouble.Format(b.n).Size()
		before, after = before[:n], after[:n]
	}
	return bytes.Equal(before, after)
}

// isText reports whether an array of bytes is shown as one text. With Plain, a text ends at
// its first NUL. If one of the two captures is text, the other may be empty.
func (w *diffWriter) isText(b *body, off, end int) bool {
	before, after := w.before[off:end], w.raw[off:end]
	switch {
	case b.isChar:
		return !w.o.Plain || !bytes.Equal(upToNUL(before), upToNUL(after))
	case w.o.Plain:
		return false
	}
	n := max(int(b.n), end-off)
	text, was := b.holdsText(after, n), b.holdsText(before, n)
	return text && (was || allZero(before)) || was && allZero(after)
}

// diffMembers goes through the members of a struct or union. With Likely, only one
// member of a union is looked at, unless it shows no difference.
func (w *diffWriter) diffMembers(b *body, off int) {
	member := func(f *field) { w.diff(f, off) }
	if fields := w.fields(b, off); len(fields) < int(b.n) {
		line := w.line
		w.eachMember(fields, member)
		if w.line > line {
			return
		}
		// Other members cover the bytes that differ.
	}
	w.eachMember(w.p.fields[b.first:b.first+b.n], member)
}

// diffElements goes through the elements of an array. The path of an element ends with
// its index.
func (w *diffWriter) diffElements(b *body, off, end int) {
	path := len(w.dst) - w.line
	w.eachElement(b, off, func(i int, f *field, off int) bool {
		if off >= end {
			return false
		}
		w.dst = append(w.dst, '[')
		w.dst = strconv.AppendUint(w.dst, uint64(i), 10)
		w.dst = append(w.dst, ']')
		w.diff(f, off)
		w.dst = w.dst[:w.line+path]
		return true
	})
}

// upToNUL returns the text before its first NUL.
func upToNUL(text []byte) []byte {
	if end := bytes.IndexByte(text, 0); end >= 0 {
		return text[:end]
	}
	return text
}

// reads reports whether the value is of a well-known type and reads differently in the two
// captures.
func (w *diffWriter) reads(f *field, b *body, off int) bool {
	dst, after := w.dst, w.raw
	defer func() { w.dst, w.raw = dst, after }()
	var ok bool
	if w.dst, ok = w.reading(f, b, off); !ok {
		return false
	}
	middle := len(w.dst)
	w.raw = w.before
	w.dst, ok = w.reading(f, b, off)
	return ok && !bytes.Equal(w.dst[len(dst):middle], w.dst[middle:])
}

// change ends the line with both values and starts the next one with the same path. write
// writes the value in raw.
func (w *diffWriter) change(write func()) {
	start, end := w.line, len(w.dst)
	if end > start {
		w.str(": ")
	}
	after := w.raw
	w.raw = w.before
	write()
	w.raw = after
	w.str(" → ")
	write()
	w.str("\n")
	w.line = len(w.dst)
	w.dst = append(w.dst, w.dst[start:end]...)
}
