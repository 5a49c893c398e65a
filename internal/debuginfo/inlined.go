// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"runtime/debug"
	"slices"
)

// An Inlining is a place where the compiler put the code of a function instead
// of a call.
type Inlining struct {
	Func   string // the function that was inlined
	Caller string // what calls it in the source, which may be inlined itself
	Into   string // the function whose code it became a part of
	Addr   uint64 // where its code begins, with the slide; 0 if none is left of it
	// Where the call is in the source.
	File         string
	Line, Column uint32
	// Params are the parameters of the function and where they are at Addr.
	Params []Param
}

// Inlined returns for each address of a function where else in its unit it was
// inlined. Calls from there do not come by the address. The places of parameters
// are looked up if they are wanted.
func (i *Info) Inlined(addrs []uint64, params bool) (results [][]Inlining) {
	defer i.recovered(debug.SetPanicOnFault(true))
	results = make([][]Inlining, len(addrs))
	if !i.ready() {
		return results
	}
	f := inlineFinder{reader: newReader(i, 1), withParams: params}
	for requests := range i.byUnit(addrs) {
		if f.open(requests[0].unit) {
			for _, q := range requests {
				if origin, ok := f.origin(q.addr); ok {
					f.wanted[origin] = append(f.wanted[origin], q.index)
				}
			}
			f.walk(func(index int, at Inlining) { results[index] = append(results[index], at) })
		}
	}
	return results
}

// Definition returns where the source defines the function at an address.
func (i *Info) Definition(addr uint64) (file string, line uint32, ok bool) {
	defer i.recovered(debug.SetPanicOnFault(true))
	if !i.ready() {
		return "", 0, false
	}
	addr -= i.options.Slide
	off, ok := i.units.find(addr)
	f := inlineFinder{reader: i.stream}
	if !ok || !f.open(off) {
		return "", 0, false
	}
	u := f.unit
	at, ok := u.function(addr)
	if !ok {
		return "", 0, false
	}
	if origin, ok := f.origin(addr); ok && u.holds(origin) {
		at = origin
	}
	c := u.cursor(at)
	a := u.abbrevs.find(c.uleb())
	if a == nil {
		return "", 0, false
	}
	var declFile, declLine value
	for _, attr := range u.abbrevs.of(a) {
		v := u.read(&c, attr)
		switch attr.name {
		case attrDeclFile:
			declFile = v
		case attrDeclLine:
			declLine = v
		}
	}
	u.readLines()
	file = u.path(narrow(declFile.n, noFile), i.options.Relative)
	return file, uint32(declLine.n), declLine.form != 0 && file != ""
}

// InlinedNamed returns all places where functions of a name that matches were
// inlined. It goes through all units.
func (i *Info) InlinedNamed(match func(name []byte) bool) (found []Inlining) {
	defer i.recovered(debug.SetPanicOnFault(true))
	if !i.ready() {
		return nil
	}
	touch(i.data, i.sections.abbrev)
	f := inlineFinder{reader: newReader(i, 1), withParams: true}
	wanted := map[uint64][]int{}
	var where []uint64 // of units that may have instances
	f.namedSup(match, wanted)
	// In a damaged file all units could have the same large table.
	work := tableWork(i.sections)
	for _, unit := range i.units.all() {
		opened := f.open(unit.unit)
		if opened {
			work -= f.unit.abbrevs.bytes
		}
		if work < 0 {
			break
		}
		if !opened {
			continue
		}
		if some := f.named(match, wanted); some || f.foreign() {
			where = append(where, unit.unit)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	for _, unit := range where {
		if f.open(unit) {
			f.wanted = wanted
			f.walk(func(_ int, at Inlining) { found = append(found, at) })
		}
	}
	return found
}

// tableWork is how many bytes of abbreviations a walk over all units may read.
func tableWork(s *sections) int { return 64*(len(s.info)+len(s.abbrev)) + 1<<20 }

// namedSup adds such functions of the supplementary file.
func (f *inlineFinder) namedSup(match func([]byte) bool, wanted map[uint64][]int) {
	s := f.reader.info.sections.sup
	if s == nil {
		return
	}
	work := tableWork(s)
	for _, where := range f.reader.info.supUnits.all() {
		if f.unit = f.reader.foreign.open(s, where.unit); f.unit == nil {
			continue
		}
		if work -= f.unit.abbrevs.bytes; work < 0 {
			return
		}
		f.named(match, wanted)
	}
}

// An inlineFinder goes through units for instances of some functions.
type inlineFinder struct {
	reader *reader
	unit   *unit
	wanted map[uint64][]int // by the entry of which they are instances
	stack  []nested
	// How many entries the walk of the unit may visit: each at most twice, as
	// one of a function and of the function that it is inside of. In a damaged
	// file functions could be inside of each other without end.
	visits int

	function   uint64 // that is being walked
	withParams bool
	frames     *frameTable // nil until it is needed
}

// A nested is a function or inlined function that the walk is in.
type nested struct {
	entry entry
	depth int
	apart bool // within a function of its own, which has its own walk
}

func (f *inlineFinder) open(off uint64) bool {
	f.unit = f.reader.units.open(f.reader.info.sections, off)
	f.wanted = map[uint64][]int{}
	return f.unit != nil
}

// origin returns the entry that the function at addr and its inlined copies are
// instances of. A function without one was nowhere inlined.
func (f *inlineFinder) origin(addr uint64) (uint64, bool) {
	off, ok := f.unit.function(addr)
	if !ok {
		return 0, false
	}
	c := f.unit.cursor(off)
	a := f.unit.abbrevs.find(c.uleb())
	if a == nil {
		return 0, false
	}
	e := f.unit.entry(&c, a)
	return f.unit.reference(e.origin)
}

// foreign reports whether the unit has instances of functions of other units, as
// link-time optimisation makes them.
func (f *inlineFinder) foreign() bool {
	t := &f.unit.abbrevs
	for i := range t.abbrevs {
		if t.abbrevs[i].role == roleInlined && slices.ContainsFunc(t.of(&t.abbrevs[i]), func(attr attribute) bool {
			return attr.name == attrAbstractOrigin && slices.Contains(foreignForms, attr.form)
		}) {
			return true
		}
	}
	return false
}

// foreignForms are those of references to other units.
var foreignForms = []uint16{formRefAddr, formGNURefAlt, formRefSup4, formRefSup8}

// named adds the functions of such a name that have no addresses of their own.
func (f *inlineFinder) named(match func([]byte) bool, wanted map[uint64][]int) (some bool) {
	u := f.unit
	c := u.cursor(uint64(u.root))
	root := u.abbrevs.find(c.uleb())
	if root == nil || !root.children {
		return false
	}
	u.skip(&c, root)
	for depth := 0; depth >= 0 && c.pos < len(c.b); {
		off := u.sections.bias | uint64(c.pos)
		code := c.uleb()
		if code == 0 {
			depth--
			continue
		}
		a := u.abbrevs.find(code)
		if a == nil {
			return some
		}
		if a.role == roleFunction && !a.hasPC {
			body := c
			e := u.entry(&body, a)
			if match(u.str(e.name)) {
				wanted[off] = []int{0}
				some = true
			}
		}
		if u.skipTree(&c, a) {
			depth++
		}
	}
	return some
}

// walk finds the instances of what is wanted in all functions of the unit.
func (f *inlineFinder) walk(yield func(index int, at Inlining)) {
	if len(f.wanted) == 0 {
		return
	}
	u := f.unit
	u.refill()
	u.index()
	f.visits = 2 * int(u.end-u.off)
	seen := map[uint64]bool{}
	for _, fn := range u.functions {
		if !seen[fn.entry] { // else its cold part
			seen[fn.entry] = true
			f.walkFunction(fn.entry, yield)
		}
	}
}

func (f *inlineFinder) walkFunction(off uint64, yield func(index int, at Inlining)) {
	u := f.unit
	c := u.cursor(off)
	a := u.abbrevs.find(c.uleb())
	if a == nil {
		return
	}
	f.function = off
	f.stack = append(f.stack[:0], nested{entry: u.entry(&c, a)})
	if !a.children {
		return
	}
	for depth := 1; depth > 0 && c.pos < len(c.b); {
		if f.visits--; f.visits < 0 {
			return
		}
		code := c.uleb()
		if code == 0 {
			if depth--; f.stack[len(f.stack)-1].depth == depth && depth > 0 {
				f.stack = f.stack[:len(f.stack)-1]
			}
			continue
		}
		a := u.abbrevs.find(code)
		if a == nil {
			return
		}
		if a.role != roleInlined && a.role != roleBlock {
			if u.skipTree(&c, a) {
				if a.role == roleFunction {
					f.stack = append(f.stack, nested{depth: depth, apart: true})
				}
				depth++
			}
			continue
		}
		apart := f.stack[len(f.stack)-1].apart
		if a.role == roleInlined && !apart {
			body := c
			e := u.entry(&body, a)
			if origin, ok := u.reference(e.origin); ok && len(f.wanted[origin]) > 0 && !f.split(&e, origin) {
				for _, index := range f.wanted[origin] {
					yield(index, f.inlining(c, a, &e))
				}
			}
			if a.children {
				f.stack = append(f.stack, nested{e, depth, false})
			}
		}
		u.skip(&c, a)
		if a.children {
			depth++
		}
	}
}

// split reports whether what was inlined is the rest of the function that it is
// inside of. gcc cuts the seldom part of a function off to inline the other, and
// may put it back; what looks like a call of itself is where the function is
// declared.
func (f *inlineFinder) split(e *entry, origin uint64) bool {
	if outer, ok := f.unit.reference(f.stack[len(f.stack)-1].entry.origin); !ok || outer != origin {
		return false
	}
	u := f.unitOf(origin)
	if u == nil {
		return false
	}
	c := u.cursor(origin)
	a := u.abbrevs.find(c.uleb())
	if a == nil {
		return false
	}
	for _, attr := range u.abbrevs.of(a) {
		if v := u.read(&c, attr); attr.name == attrDeclLine {
			return v.n == e.callLine.n
		}
	}
	return false
}

// inlining describes an instance; c stands at its attributes.
func (f *inlineFinder) inlining(c cursor, a *abbrev, e *entry) Inlining {
	r, u := f.reader, f.unit
	u.readLines()
	at := r.frame(u, row{file: narrow(e.callFile.n, noFile), line: uint32(e.callLine.n), col: narrow(e.callAt.n, 0)})
	addr, ok := u.entryPC(c, a, e)
	var params []Param
	var moved uint64
	if ok {
		moved = addr + r.info.options.Slide
	}
	if ok && f.withParams {
		params = f.params(c, a, e, addr)
	}
	return Inlining{
		Func:   r.name(u, e),
		Caller: r.name(u, &f.stack[len(f.stack)-1].entry),
		Into:   r.name(u, &f.stack[0].entry),
		Addr:   moved,
		File:   at.File, Line: at.Line, Column: at.Column,
		Params: params,
	}
}

// entryPC returns where the code of an inlined function begins, if it has any.
func (u *unit) entryPC(c cursor, a *abbrev, e *entry) (addr uint64, ok bool) {
	u.scratch = u.spans(u.scratch[:0], &e.extent)
	var base uint64
	if ok = len(u.scratch) > 0; ok {
		base = u.scratch[0].lo
	}
	attributes := u.abbrevs.of(a)
	n := slices.IndexFunc(attributes, func(attr attribute) bool { return attr.name == attrEntryPC })
	if n < 0 {
		return base, ok
	}
	var v value
	for _, attr := range attributes[:n+1] {
		v = u.read(&c, attr)
	}
	if addr, ok := u.address(v); ok {
		return addr, true
	}
	return base + v.n, ok // DWARF 5 allows for an offset
}
