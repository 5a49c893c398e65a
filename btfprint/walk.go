// SPDX-License-Identifier: Apache-2.0

package btfprint

// A walker visits the parts of a value and decides which of them are shown. The sinks that
// embed it decide what is written: valueWriter writes C, jsonWriter JSON, diffWriter the
// differences between two values. The walker itself writes nothing, so no sink can write in
// another's format.
//
// It lives on the stack of the function that prints. Sinks therefore hand it functions,
// which do not escape to the heap, and not themselves as an interface, which would.
type walker struct {
	p    *Printer
	o    ValueOptions
	dst  []byte
	raw  []byte
	base int // where this text starts in dst

	depth   int
	limit   int // most bytes that dst may have
	inArray bool
	tail    bool // only padding follows this value in raw
	stopped bool
	hops    int    // pointers followed so far
	addr    uint64 // where raw was captured, 0 if unknown
	plain   bool   // a text that begins with a NUL counts as zero, as in libbpf
}

func newWalker(p *Printer, dst, raw []byte, o *ValueOptions) walker {
	w := walker{p: p, dst: dst, raw: raw, base: len(dst), tail: true}
	if o != nil {
		// The copy keeps the caller's options off the heap.
		w.o = *o
	}
	w.addr = w.o.Addr
	w.limit = w.o.MaxBytes
	if w.limit <= 0 {
		// Unions show the same bytes several times, and each level repeats the indent. Only
		// corrupt BTF needs more than this.
		w.limit = 1<<20 + 256*len(raw)
	}
	w.limit += len(dst)
	return w
}

func (w *walker) str(s string) { w.dst = append(w.dst, s...) }

func (w *walker) span(s span) { w.dst = append(w.dst, w.p.text[s.start:s.end]...) }

// full stops the walk when the text has reached its limit.
func (w *walker) full() bool {
	if len(w.dst) > w.limit {
		w.stopped = true
	}
	return w.stopped
}

// missing reports whether too few bytes are left to start a value. A scalar needs all its
// bytes; a struct or array needs one, and may end early.
func (w *walker) missing(f *field, b *body, off int) bool {
	need := int(b.size)
	switch {
	case f.bits > 0:
		need = (int(f.bit) + int(f.bits) + 7) / 8
	case b.kind >= kindStruct:
		need = min(need, 1)
	}
	return off+need > len(w.raw)
}

// flexible reports whether an array without a length takes the rest of raw.
func (w *walker) flexible(b *body, off int) bool {
	return b.n == 0 && b.kind >= kindArray && w.tail && len(w.raw) > max(w.p.Size(), off)
}

// A presence says what is found where a value should be.
type presence uint8

const (
	present presence = iota
	zero             // present, but not shown because it is zero
	absent           // too few bytes
)

// look returns whether a value is there to be shown.
func (w *walker) look(f *field, b *body, off int) presence {
	switch {
	case w.flexible(b, off):
		return present
	case w.missing(f, b, off):
		return absent
	case w.depth > 0 && !w.inArray && !w.o.ShowZeroes && w.isZero(f, b, off, w.plain):
		return zero
	}
	return present
}

// fields returns the members to visit; with Likely, a union has only one.
func (w *walker) fields(b *body, off int) []field {
	fields := w.p.fields[b.first : b.first+b.n]
	if b.kind == kindUnion && w.o.Likely && b.n > 1 {
		likely := w.p.likely(fields, w.raw, off)
		fields = fields[likely : likely+1]
	}
	return fields
}

// eachMember visits members until the walk stops.
func (w *walker) eachMember(fields []field, member func(*field)) {
	tail := w.tail
	for i := range fields {
		w.tail = tail && fields[i].last
		member(&fields[i])
		if w.stopped {
			return
		}
	}
	w.tail = tail
}

// eachElement visits the elements of an array with their offsets, until the last to be
// shown or until the walk stops.
func (w *walker) eachElement(b *body, off int, element func(i int, f *field, off int) (more bool)) {
	size := int(w.p.bodies[w.p.elems[b.first].body].size)
	n := int(b.n)
	if n == 0 && w.flexible(b, off) && size > 0 {
		n = (len(w.raw) - off + size - 1) / size
	}
	if size == 0 {
		// Elements of size 0 show nothing, and nothing would bound their number.
		n = 0
	}
	inArray, tail := w.inArray, w.tail
	w.inArray, w.tail = true, false
	for i := 0; i < n && element(i, &w.p.elems[b.first], off+i*size) && !w.stopped; i++ {
	}
	w.inArray, w.tail = inArray, tail
}

// most reports whether element or character i is beyond MaxElements.
func (w *walker) most(i int) bool { return w.o.MaxElements > 0 && i == w.o.MaxElements }

// plainNumber returns the value of a member that is a captured integer or pointer other
// than 0.
func (w *walker) plainNumber(f *field, off int) (uint64, bool) {
	b := &w.p.bodies[f.body]
	off += int(f.off)
	if b.kind != kindInt && b.kind != kindPointer || w.missing(f, b, off) {
		return 0, false
	}
	n := w.p.number(f, b, w.raw, off)
	return n, n != 0
}

// bytesOf returns the captured part of an array of bytes, and its full length.
func (w *walker) bytesOf(b *body, off int) (raw []byte, n int) {
	n = int(b.n)
	if w.flexible(b, off) {
		n = len(w.raw) - off
	}
	return w.raw[off:min(off+n, len(w.raw))], n
}

// maxText is how many bytes of text are read behind a `char *`.
const maxText = 256

// behind returns the type and the captured bytes behind a pointer, if it is to be followed.
func (w *walker) behind(t *pointee, addr uint64) (to *followed, raw []byte) {
	if w.o.Memory == nil || addr == 0 || w.hops >= max(w.o.FollowDepth, 1) {
		return nil, nil
	}
	to = t.compile(w.p.little)
	if to.p == nil {
		return nil, nil
	}
	size := to.p.Size()
	if to.text {
		size = maxText
	}
	raw = w.o.Memory(addr, size)
	if len(raw) == 0 {
		return nil, nil
	}
	return to, raw
}

// enter continues the walk with the memory at addr.
func (w *walker) enter(to *followed, raw []byte, addr uint64) {
	w.p, w.raw, w.addr = to.p, raw, addr
	w.hops++
	w.inArray, w.tail = false, true
}
