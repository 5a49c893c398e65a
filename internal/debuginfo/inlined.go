// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"runtime/debug"
	"slices"
)

// An Inlining is a place where the compiler inlined a function.
type Inlining struct {
	Func   string // the inlined function
	Caller string // its caller in the source, which may be inlined too
	Into   string // the function that contains the code
	Addr   uint64 // where its code starts, with the slide; 0 if the compiler left none
	// Where the source has the call.
	File         string
	Line, Column uint32
	// Params are the function's parameters, and where they are at Addr.
	Params []Param
}

// Inlined returns, for each address of a function, where else in its unit the function was
// inlined. Such calls never reach the address. params says whether to look up where the
// parameters are.
func (i *Info) Inlined(addrs []uint64, params bool) (results [][]Inlining) {
	defer i.recovered(debug.SetPanicOnFault(true))
	results = make([][]Inlining, len(addrs))
	if !i.ready() {
		return results
	}
	f := inlineFinder{reader: newReader(i, 1), withParams: params}
	defer f.reader.release()
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

// Definition returns the file and line of the definition of the function at an address.
func (i *Info) Definition(addr uint64) (file string, line uint32, ok bool) {
	defer i.recovered(debug.SetPanicOnFault(true))
	if !i.ready() {
		return "", 0, false
	}
	addr -= i.options.slide
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

// InlinedNamed returns all places where functions with matching names were inlined. It
// walks all units.
func (i *Info) InlinedNamed(match func(name []byte) bool) (found []Inlining) {
	defer i.recovered(debug.SetPanicOnFault(true))
	if !i.ready() {
		return nil
	}
	touch(i.data, i.sections.abbrev)
	f := inlineFinder{reader: newReader(i, 1), withParams: true}
	defer f.reader.release()
	wanted := map[uint64][]int{}
	var where []uint64 // units that may have instances
	f.namedSup(match, wanted)
	// In a damaged file, all units could use the same large table.
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

// namedSup adds the matching functions of the supplementary file.
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

// An inlineFinder walks units for instances of some functions.
type inlineFinder struct {
	reader *reader
	unit   *unit
	wanted map[uint64][]int // indexes by the entry that they are instances of
	stack  []nested
	// visits is how many entries the walk of the unit may still visit. Each is visited
	// twice at most: as part of a function and of the function around that. In a damaged
	// file, functions could contain each other endlessly.
	visits int

	function   uint64 // the function being walked
	withParams bool
	frames     *frameTable // nil until needed
}

// A nested is a function or inlined function that the walk is inside of.
type nested struct {
	entry entry
	depth int
	apart bool // inside a function that has a walk of its own
}

func (f *inlineFinder) open(off uint64) bool {
	f.unit = f.reader.units.open(f.reader.info.sections, off)
	f.wanted = map[uint64][]int{}
	return f.unit != nil
}

// origin returns the entry that the function at addr and its inlined copies are instances
// of. A function without one was never inlined.
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

// foreign reports whether the unit has instances of functions of other units. Link-time
// optimisation produces these.
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

// foreignForms are the forms of references to other units.
var foreignForms = []uint16{formRefAddr, formGNURefAlt, formRefSup4, formRefSup8}

// named adds the functions with matching names that have no addresses of their own.
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

// walk finds instances of the wanted functions in all functions of the unit.
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
		if !seen[fn.entry] { // otherwise it is the cold part of a function
			seen[fn.entry] = true
			f.walkFunction(fn.entry, yield)
		}
	}
}

// walkFunction finds instances in the function at off.
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

// split reports whether an instance is just the rest of the function around it. gcc may cut
// off the rarely run part of a function in order to inline the rest, and later put it back.
// It then looks like a call of the function in itself, at its own declaration.
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

// inlining describes an instance. c is at its attributes.
func (f *inlineFinder) inlining(c cursor, a *abbrev, e *entry) Inlining {
	r, u := f.reader, f.unit
	u.readLines()
	at := r.frame(u, row{file: narrow(e.callFile.n, noFile), line: uint32(e.callLine.n), col: narrow(e.callAt.n, 0)})
	addr, ok := u.entryPC(c, a, e)
	var params []Param
	var moved uint64
	if ok {
		moved = addr + r.info.options.slide
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

// entryPC returns where the code of an inlined function starts. ok is false if it has no
// code.
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
	return base + v.n, ok // DWARF 5 allows an offset here
}
