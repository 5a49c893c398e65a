// SPDX-License-Identifier: Apache-2.0

package btfprint

// A walker goes through the parts of one value and decides which are shown. What
// is written of them is up to the sink that embeds it: valueWriter writes C,
// jsonWriter JSON, and diffWriter what differs between two values, as C. A
// walker itself writes nothing, so that no sink can do so in another's form.
//
// It lives on the stack of the function that prints a value: sinks hand it
// functions, which do not escape, and not themselves as an interface, which would.
type walker struct {
	p    *Printer
	o    ValueOptions
	dst  []byte
	raw  []byte
	base int // start of this text in dst

	depth   int
	limit   int // bytes that dst may grow to
	inArray bool
	tail    bool // nothing but padding follows this value in raw
	stopped bool
	hops    int    // pointers followed so far
	addr    uint64 // where raw was captured, if known
	plain   bool   // text that begins with a NUL is zero, as libbpf has it
}

func newWalker(p *Printer, dst, raw []byte, o *ValueOptions) walker {
	w := walker{p: p, dst: dst, raw: raw, base: len(dst), tail: true}
	if o != nil {
		// A copy, so that the caller's options need not live on the heap.
		w.o = *o
	}
	w.addr = w.o.Addr
	w.limit = w.o.MaxBytes
	if w.limit <= 0 {
		// Unions show the same bytes several times, each level of a nested
		// member repeats the indent. Only corrupt BTF needs more.
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

// missing reports whether too few bytes are left to begin a value: all of them
// for a scalar, one for a struct or array, which may end early.
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

// presence is what a walker finds where a value should be.
type presence uint8

const (
	present presence = iota
	zero             // nothing that is shown
	absent           // too few bytes
)

// look finds out whether a value is there to be shown.
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

// fields are the members of a struct or union: of a union only the likely one, if
// that is asked for.
func (w *walker) fields(b *body, off int) []field {
	fields := w.p.fields[b.first : b.first+b.n]
	if b.kind == kindUnion && w.o.Likely && b.n > 1 {
		likely := w.p.likely(fields, w.raw, off)
		fields = fields[likely : likely+1]
	}
	return fields
}

// eachMember goes through members, until the walk is stopped.
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

// eachElement goes through the elements of an array and where they begin, until one
// is the last to be shown or the walk is stopped.
func (w *walker) eachElement(b *body, off int, element func(i int, f *field, off int) (more bool)) {
	size := int(w.p.bodies[w.p.elems[b.first].body].size)
	n := int(b.n)
	if n == 0 && w.flexible(b, off) && size > 0 {
		n = (len(w.raw) - off + size - 1) / size
	}
	if size == 0 {
		// Nothing to see, and nothing that bounds their number.
		n = 0
	}
	inArray, tail := w.inArray, w.tail
	w.inArray, w.tail = true, false
	for i := 0; i < n && element(i, &w.p.elems[b.first], off+i*size) && !w.stopped; i++ {
	}
	w.inArray, w.tail = inArray, tail
}

// most reports whether the i-th element, or character, is one too many.
func (w *walker) most(i int) bool { return w.o.MaxElements > 0 && i == w.o.MaxElements }

// plainNumber returns what a member is, if that is an integer or a pointer other
// than 0, and all of it was captured.
func (w *walker) plainNumber(f *field, off int) (uint64, bool) {
	b := &w.p.bodies[f.body]
	off += int(f.off)
	if b.kind != kindInt && b.kind != kindPointer || w.missing(f, b, off) {
		return 0, false
	}
	n := w.p.number(f, b, w.raw, off)
	return n, n != 0
}

// bytesOf returns an array of bytes as far as it was captured, and how many it has.
func (w *walker) bytesOf(b *body, off int) (raw []byte, n int) {
	n = int(b.n)
	if w.flexible(b, off) {
		n = len(w.raw) - off
	}
	return w.raw[off:min(off+n, len(w.raw))], n
}

// behind returns what a pointer points to, if it is to be followed and was
// captured.
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

// enter goes on with what lies at an address.
func (w *walker) enter(to *followed, raw []byte, addr uint64) {
	w.p, w.raw, w.addr = to.p, raw, addr
	w.hops++
	w.inArray, w.tail = false, true
}
