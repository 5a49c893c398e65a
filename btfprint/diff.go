// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"bytes"
	"strconv"
)

// AppendDiff appends a line for each member that differs between two captures
// of the value, `.sk_wmem_queued: 0 → 768`, ended by a newline. A char array
// is one text; of other arrays each element that differs has its line. What
// only one capture has is not compared; a last line `...` says so. Options
// for the shape of values do not count.
func (p *Printer) AppendDiff(dst, before, after []byte, o *ValueOptions) []byte {
	if o == nil {
		o = &ValueOptions{}
	}
	n := min(len(before), len(after))
	var path [256]byte
	w := diffWriter{
		valueWriter: newValueWriter(p, dst, after[:n], o),
		before:      before[:n],
		path:        path[:0],
	}
	w.diff(&p.root, 0)
	if n < max(len(before), len(after)) || n < p.Size() {
		w.str("...\n")
	}
	return w.finish()
}

// diffWriter walks two values at once. Its raw is the later one.
type diffWriter struct {
	valueWriter
	before []byte
	path   []byte // of the member at hand
}

func (w *diffWriter) diff(f *field, off int) {
	b := &w.p.bodies[f.body]
	off += int(f.off)
	if w.full() || w.missing(f, b, off) {
		return
	}
	end := min(off+int(b.size), len(w.raw))
	if f.bits == 0 && bytes.Equal(w.before[off:end], w.raw[off:end]) {
		return
	}
	length := len(w.path)
	if f.name.end > f.name.start {
		const separator = len(" = ")
		w.path = append(w.path, w.p.text[f.name.start:int(f.name.end)-separator]...)
	}
	switch {
	case w.o.Readings && w.reads(f, b, off):
		w.change(f, b, off)
	case b.kind == kindStruct || b.kind == kindUnion:
		w.diffMembers(b, off)
	case b.kind == kindArray || b.kind == kindBytes && !b.isChar:
		w.diffElements(b, off)
	case b.kind == kindBytes:
		w.change(f, b, off)
	case f.bits == 0 || w.p.bitfield(f, w.before, off) != w.p.bitfield(f, w.raw, off):
		w.change(f, b, off)
	}
	w.path = w.path[:length]
}

func (w *diffWriter) diffMembers(b *body, off int) {
	fields := w.p.fields[b.first : b.first+b.n]
	if b.kind == kindUnion && w.o.Likely && b.n > 1 {
		likely := w.p.likely(fields, w.raw, off)
		fields = fields[likely : likely+1]
	}
	for i := range fields {
		w.diff(&fields[i], off)
	}
}

func (w *diffWriter) diffElements(b *body, off int) {
	f := field{body: b.first, known: b.known}
	size := int(w.p.bodies[b.first].size)
	if size == 0 {
		return
	}
	length := len(w.path)
	for i := range int(b.n) {
		if off+i*size >= len(w.raw) {
			break
		}
		w.path = append(w.path, '[')
		w.path = strconv.AppendUint(w.path, uint64(i), 10)
		w.path = append(w.path, ']')
		w.diff(&f, off+i*size)
		w.path = w.path[:length]
	}
}

// reads reports whether both values are well known.
func (w *diffWriter) reads(f *field, b *body, off int) bool {
	if _, ok := w.reading(f, b, off); !ok {
		return false
	}
	after := w.raw
	w.raw = w.before
	_, ok := w.reading(f, b, off)
	w.raw = after
	return ok
}

// change writes one line.
func (w *diffWriter) change(f *field, b *body, off int) {
	w.dst = append(w.dst, w.path...)
	if len(w.path) > 0 {
		w.str(": ")
	}
	after := w.raw
	w.raw = w.before
	w.bytes(f, b, off)
	w.raw = after
	w.str(" → ")
	w.bytes(f, b, off)
	w.str("\n")
}
