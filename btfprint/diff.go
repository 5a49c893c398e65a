// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"bytes"
	"strconv"
)

// AppendDiff appends a line for each member that differs between two captures
// of the value, `.sk_wmem_queued: 0 → 768`, ended by a newline. A char array
// is one text; of other arrays each element that differs has its line. Where
// bytes differ that belong to no member, a line says that. What only one
// capture has is not compared; a last line `...` says so. Options for the shape
// of values do not count.
func (p *Printer) AppendDiff(dst, before, after []byte, o *ValueOptions) []byte {
	n := min(len(before), len(after))
	content := o.contentOnly()
	w := diffWriter{newValueWriter(p, dst, after[:n], &content), before[:n]}
	w.diff(&p.root, 0)
	w.dst = w.dst[:w.line]
	if w.line == w.base && !w.stopped && !bytes.Equal(before[:n], after[:n]) {
		w.str("/* only bytes of no member differ */\n")
	}
	if n < max(len(before), len(after)) || n < p.Size() {
		w.str("...\n")
	}
	return w.finish()
}

// diffWriter walks two values at once. Its raw is the later one. What stands
// behind the last whole line of dst is the path to the member at hand.
type diffWriter struct {
	valueWriter
	before []byte
}

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
	if f.bits == 0 && bytes.Equal(w.before[off:end], w.raw[off:end]) {
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

// isText reports whether an array of bytes is shown as one text. Plain shows a
// text only up to its first NUL. Where one capture of bytes is text, the other
// may be empty.
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

func (w *diffWriter) diffMembers(b *body, off int) {
	member := func(f *field) { w.diff(f, off) }
	if fields := w.fields(b, off); len(fields) < int(b.n) {
		line := w.line
		w.eachMember(fields, member)
		if w.line > line {
			return
		}
		// What differs belongs to the others.
	}
	w.eachMember(w.p.fields[b.first:b.first+b.n], member)
}

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

func upToNUL(text []byte) []byte {
	if end := bytes.IndexByte(text, 0); end >= 0 {
		return text[:end]
	}
	return text
}

// reads reports whether both values are well known, and read as different ones.
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

// change ends the line with both values, as write writes them from raw, and
// begins the next with the same path.
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
