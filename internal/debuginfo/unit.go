// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"fmt"
	"slices"
)

// A unit is a contribution to .debug_info, usually a source file with everything that it
// includes. Its parts are read on first use. Its buffers are reused for the next unit.
type unit struct {
	formSizes
	main     *sections // of the file, or of the skeleton if the unit is elsewhere
	key      uint64    // offset of the unit in its .debug_info
	sections *sections
	off, end uint64 // in .debug_info
	root     int    // position of the root entry
	kind     uint8
	abbrevAt uint64

	abbrevs abbrevTable

	// From the root entry.
	name, compDir      []byte
	lowPC              uint64
	stmtList           uint64
	hasLines           bool
	plain              bool // the language has no nested functions
	strOffsetsBase     uint64
	addrBase           uint64
	rnglistsBase       uint64
	loclistsBase       uint64
	rangesBase         uint64 // of halves before DWARF 5
	dwoName            []byte
	dwoID              uint64
	rootEntry          entry
	functions          []function
	overlap, haveIndex bool
	opened             bool // by a cache
	cache              *unitCache
	charged            uint64 // bytes of room that the buffers have taken
	lines              lineTable
	scratch            []span
	depths             []int // nesting of the chain's entries
	budget             int   // range list entries that may still be read
}

// A unitCache keeps the units used last, newest first.
type unitCache struct {
	capacity int
	units    []*unit
}

// A function covers addresses; its entry is at off. A function with a cold part occurs
// twice.
type function struct {
	span
	entry uint64
}

// header reads the header of the unit at off. It touches one page of the file.
func (u *unit) header(s *sections, off uint64) bool {
	u.sections, u.off, u.haveIndex, u.dwoID = s, off, false, 0
	u.lines.reset()
	c := at(s.info, off)
	end, offsetSize := c.length()
	u.end, u.offsetSize = uint64(end), offsetSize
	c.b = c.b[:end]
	u.version = c.u16()
	switch {
	case u.version >= 2 && u.version <= 4:
		u.kind = unitCompile
		u.abbrevAt = c.sized(offsetSize)
		u.addrSize = c.u8()
	case u.version == 5:
		u.kind = c.u8()
		u.addrSize = c.u8()
		u.abbrevAt = c.sized(offsetSize)
		switch u.kind {
		case unitSkeleton, unitSplitCompile:
			u.dwoID = c.u64() // both halves have it
		case unitType, unitSplitType:
			c.skip(8 + uint64(offsetSize))
		}
	default:
		return false
	}
	u.root = c.pos
	return !c.bad && (u.addrSize == 8 || u.addrSize == 4)
}

// open reads the unit at off up to its root entry.
func (u *unit) open(s *sections, off uint64) bool {
	u.main, u.key = s, off
	if !u.header(s, off) || !u.abbrevs.parse(s.abbrev, u.abbrevAt, u.formSizes, 0) || !u.readRoot() {
		return false
	}
	u.charge()
	return s.halves == nil || u.dwoName == nil || u.openHalf()
}

// openRoot is open for units of which only the root entry is wanted. It reads a single
// abbreviation.
func (u *unit) openRoot(s *sections, off uint64) bool {
	u.main, u.key = s, off
	if !u.header(s, off) {
		return false
	}
	c := u.cursor(uint64(u.root))
	code := c.uleb()
	return u.abbrevs.parse(s.abbrev, u.abbrevAt, u.formSizes, code) && u.readRoot()
}

// cursor returns a cursor that cannot leave the unit.
func (u *unit) cursor(off uint64) cursor { return at(u.sections.info[:u.end], off&(1<<biasBits-1)) }

// holds reports whether a reference leads into the unit.
func (u *unit) holds(off uint64) bool {
	off ^= u.sections.bias
	return off >= u.off && off < u.end
}

// readRoot reads the root entry: names, line program and bases.
func (u *unit) readRoot() bool {
	c := u.cursor(uint64(u.root))
	a := u.abbrevs.find(c.uleb())
	if a == nil {
		return false
	}
	// Without a base, offsets start after the header of the section's first part.
	u.strOffsetsBase, u.addrBase = 2*uint64(u.offsetSize), 8
	u.rnglistsBase, u.loclistsBase = 4+2*uint64(u.offsetSize), 4+2*uint64(u.offsetSize)
	if u.version < 5 { // GNU's parts have no header
		u.strOffsetsBase, u.addrBase = 0, 0
	}
	u.rangesBase, u.dwoName = 0, nil
	u.refill()
	u.name, u.compDir, u.hasLines, u.lowPC, u.plain = nil, nil, false, 0, false
	var name, compDir, dwoName value
	u.rootEntry = entry{}
	for _, attr := range u.abbrevs.of(a) {
		v := u.read(&c, attr)
		switch attr.name {
		case attrName:
			name = v
		case attrCompDir:
			compDir = v
		case attrStmtList:
			u.stmtList, u.hasLines = v.n, true
		case attrLanguage:
			u.plain = plainC(v.n)
		case attrStrOffsetsBase:
			u.strOffsetsBase = v.n
		case attrAddrBase:
			u.addrBase = v.n
		case attrRnglistsBase:
			u.rnglistsBase = v.n
		case attrLoclistsBase:
			u.loclistsBase = v.n
		case attrDwoName, attrGNUDwoName:
			dwoName = v
		case attrGNUDwoID:
			u.dwoID = v.n
		case attrGNURangesBase:
			u.rangesBase = v.n
		case attrGNUAddrBase:
			u.addrBase = v.n
		default:
			u.rootEntry.set(attr.name, v)
		}
	}
	// This comes after the loop because bases may come last.
	u.name, u.compDir, u.dwoName = u.str(name), u.str(compDir), u.str(dwoName)
	u.lowPC, _ = u.address(u.rootEntry.low)
	return !c.bad
}

// An extent is what an entry says about the addresses that it covers.
type extent struct{ low, high, ranges value }

// An entry is what look-ups need of a debugging information entry.
type entry struct {
	extent
	name, linkage              value
	origin, specified          value
	callFile, callLine, callAt value
}

// set stores an attribute that look-ups need, and ignores others.
func (e *entry) set(name uint16, v value) {
	switch name {
	case attrLowPC:
		e.low = v
	case attrHighPC:
		e.high = v
	case attrRanges:
		e.ranges = v
	case attrName:
		e.name = v
	case attrLinkageName, attrMIPSLinkage:
		e.linkage = v
	case attrAbstractOrigin:
		e.origin = v
	case attrSpecification:
		e.specified = v
	case attrCallFile:
		e.callFile = v
	case attrCallLine:
		e.callLine = v
	case attrCallColumn:
		e.callAt = v
	}
}

// entry reads the attributes at the cursor.
func (u *unit) entry(c *cursor, a *abbrev) entry {
	var e entry
	for _, attr := range u.abbrevs.of(a) {
		e.set(attr.name, u.read(c, attr))
	}
	return e
}

// extent reads those attributes at the cursor that say which addresses the entry covers.
func (u *unit) extent(c cursor, a *abbrev) extent {
	var x extent
	for _, attr := range u.abbrevs.of(a) {
		v := u.read(&c, attr)
		switch attr.name {
		case attrLowPC:
			x.low = v
		case attrHighPC:
			x.high = v
		case attrRanges:
			x.ranges = v
		}
	}
	if c.bad {
		return extent{}
	}
	return x
}

// index finds the functions of the unit.
func (u *unit) index() {
	if u.haveIndex {
		return
	}
	u.haveIndex, u.overlap = true, false
	u.functions = u.functions[:0]
	c := u.cursor(uint64(u.root))
	root := u.abbrevs.find(c.uleb())
	if root == nil || !u.abbrevs.code {
		return
	}
	u.skip(&c, root)
	if root.children {
		u.walkTop(c)
	}
	slices.SortFunc(u.functions, func(a, b function) int {
		if a.lo != b.lo {
			return compare(a.lo, b.lo)
		}
		return compare(a.entry, b.entry)
	})
	for i := 1; i < len(u.functions) && !u.overlap; i++ {
		u.overlap = u.functions[i].lo < u.functions[i-1].hi
	}
}

// walkTop walks the entries below the root. Nearly all the time for a unit is spent here,
// so the common entries are skipped inline: those of fixed size, and those that say where
// their children end.
func (u *unit) walkTop(c cursor) {
	deep := !u.plain || u.abbrevs.nested
	depth := 0
	abbrevs := u.abbrevs.abbrevs
	if u.abbrevs.sparse != nil {
		abbrevs = nil // the codes are not indexes
	}
	b, pos := c.b, c.pos
	for pos < len(b) {
		off := pos
		code := uint64(b[off])
		if pos++; code >= 0x80 {
			c.pos = off
			code = c.uleb()
			pos = c.pos
		}
		if code == 0 {
			if depth--; depth < 0 {
				return
			}
			continue
		}
		var a *abbrev
		if code-1 < uint64(len(abbrevs)) {
			a = &abbrevs[code-1]
		} else if a = u.abbrevs.find(code); a == nil {
			return
		}
		c.pos = pos
		switch a.step {
		case stepFixed:
			if int(a.fixed) <= len(b)-pos {
				pos += int(a.fixed)
				continue
			}
		case stepSibling:
			if deep {
				break
			}
			if next, ok := u.sibling(b, pos, a); ok {
				pos = next
				continue
			}
		case stepFunction:
			u.addFunction(c, a, uint64(off))
		}
		if deep {
			u.skip(&c, a)
			if a.children {
				depth++
			}
		} else if u.skipTree(&c, a) {
			depth++
		}
		pos = c.pos
	}
}

// addFunction adds the addresses that the entry at off covers. A cold part makes a
// second span.
func (u *unit) addFunction(c cursor, a *abbrev, off uint64) {
	x := u.extent(c, a)
	u.scratch = u.spans(u.scratch[:0], &x)
	for _, s := range u.scratch {
		if grow(&u.functions) {
			u.charge()
		}
		u.functions = append(u.functions, function{s, off})
	}
}

// function returns the offset of the entry that covers the address. Of several the last
// counts, which is the innermost.
func (u *unit) function(addr uint64) (off uint64, ok bool) {
	u.refill()
	u.index()
	n, _ := slices.BinarySearchFunc(u.functions, addr, func(f function, addr uint64) int {
		if f.lo <= addr {
			return -1
		}
		return 1
	})
	for i := n - 1; i >= 0; i-- {
		if f := &u.functions[i]; f.contains(addr) && (!ok || f.entry > off) {
			off, ok = f.entry, true
		}
		if !u.overlap {
			break
		}
	}
	return off, ok
}

// chain appends the entries that cover the address: the function first, and then each
// inlined call inside the previous one.
func (u *unit) chain(dst []entry, fn, addr uint64) []entry {
	c := u.cursor(fn)
	a := u.abbrevs.find(c.uleb())
	if a == nil {
		return dst
	}
	dst = append(dst, u.entry(&c, a))
	if !a.children {
		return dst
	}
	u.depths = u.depths[:0]
	u.refill()
	for depth := 1; depth > 0 && c.pos < len(c.b); {
		code := c.uleb()
		if code == 0 {
			depth--
			continue
		}
		if a = u.abbrevs.find(code); a == nil {
			break
		}
		var inside bool
		if dst, inside = u.step(dst, &c, a, addr, depth); inside {
			depth++
		}
	}
	return dst
}

// step handles one entry of a function's tree. It descends to the children if they may
// cover the address, and otherwise skips them.
func (u *unit) step(dst []entry, c *cursor, a *abbrev, addr uint64, depth int) ([]entry, bool) {
	if a.role != roleInlined && a.role != roleBlock {
		return dst, u.skipTree(c, a)
	}
	if !a.hasPC { // a block without addresses of its own
		u.skip(c, a)
		return dst, a.children
	}
	x := u.extent(*c, a)
	u.scratch = u.spans(u.scratch[:0], &x)
	if !slices.ContainsFunc(u.scratch, func(s span) bool { return s.contains(addr) }) {
		return dst, u.skipTree(c, a)
	}
	e := u.entry(c, a)
	if a.role == roleBlock {
		return dst, a.children
	}
	// Entries found next to this one, or below its siblings, no longer count.
	for n := len(u.depths); n > 0 && u.depths[n-1] >= depth; n-- {
		u.depths, dst = u.depths[:n-1], dst[:len(dst)-1]
	}
	u.depths = append(u.depths, depth)
	if len(dst) > mostChain {
		panic(refusal{fmt.Errorf("more than %d calls are inlined into each other", mostChain)})
	}
	return append(dst, e), a.children
}
