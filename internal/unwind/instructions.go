// SPDX-License-Identifier: Apache-2.0

package unwind

// Instructions of call frames, from table 7.29 of DWARF 5. The upper two bits of the first
// three are the instruction.
const (
	cfaAdvance           = 0x40
	cfaOffset            = 0x80
	cfaRestore           = 0xc0
	cfaNop               = 0x00
	cfaSetLoc            = 0x01
	cfaAdvance1          = 0x02
	cfaAdvance2          = 0x03
	cfaAdvance4          = 0x04
	cfaOffsetExtended    = 0x05
	cfaRestoreExtended   = 0x06
	cfaUndefined         = 0x07
	cfaSameValue         = 0x08
	cfaRegister          = 0x09
	cfaRememberState     = 0x0a
	cfaRestoreState      = 0x0b
	cfaDefCFA            = 0x0c
	cfaDefCFARegister    = 0x0d
	cfaDefCFAOffset      = 0x0e
	cfaDefCFAExpression  = 0x0f
	cfaExpression        = 0x10
	cfaOffsetExtendedSF  = 0x11
	cfaDefCFASF          = 0x12
	cfaDefCFAOffsetSF    = 0x13
	cfaValOffset         = 0x14
	cfaValOffsetSF       = 0x15
	cfaValExpression     = 0x16
	cfaNegateRAState     = 0x2d // arm64: the return address is signed from here on
	cfaGNUArgsSize       = 0x2e
	cfaGNUNegativeOffset = 0x2f
)

// mostInstructions bounds what is run for one row, in instructions, and mostRemembered the
// states that a damaged entry can remember. The largest entry seen, of a C++ library, has
// some thousands.
const (
	mostInstructions = 1 << 16
	mostRemembered   = 64
)

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
	left    int // instructions
}

// run executes instructions up to those for addresses after until. It reports whether all of
// them make sense.
func (s *state) run(c cursor, until uint64) bool {
	for c.more() {
		if s.left--; s.left < 0 {
			return false
		}
		op := c.byte()
		low := op & 0x3f
		ok := true
		switch op & 0xc0 {
		case cfaAdvance:
			s.pc += uint64(low) * s.common.codeAlign
		case cfaOffset:
			ok = s.set(uint64(low), rule{kind: offset, off: int64(c.uleb()) * s.common.dataAlign})
		case cfaRestore:
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
	case cfaNop, cfaNegateRAState: // signatures are masked, whether there or not
	case cfaGNUArgsSize:
		c.uleb()
	case cfaSetLoc:
		s.pc = s.pointer(c)
	case cfaAdvance1, cfaAdvance2, cfaAdvance4:
		s.pc += c.number(1<<(op-cfaAdvance1)) * s.common.codeAlign
	case cfaRestoreExtended:
		return s.restore(c.uleb())
	case cfaUndefined:
		return s.set(c.uleb(), rule{kind: undefined})
	case cfaSameValue:
		return s.set(c.uleb(), rule{kind: same})
	case cfaOffsetExtended:
		return s.set(c.uleb(), rule{kind: offset, off: int64(c.uleb()) * align})
	case cfaOffsetExtendedSF:
		return s.set(c.uleb(), rule{kind: offset, off: c.sleb() * align})
	case cfaGNUNegativeOffset:
		return s.set(c.uleb(), rule{kind: offset, off: -int64(c.uleb()) * align})
	case cfaValOffset:
		return s.set(c.uleb(), rule{kind: valOffset, off: int64(c.uleb()) * align})
	case cfaValOffsetSF:
		return s.set(c.uleb(), rule{kind: valOffset, off: c.sleb() * align})
	case cfaRegister:
		reg, from := c.uleb(), c.uleb()
		return from < uint64(s.machine.registers) && s.set(reg, rule{kind: register, reg: uint8(from)})
	case cfaExpression:
		return s.set(c.uleb(), block(c, expression))
	case cfaValExpression:
		return s.set(c.uleb(), block(c, valExpression))
	case cfaRememberState:
		s.kept = append(s.kept, s.row)
		return len(s.kept) <= mostRemembered
	case cfaRestoreState:
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
	case cfaDefCFA:
		reg = c.uleb()
		*cfa = rule{kind: regOffset, off: int64(c.uleb())}
	case cfaDefCFASF:
		reg = c.uleb()
		*cfa = rule{kind: regOffset, off: c.sleb() * align}
	case cfaDefCFARegister:
		reg = c.uleb()
		cfa.kind = regOffset
	case cfaDefCFAOffset:
		cfa.off = int64(c.uleb())
	case cfaDefCFAOffsetSF:
		cfa.off = c.sleb() * align
	case cfaDefCFAExpression:
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
