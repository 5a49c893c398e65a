// SPDX-License-Identifier: Apache-2.0

package unwind

import "github.com/ksnoop/ksnoop/internal/dw"

// mostRemembered bounds the states that a damaged entry can remember.
const mostRemembered = 64

// A common is what several entries share (CIE).
type common struct {
	codeAlign uint64
	dataAlign int64
	address   uint8 // the column of the return address
	encoding  uint8 // of pointers
	augmented bool  // entries have a block before their instructions
	signal    bool
	initial   cursor // its instructions
}

// A state runs instructions.
type state struct {
	machine *Machine
	pointer func(*cursor) uint64 // reads an address
	common  *common
	row     Row
	initial Row // after the instructions of the CIE
	kept    []Row
	pc      uint64
	left    *int // see mostSteps
}

// run executes instructions up to those for addresses after until. It reports whether all of
// them make sense.
func (s *state) run(c cursor, until uint64) bool {
	for c.more() {
		if *s.left--; *s.left < 0 {
			return false
		}
		op := c.byte()
		low := op & 0x3f
		ok := true
		switch op & 0xc0 {
		case dw.CFAAdvanceLoc:
			s.pc += uint64(low) * s.common.codeAlign
		case dw.CFAOffset:
			ok = s.set(uint64(low), rule{kind: offset, off: int64(c.uleb()) * s.common.dataAlign})
		case dw.CFARestore:
			ok = s.restore(uint64(low))
		default:
			ok = s.step(op, &c)
		}
		if !ok {
			return false
		}
		if s.pc > until {
			return true
		}
	}
	return !c.bad
}

// set sets the rule of a register. Rules of registers that nobody asks for, as those of vectors,
// are dropped.
func (s *state) set(reg uint64, r rule) bool {
	if reg < uint64(s.machine.registers) {
		s.row.regs[reg] = r
	}
	return true
}

func (s *state) restore(reg uint64) bool {
	if reg < MaxRegisters {
		s.row.regs[reg] = s.initial.regs[reg]
	}
	return true
}

// step executes an instruction that is a whole byte.
func (s *state) step(op uint8, c *cursor) bool {
	align := s.common.dataAlign
	switch op {
	case dw.CFANop, dw.CFANegateRAState, dw.CFANegateRAStateWithPC: // signatures are masked, whether there or not
	case dw.CFAGNUArgsSize:
		c.uleb()
	case dw.CFASetLoc:
		s.pc = s.pointer(c)
	case dw.CFAAdvanceLoc1, dw.CFAAdvanceLoc2, dw.CFAAdvanceLoc4:
		s.pc += c.number(1<<(op-dw.CFAAdvanceLoc1)) * s.common.codeAlign
	case dw.CFARestoreExtended:
		return s.restore(c.uleb())
	case dw.CFAUndefined:
		return s.set(c.uleb(), rule{kind: undefined})
	case dw.CFASameValue:
		return s.set(c.uleb(), rule{kind: same})
	case dw.CFAOffsetExtended:
		return s.set(c.uleb(), rule{kind: offset, off: int64(c.uleb()) * align})
	case dw.CFAOffsetExtendedSF:
		return s.set(c.uleb(), rule{kind: offset, off: c.sleb() * align})
	case dw.CFAGNUNegativeOffset:
		return s.set(c.uleb(), rule{kind: offset, off: -int64(c.uleb()) * align})
	case dw.CFAValOffset:
		return s.set(c.uleb(), rule{kind: valOffset, off: int64(c.uleb()) * align})
	case dw.CFAValOffsetSF:
		return s.set(c.uleb(), rule{kind: valOffset, off: c.sleb() * align})
	case dw.CFARegister:
		reg, from := c.uleb(), c.uleb()
		return from < uint64(s.machine.registers) && s.set(reg, rule{kind: register, reg: uint8(from)})
	case dw.CFAExpression:
		return s.set(c.uleb(), block(c, expression))
	case dw.CFAValExpression:
		return s.set(c.uleb(), block(c, valExpression))
	case dw.CFARememberState:
		s.kept = append(s.kept, s.row)
		return len(s.kept) <= mostRemembered
	case dw.CFARestoreState:
		if len(s.kept) == 0 {
			return false
		}
		s.row, s.kept = s.kept[len(s.kept)-1], s.kept[:len(s.kept)-1]
	default:
		return s.defineCFA(op, c)
	}
	return true
}

// defineCFA executes an instruction that says where the CFA is.
func (s *state) defineCFA(op uint8, c *cursor) bool {
	align := s.common.dataAlign
	cfa := &s.row.cfa
	reg := uint64(cfa.reg)
	switch op {
	case dw.CFADefCFA:
		reg = c.uleb()
		*cfa = rule{kind: regOffset, off: int64(c.uleb())}
	case dw.CFADefCFASF:
		reg = c.uleb()
		*cfa = rule{kind: regOffset, off: c.sleb() * align}
	case dw.CFADefCFARegister:
		reg = c.uleb()
		cfa.kind = regOffset
	case dw.CFADefCFAOffset:
		cfa.off = int64(c.uleb())
	case dw.CFADefCFAOffsetSF:
		cfa.off = c.sleb() * align
	case dw.CFADefCFAExpression:
		*cfa = block(c, valExpression)
		return true
	default:
		return false
	}
	cfa.reg = uint8(reg)
	return reg < uint64(s.machine.registers) && cfa.kind == regOffset
}

// block reads where an expression is.
func block(c *cursor, k kind) rule {
	size := c.uleb()
	at := c.pos
	c.take(size)
	if c.bad || size > mostExpression {
		c.bad = true
		return rule{kind: undefined}
	}
	return rule{kind: k, off: int64(at), size: uint32(size)}
}
