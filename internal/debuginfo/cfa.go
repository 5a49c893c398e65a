// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"slices"

	"github.com/ksnoop/ksnoop/internal/dw"
)

// A rule says where a function's frame starts, its canonical frame address (CFA): an offset
// in bytes from a register.
type rule struct {
	reg    uint64
	offset int64
}

// A commonEntry (CIE) is what several entries of .debug_frame share.
type commonEntry struct {
	codeAlign uint64
	dataAlign int64
	initial   []byte // its initial instructions
	ok        bool
}

// A frameTable has what .debug_frame says about functions.
type frameTable struct {
	section  []byte
	addrSize uint8
	frames   []frameEntry // sorted by address
	commons  map[uint64]commonEntry
	// budget is how many bytes of instructions may still be run. In a damaged file, all
	// code could share one entry of any length.
	budget int
}

// A frameEntry (FDE) describes the code at a range of addresses. Its instructions are at
// off.
type frameEntry struct {
	span
	off, end int
	common   uint64
}

// newFrameTable indexes the entries of .debug_frame. It reads no instructions.
func newFrameTable(section []byte, addrSize uint8) *frameTable {
	t := &frameTable{section: section, addrSize: addrSize, commons: map[uint64]commonEntry{}, budget: 64*len(section) + 1<<20}
	for c := at(section, 0); c.pos < len(c.b); {
		end, offsetSize := c.length()
		if c.bad {
			break
		}
		body := cursor{b: c.b[:end], pos: c.pos}
		c.pos = end
		id := body.sized(offsetSize)
		lo, n := body.sized(addrSize), body.sized(addrSize)
		if common := uint64(1)<<(8*offsetSize) - 1; body.bad || id == common || n == 0 {
			continue
		}
		t.frames = append(t.frames, frameEntry{span{lo, lo + n}, body.pos, end, id})
	}
	slices.SortFunc(t.frames, func(a, b frameEntry) int { return compare(a.lo, b.lo) })
	return t
}

// cfa returns the rule for the frame at addr. ok is false if there is none, or none that a
// register and an offset express.
func (t *frameTable) cfa(addr uint64) (rule, bool) {
	n, _ := slices.BinarySearchFunc(t.frames, addr, func(f frameEntry, addr uint64) int {
		if f.lo <= addr {
			return -1
		}
		return 1
	})
	if n == 0 || !t.frames[n-1].contains(addr) {
		return rule{}, false
	}
	entry := &t.frames[n-1]
	common, known := t.commons[entry.common]
	if !known {
		common = t.common(entry.common)
		t.commons[entry.common] = common
	}
	t.budget -= len(common.initial) + entry.end - entry.off
	if !common.ok || t.budget < 0 {
		return rule{}, false
	}
	f := frameRules{common: common}
	f.run(cursor{b: common.initial}, ^uint64(0))
	f.pc = entry.lo
	f.run(cursor{b: t.section[:entry.end], pos: entry.off}, addr)
	return f.cfa, f.known && !f.bad
}

// common reads the common entry at off.
func (t *frameTable) common(off uint64) commonEntry {
	c := at(t.section, off)
	end, offsetSize := c.length()
	c.b = c.b[:end]
	c.skip(uint64(offsetSize))
	version := c.u8()
	augmentation := c.text()
	if version >= 4 {
		if c.u8() != t.addrSize || c.u8() != 0 {
			return commonEntry{}
		}
	}
	e := commonEntry{codeAlign: c.uleb(), dataAlign: c.sleb()}
	if version == 1 {
		c.u8()
	} else {
		c.uleb()
	}
	// An augmentation may change the meaning of anything.
	e.ok = !c.bad && len(augmentation) == 0
	e.initial = c.b[c.pos:]
	return e
}

// frameRules runs the instructions of an entry, as far as they define the CFA.
type frameRules struct {
	common   commonEntry
	pc       uint64
	cfa      rule
	known    bool // not computed by an expression
	remember []rule
	bad      bool
}

// run executes instructions up to those for addresses after until.
func (f *frameRules) run(c cursor, until uint64) {
	for !f.bad && !c.bad && c.pos < len(c.b) {
		op := c.u8()
		switch op & 0xc0 {
		case dw.CFAAdvanceLoc:
			f.pc += uint64(op&0x3f) * f.common.codeAlign
		case dw.CFAOffset:
			c.uleb()
		case dw.CFARestore:
		default:
			f.step(op, &c)
		}
		if f.pc > until {
			return
		}
	}
	f.bad = f.bad || c.bad
}

// step executes one instruction.
func (f *frameRules) step(op uint8, c *cursor) {
	switch op {
	case dw.CFANop, dw.CFANegateRAState, dw.CFANegateRAStateWithPC:
	case dw.CFASetLoc:
		f.bad = true // no compiler of a kernel emits it
	case dw.CFAAdvanceLoc1:
		f.pc += uint64(c.u8()) * f.common.codeAlign
	case dw.CFAAdvanceLoc2:
		f.pc += uint64(c.u16()) * f.common.codeAlign
	case dw.CFAAdvanceLoc4:
		f.pc += uint64(c.u32()) * f.common.codeAlign
	case dw.CFARestoreExtended, dw.CFAUndefined, dw.CFASameValue, dw.CFAGNUArgsSize:
		c.uleb()
	case dw.CFAOffsetExtended, dw.CFARegister, dw.CFAValOffset, dw.CFAOffsetExtendedSF, dw.CFAValOffsetSF:
		c.uleb()
		c.uleb() // signed numbers are as long
	case dw.CFAExpression, dw.CFAValExpression:
		c.uleb()
		c.skip(c.uleb())
	case dw.CFARememberState:
		f.remember = append(f.remember, f.cfa)
	case dw.CFARestoreState:
		if n := len(f.remember); n > 0 {
			f.cfa, f.remember = f.remember[n-1], f.remember[:n-1]
		} else {
			f.bad = true
		}
	case dw.CFADefCFA:
		f.cfa, f.known = rule{c.uleb(), int64(c.uleb())}, true
	case dw.CFADefCFASF:
		f.cfa, f.known = rule{c.uleb(), c.sleb() * f.common.dataAlign}, true
	case dw.CFADefCFARegister:
		f.cfa.reg = c.uleb()
	case dw.CFADefCFAOffset:
		f.cfa.offset = int64(c.uleb())
	case dw.CFADefCFAOffsetSF:
		f.cfa.offset = c.sleb() * f.common.dataAlign
	default: // among others, an expression for the CFA
		f.bad = true
	}
}
