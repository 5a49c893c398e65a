// SPDX-License-Identifier: Apache-2.0

package debuginfo

import "fmt"

// spans appends the addresses that an entry covers.
func (u *unit) spans(dst []span, e *extent) []span {
	if e.low.form != 0 && e.high.form != 0 {
		lo, ok := u.address(e.low)
		if !ok {
			return dst
		}
		hi, ok := u.address(e.high)
		if !ok {
			hi = lo + e.high.n
		}
		return u.add(dst, lo, hi)
	}
	switch e.ranges.form {
	case 0:
		return dst
	case formRnglistx:
		// An index into the offsets that start at the base, relative to the base.
		if e.ranges.n > uint64(len(u.sections.rnglists)) {
			return dst
		}
		c := at(u.sections.rnglists, u.rnglistsBase)
		c.skip(e.ranges.n * uint64(u.offsetSize))
		off := c.sized(u.offsetSize)
		if c.bad {
			return dst
		}
		return u.rnglist(dst, u.rnglistsBase+off)
	}
	if u.version >= 5 {
		return u.rnglist(dst, e.ranges.n)
	}
	if u.sections != u.main {
		return u.rangesV4(dst, u.rangesBase+e.ranges.n)
	}
	return u.rangesV4(dst, e.ranges.n)
}

// add appends a span unless the linker dropped its code. It relocates such spans to 0 or,
// since LLVM 11, to the highest address.
func (u *unit) add(dst []span, lo, hi uint64) []span {
	if lo >= hi || lo == 0 && !u.main.relocatable || lo >= u.tombstone() {
		return dst
	}
	if len(dst) == mostSpans {
		panic(refusal{fmt.Errorf("an entry has more than %d ranges of addresses", mostSpans)})
	}
	return append(dst, span{lo, hi})
}

// tombstone returns the lowest address that marks dropped code. LLVM uses the highest
// address, and in .debug_ranges the one below it.
func (u *unit) tombstone() uint64 {
	if u.addrSize == 4 {
		return 0xfffffffe
	}
	return 0xfffffffffffffffe
}

// rnglist appends the ranges of a list in .debug_rnglists.
func (u *unit) rnglist(dst []span, off uint64) []span {
	c := at(u.sections.rnglists, off)
	base, haveBase := u.lowPC, true
	for !c.bad && u.spend() {
		var lo, hi uint64
		ok := true
		switch c.u8() {
		case rangeEndOfList:
			return dst
		case rangeBaseAddressx:
			base, haveBase = u.indexed(c.uleb())
			continue
		case rangeStartxEndx:
			var okHi bool
			lo, ok = u.indexed(c.uleb())
			hi, okHi = u.indexed(c.uleb())
			ok = ok && okHi
		case rangeStartxLength:
			lo, ok = u.indexed(c.uleb())
			hi = lo + c.uleb()
		case rangeOffsetPair:
			lo = base + c.uleb()
			hi = base + c.uleb()
			ok = haveBase && base < u.tombstone()
		case rangeBaseAddress:
			base, haveBase = c.sized(u.addrSize), true
			continue
		case rangeStartEnd:
			lo = c.sized(u.addrSize)
			hi = c.sized(u.addrSize)
		case rangeStartLength:
			lo = c.sized(u.addrSize)
			hi = lo + c.uleb()
		default:
			return dst
		}
		if ok && !c.bad {
			dst = u.add(dst, lo, hi)
		}
	}
	return dst
}

// rangesV4 appends the ranges of a list in .debug_ranges.
func (u *unit) rangesV4(dst []span, off uint64) []span {
	c := at(u.main.ranges, off)
	base := u.lowPC
	most := uint64(0xffffffffffffffff)
	if u.addrSize == 4 {
		most = 0xffffffff
	}
	for u.spend() {
		lo, hi := c.sized(u.addrSize), c.sized(u.addrSize)
		switch {
		case c.bad || lo == 0 && hi == 0:
			return dst
		case lo == most:
			base = hi
		case base < u.tombstone():
			dst = u.add(dst, base+lo, base+hi)
		}
	}
	return dst
}

// refill sets how many range list entries a walk over the unit may read: as many as there
// can be if no list is shared. In a damaged file, many entries could refer to the same long
// list.
func (u *unit) refill() {
	u.budget = rangeEntries(u.sections)
	if u.sections != u.main {
		u.budget += rangeEntries(u.main)
	}
}

// rangeEntries bounds the number of entries in all range lists.
func rangeEntries(s *sections) int {
	return len(s.rnglists)/2 + len(s.ranges)/8 + len(s.loclists)/2 + len(s.loc)/8 + 1<<10
}

// spend takes one range list entry from the budget. It returns false if none is left.
func (u *unit) spend() bool {
	u.budget--
	return u.budget >= 0
}
