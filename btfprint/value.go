// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Mode is the shape of the text that AppendValue writes.
type Mode uint8

const (
	// Multiline puts every member on a line of its own, indented by its depth.
	Multiline Mode = iota
	// Compact writes `{.a = (int)1,.b = (int)2,}` on one line.
	Compact
	// Verbose is Multiline with the offset and size of each member, in bytes, at the end of
	// its line.
	Verbose
)

// Pieces says which parts of the text to leave out. The zero value leaves out nothing.
type Pieces uint8

const (
	// HideTypes leaves out the casts.
	HideTypes Pieces = 1 << iota
	// HideNames leaves out the names of members.
	HideNames
	// HideValues leaves out scalar values. What remains shows which members are not zero.
	HideValues
)

// ValueOptions says how to print a value. The zero value and nil give the format of the
// kernel and of libbpf: many lines, a tab per level, types shown, zero members left out.
type ValueOptions struct {
	Mode   Mode
	Hide   Pieces
	Indent string // one level of indent; "" is a tab
	Level  int    // indent of the whole text but its first line, in levels

	// ShowZeroes shows members that are zero.
	ShowZeroes bool
	// Plain writes values exactly as libbpf does: 1-byte integers in arrays one character
	// at a time, combined flags as a number, bitfields in hexadecimal, a null pointer as
	// `(nil)`, an error pointer as an address.
	Plain bool
	// Likely shows only one member of each union: the one that the bytes look like.
	Likely bool
	// Once leaves out a member of a union if an earlier one shows the same number or
	// address.
	Once bool
	// Tight leaves out, in Compact mode, blanks and the comma before a closing bracket:
	// `{.a=(int)1,.b=(int)2}`.
	Tight bool
	// HexFrom is the smallest integer that is written in hexadecimal; large ones are flags
	// and addresses. With 0, all integers are decimal except for unsigned bitfields.
	HexFrom uint64

	// Readings shows well-known types as people read them: a ktime_t in seconds, a dev_t as
	// major:minor, an in6_addr as an address, and so on.
	Readings bool
	// Addr is the address that raw was captured from, or 0. It is needed to recognise an
	// empty list_head.
	Addr uint64

	// MaxWidth bounds the length of each value's line, in bytes, and in Compact mode that
	// of the whole text. Cuts are marked with `...`. 0 means no limit.
	MaxWidth int
	// MaxDepth is how many levels of braces are opened. 0 means no limit.
	MaxDepth int
	// MaxElements is how many elements of an array, or characters of a string, are shown. 0
	// means no limit.
	MaxElements int
	// MaxBytes bounds the text, in bytes. 0 means a limit far above what real types need.
	MaxBytes int

	// PointerName appends the name of what is at an address, or nothing. The name follows
	// the pointer in angle brackets. Nil means no names.
	PointerName func(dst []byte, addr uint64) []byte
	// Memory returns captured bytes at an address, at most size of them, or nil. If it
	// returns some, the pointer is followed by what it points to.
	Memory func(addr uint64, size int) []byte
	// FollowDepth is how many pointers are followed in a row. 0 means 1.
	FollowDepth int
}

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

// contentOnly returns the options for content, without those for the form of the text.
func (o *ValueOptions) contentOnly() ValueOptions {
	if o == nil {
		return ValueOptions{}
	}
	content := *o
	content.Mode, content.MaxWidth, content.Hide = Multiline, 0, 0
	return content
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
