// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"slices"
	"sync"
)

// A unitSpan says which unit has the code at a range of addresses.
type unitSpan struct {
	span
	unit uint64 // offset in .debug_info
}

// An addressIndex finds units by address.
type addressIndex struct {
	spans   []unitSpan
	overlap bool
}

// sort sorts the spans by address, and those of one address by unit. It notes whether
// any of them overlap.
func (x *addressIndex) sort() {
	byAddress := func(a, b unitSpan) int {
		if a.lo != b.lo {
			return compare(a.lo, b.lo)
		}
		return compare(a.unit, b.unit)
	}
	slices.SortFunc(x.spans, byAddress)
	var end uint64
	for _, s := range x.spans {
		x.overlap = x.overlap || s.lo < end
		end = max(end, s.hi)
	}
}

// find returns the unit of an address. If several units claim it, the first in the file
// wins.
func (x *addressIndex) find(addr uint64) (unit uint64, ok bool) {
	n, _ := slices.BinarySearchFunc(x.spans, addr, func(s unitSpan, addr uint64) int {
		if s.lo <= addr {
			return -1
		}
		return 1
	})
	for i := n - 1; i >= 0; i-- {
		if s := &x.spans[i]; s.contains(addr) && (!ok || s.unit < unit) {
			unit, ok = s.unit, true
		}
		if !x.overlap {
			break
		}
	}
	return unit, ok
}

// A unitIndex finds units. It reads .debug_aranges first, which is small, and the units'
// headers only for addresses that are missing there.
type unitIndex struct {
	sections *sections
	aranges  func() *addressIndex
	others   func() *addressIndex
	all      func() []unitSpan // where each unit is in .debug_info, in order
}

func newUnitIndex(s *sections) *unitIndex {
	x := &unitIndex{sections: s}
	x.aranges = sync.OnceValue(x.readAranges)
	x.others = sync.OnceValue(x.readOthers)
	x.all = sync.OnceValue(x.readHeaders)
	return x
}

// find returns the unit that has the code at an address.
func (x *unitIndex) find(addr uint64) (unit uint64, ok bool) {
	if unit, ok = x.aranges().find(addr); ok {
		return unit, ok
	}
	return x.others().find(addr)
}

// at returns the unit that contains an offset in .debug_info.
func (x *unitIndex) at(off uint64) (unit uint64, ok bool) {
	all := x.all()
	n, _ := slices.BinarySearchFunc(all, off, func(s unitSpan, off uint64) int {
		if s.lo <= off {
			return -1
		}
		return 1
	})
	if n == 0 || !all[n-1].contains(off) {
		return 0, false
	}
	return all[n-1].unit, true
}

// add appends a span, and takes room for it.
func (x *unitIndex) add(spans []unitSpan, s unitSpan) []unitSpan {
	before := bytesOf(spans)
	if grow(&spans) && x.sections.room != nil {
		if err := x.sections.room.take(bytesOf(spans) - before); err != nil {
			panic(refusal{err})
		}
	}
	return append(spans, s)
}

// readAranges indexes .debug_aranges.
func (x *unitIndex) readAranges() *addressIndex {
	index := &addressIndex{}
	c := cursor{b: x.sections.aranges}
	for c.pos < len(c.b) {
		start := c.pos
		end, offsetSize := c.length()
		if c.bad {
			break
		}
		set := cursor{b: c.b[:end], pos: c.pos}
		c.pos = end
		version := set.u16()
		unit := set.sized(offsetSize)
		addrSize, segment := set.u8(), set.u8()
		if version != 2 || segment != 0 || addrSize != 8 && addrSize != 4 {
			continue
		}
		// The first pair is aligned to the size of a pair.
		pair := 2 * int(addrSize)
		set.skip(uint64((pair - (set.pos-start)%pair) % pair))
		for set.pos < end {
			lo := set.sized(addrSize)
			n := set.sized(addrSize)
			if set.bad || lo == 0 && n == 0 {
				break
			}
			if lo == 0 && !x.sections.relocatable || lo+n <= lo {
				continue // the linker dropped this code
			}
			index.spans = x.add(index.spans, unitSpan{span{lo, lo + n}, unit})
		}
	}
	index.sort()
	return index
}

// readHeaders finds all units by their headers. It cannot find units after a damaged
// header.
func (x *unitIndex) readHeaders() []unitSpan {
	var all []unitSpan
	c := cursor{b: x.sections.info}
	for c.pos < len(c.b) {
		start := c.pos
		end, _ := c.length()
		if c.bad {
			break
		}
		all = x.add(all, unitSpan{span{uint64(start), uint64(end)}, uint64(start)})
		c.pos = end
	}
	return all
}

// readOthers indexes the units that .debug_aranges leaves out.
func (x *unitIndex) readOthers() *addressIndex {
	listed := map[uint64]struct{}{}
	for _, s := range x.aranges().spans {
		listed[s.unit] = struct{}{}
	}
	index := &addressIndex{}
	var u unit
	defer u.release()
	// Limits for all units together. In a damaged file, each unit could refer to the same
	// long range list or the same large table of abbreviations.
	entries := rangeEntries(x.sections)
	work := tableWork(x.sections)
	for _, where := range x.all() {
		if _, ok := listed[where.unit]; ok {
			continue
		}
		ok := u.openRoot(x.sections, where.unit)
		if work -= u.abbrevs.bytes + 1; work < 0 {
			break
		}
		if !ok || u.kind == unitType || u.kind == unitPartial {
			continue
		}
		u.budget = entries
		spans := u.spans(nil, &u.rootEntry.extent)
		entries = max(u.budget, 0)
		if len(spans) == 0 && u.open(x.sections, where.unit) {
			// The unit does not say which addresses it has, but its functions do.
			work -= u.abbrevs.bytes
			u.budget = entries
			u.index()
			for _, f := range u.functions {
				spans = append(spans, f.span)
			}
			entries = max(u.budget, 0)
		}
		for _, s := range spans {
			index.spans = x.add(index.spans, unitSpan{s, where.unit})
		}
	}
	index.sort()
	return index
}

// tableWork bounds the bytes of abbreviations that a walk over all units reads.
func tableWork(s *sections) int { return 64*(len(s.info)+len(s.abbrev)) + 1<<20 }
