// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"
)

// AppendValue appends raw as a C initialiser. If raw is shorter than [Printer.Size], the
// text ends with `...`. o may be nil.
func (p *Printer) AppendValue(dst, raw []byte, o *ValueOptions) []byte {
	w := newValueWriter(p, dst, raw, o)
	w.value(&p.root, 0)
	return w.finish()
}

// A valueWriter writes C. Every value ends with a call of end, or truncate stops the whole
// text.
type valueWriter struct {
	walker
	line   int // start of the current line in dst
	indent string
	side   string // side of the union that follows: see sideOf
}

func newValueWriter(p *Printer, dst, raw []byte, o *ValueOptions) valueWriter {
	w := valueWriter{walker: newWalker(p, dst, raw, o), line: len(dst)}
	w.plain, w.indent = w.o.Plain, w.o.Indent
	if w.indent == "" {
		w.indent = "\t"
	}
	if w.o.Mode == Compact && w.o.MaxWidth > 0 {
		w.limit = min(w.limit, len(dst)+w.o.MaxWidth)
	}
	return w
}

// finish cuts a text that is too long.
func (w *valueWriter) finish() []byte {
	if len(w.dst) > w.limit {
		w.dst = appendCut(w.dst, w.base, w.limit)
	}
	return w.dst
}

// appendCut shortens dst to limit bytes, the last of which are `...`. It does not split a
// rune.
func appendCut(dst []byte, base, limit int) []byte {
	cut := max(limit-len("..."), base)
	for cut > base && !utf8.RuneStart(dst[cut]) {
		cut--
	}
	return append(dst[:cut], "..."...)
}

// begin writes the indent of a line.
func (w *valueWriter) begin() {
	if w.o.Mode == Compact {
		return
	}
	w.line = len(w.dst)
	if w.depth == 0 {
		return
	}
	for range w.o.Level + w.depth {
		w.dst = append(w.dst, w.indent...)
	}
}

// close writes a closing bracket with its indent, which the outermost level needs too.
func (w *valueWriter) close(bracket byte) {
	if w.o.Mode != Compact {
		w.line = len(w.dst)
		for range w.o.Level + w.depth {
			w.dst = append(w.dst, w.indent...)
		}
	} else if w.o.Tight {
		w.dst = bytes.TrimSuffix(w.dst, []byte(","))
	}
	w.dst = append(w.dst, bracket)
}

// end writes the separator after a value; there is none at the outermost level.
func (w *valueWriter) end() {
	if w.o.Mode != Compact && w.o.MaxWidth > 0 && len(w.dst)-w.line > w.o.MaxWidth {
		w.dst = appendCut(w.dst, w.line, w.line+max(w.o.MaxWidth, 3))
	}
	if w.depth == 0 {
		return
	}
	w.dst = append(w.dst, ',')
}

func (w *valueWriter) newline() {
	if w.depth > 0 && w.o.Mode != Compact {
		w.dst = append(w.dst, '\n')
	}
}

// truncate ends the text because the bytes end.
func (w *valueWriter) truncate() {
	w.begin()
	w.str("...")
	w.stopped = true
}

// value writes one member, or the root. off is the start of its enclosing type.
func (w *valueWriter) value(f *field, off int) {
	if w.full() {
		return
	}
	b := &w.p.bodies[f.body]
	off += int(f.off)
	switch w.look(f, b, off) {
	case absent:
		w.truncate()
		return
	case zero:
		return
	}
	w.begin()
	if w.o.Hide&HideNames == 0 {
		w.name(f)
	}
	if w.o.Hide&HideTypes == 0 && !w.inArray {
		w.span(f.cast)
	}
	w.bytes(f, b, off)
	if w.stopped {
		return
	}
	w.end()
	if w.o.Mode == Verbose && w.depth > 0 {
		w.place(f, b, off)
	}
	w.newline()
}

// name writes `.name = `.
func (w *valueWriter) name(f *field) {
	w.span(f.name)
	if w.o.Tight && w.o.Mode == Compact && f.name.end > f.name.start {
		w.dst = append(bytes.TrimSuffix(w.dst, []byte(" = ")), '=')
	}
}

// bytes writes the value itself.
func (w *valueWriter) bytes(f *field, b *body, off int) {
	if w.o.Readings && w.o.Hide&HideValues == 0 {
		if dst, ok := w.reading(f, b, off); ok {
			w.dst = dst
			return
		}
	}
	switch b.kind {
	case kindStruct, kindUnion:
		w.members(b, off)
	case kindArray:
		w.elements(b, off)
	case kindBytes:
		w.byteArray(b, off)
	default:
		if w.o.Hide&HideValues != 0 {
			return
		}
		w.scalar(f, b, off)
	}
}

// open starts a nested level. It returns false if the options do not allow one.
func (w *valueWriter) open(bracket, closing byte) bool {
	w.dst = append(w.dst, bracket)
	if w.o.MaxDepth > 0 && w.depth >= w.o.MaxDepth {
		w.str("...")
		w.dst = append(w.dst, closing)
		return false
	}
	w.depth++
	w.newline()
	return true
}

// members writes the members of a struct or union.
func (w *valueWriter) members(b *body, off int) {
	if !w.open('{', '}') {
		return
	}
	var numbers [maxOnce]uint64 // seen in this union
	seen := numbers[:0]
	side, once := w.side, w.o.Once && b.kind == kindUnion
	fields := w.fields(b, off)
	w.eachMember(fields, func(f *field) {
		w.side = ""
		if w.o.Once && b.kind == kindStruct && w.p.bodies[f.body].kind == kindUnion {
			w.side = w.sideOf(fields, off)
		}
		if n, ok := w.plainNumber(f, off); once && ok {
			if !w.onSide(f, side, slices.Contains(seen, n)) {
				return
			}
			if len(seen) < maxOnce {
				seen = append(seen, n)
			}
		}
		w.value(f, off)
	})
	if w.stopped {
		w.closeNested('}')
		return
	}
	w.depth--
	w.close('}')
}

// bothSides says that a pointer may belong to the kernel or to user space.
const bothSides = "both"

// sideOf returns which member of a struct's union is valid, if the members are kernel and
// user, as in sockptr_t. The member is_kernel next to the union tells.
func (w *valueWriter) sideOf(fields []field, off int) string {
	for i := range fields {
		f := &fields[i]
		if b := &w.p.bodies[f.body]; b.kind == kindInt && w.p.named(f, "is_kernel") && !w.missing(f, b, off+int(f.off)) {
			if w.p.number(f, b, w.raw, off+int(f.off)) != 0 {
				return "kernel"
			}
			return "user"
		}
	}
	return bothSides
}

// onSide reports whether to show a member of a union: the valid one if that is known, else
// any whose value was not seen.
func (w *valueWriter) onSide(f *field, side string, seen bool) bool {
	kernel := w.p.named(f, "kernel")
	if side == "" || w.p.bodies[f.body].kind != kindPointer || !kernel && !w.p.named(f, "user") {
		return !seen
	}
	return side == bothSides || kernel == (side == "kernel")
}

// maxOnce is how many numbers of a union Once remembers.
const maxOnce = 8

// elements writes the elements of an array, up to MaxElements.
func (w *valueWriter) elements(b *body, off int) {
	if !w.open('[', ']') {
		return
	}
	w.eachElement(b, off, func(i int, f *field, off int) bool {
		if w.most(i) {
			w.more()
			return false
		}
		w.value(f, off)
		return true
	})
	if w.stopped {
		w.closeNested(']')
		return
	}
	w.depth--
	w.close(']')
}

// more stands for the elements beyond the limit.
func (w *valueWriter) more() {
	w.begin()
	w.str("...")
	w.newline()
}

// place writes offset and size in bytes, as pahole does; for a bitfield also its first bit
// and width.
func (w *valueWriter) place(f *field, b *body, off int) {
	w.str(" /* ")
	w.dst = strconv.AppendInt(w.dst, int64(off), 10)
	if f.bits > 0 {
		w.str(": ")
		w.dst = strconv.AppendUint(w.dst, uint64(f.bit), 10)
	}
	w.str(" ")
	size := uint64(b.size)
	if f.bits > 0 {
		size = uint64(f.bits)
	}
	w.dst = strconv.AppendUint(w.dst, size, 10)
	w.str(" */")
}
