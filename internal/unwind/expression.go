// SPDX-License-Identifier: Apache-2.0

package unwind

// Operators of expressions, from table 7.9 of DWARF 5: those that describe frames.
const (
	opAddr       = 0x03
	opDeref      = 0x06
	opConst1u    = 0x08 // and 1s, 2u, 2s, 4u, 4s, 8u, 8s
	opConst8s    = 0x0f
	opConstu     = 0x10
	opConsts     = 0x11
	opDup        = 0x12
	opDrop       = 0x13
	opOver       = 0x14
	opPick       = 0x15
	opSwap       = 0x16
	opRot        = 0x17
	opAbs        = 0x19
	opAnd        = 0x1a
	opDiv        = 0x1b
	opMinus      = 0x1c
	opMod        = 0x1d
	opMul        = 0x1e
	opNeg        = 0x1f
	opNot        = 0x20
	opOr         = 0x21
	opPlus       = 0x22
	opPlusUconst = 0x23
	opShl        = 0x24
	opShr        = 0x25
	opShra       = 0x26
	opXor        = 0x27
	opBra        = 0x28
	opEq         = 0x29
	opGe         = 0x2a
	opGt         = 0x2b
	opLe         = 0x2c
	opLt         = 0x2d
	opNe         = 0x2e
	opSkip       = 0x2f
	opLit0       = 0x30
	opLit31      = 0x4f
	opBreg0      = 0x70
	opBreg31     = 0x8f
	opBregx      = 0x92
	opDerefSize  = 0x94
	opNop        = 0x96
)

// Bounds on an expression: its bytes, its stack, and how many operators are run, as it may
// jump back.
const (
	mostExpression = 1 << 10
	mostOperators  = 1 << 10
)

// An evaluation computes an expression in a frame.
type evaluation struct {
	walk  *walk
	row   *Row
	stack []uint64
	why   End
}

// fail says why there is no value. The first reason counts.
func (e *evaluation) fail(why End) uint64 {
	if e.why == 0 {
		e.why = why
	}
	return 0
}

func (e *evaluation) push(v uint64) {
	if len(e.stack) == mostOperands {
		e.fail(EndDamaged)
		return
	}
	e.stack = append(e.stack, v)
}

func (e *evaluation) pop() uint64 {
	if len(e.stack) == 0 {
		return e.fail(EndDamaged)
	}
	v := e.stack[len(e.stack)-1]
	e.stack = e.stack[:len(e.stack)-1]
	return v
}

// pick pushes a copy of the operand at a depth.
func (e *evaluation) pick(depth int) {
	if depth >= len(e.stack) {
		e.fail(EndDamaged)
		return
	}
	e.push(e.stack[len(e.stack)-1-depth])
}

// evaluate returns the value of a rule's expression. cfa is on its stack at first, if that is
// known.
func (w *walk) evaluate(row *Row, r rule, initial ...uint64) (uint64, End) {
	e := evaluation{walk: w, row: row, stack: append(w.operands[:0], initial...)}
	c := cursor{b: row.section, pos: uint64(r.off), end: uint64(r.off) + uint64(r.size)}
	start := c.pos
	for n := 0; c.more() && e.why == 0; n++ {
		if n == mostOperators {
			return 0, EndDamaged
		}
		op := c.byte()
		switch {
		case op >= opLit0 && op <= opLit31:
			e.push(uint64(op - opLit0))
		case op >= opBreg0 && op <= opBreg31:
			e.push(e.register(uint64(op-opBreg0)) + uint64(c.sleb()))
		case op >= opConst1u && op <= opConst8s:
			e.push(constant(&c, op-opConst1u))
		case op == opBra || op == opSkip:
			by := c.signed(2)
			if op == opBra && e.pop() == 0 {
				break
			}
			to := int64(c.pos) + by
			if to < int64(start) || to > int64(c.end) {
				return 0, EndDamaged
			}
			c.pos = uint64(to)
		default:
			e.operate(op, &c)
		}
	}
	if c.bad {
		return 0, EndDamaged
	}
	v := e.pop()
	return v, e.why
}

// constant reads the operand of one of DW_OP_const1u to const8s.
func constant(c *cursor, n uint8) uint64 {
	size := uint64(1) << (n / 2)
	if n%2 == 1 {
		return uint64(c.signed(size))
	}
	return c.number(size)
}

func (e *evaluation) register(n uint64) uint64 {
	m := e.walk.machine
	if n == uint64(m.pc) && m.OnStack() { // rip, in the frames of PLTs
		return e.walk.regs.PC
	}
	if n >= uint64(m.registers) {
		return e.fail(EndDamaged)
	}
	v, ok := e.walk.regs.get(uint8(n))
	if !ok {
		return e.fail(EndLost)
	}
	return v
}

// operate runs an operator that takes operands.
func (e *evaluation) operate(op uint8, c *cursor) {
	switch op {
	case opNop:
	case opAddr:
		e.push(c.number(8))
	case opConstu:
		e.push(c.uleb())
	case opConsts:
		e.push(uint64(c.sleb()))
	case opBregx:
		reg := c.uleb()
		e.push(e.register(reg) + uint64(c.sleb()))
	case opPlusUconst:
		e.push(e.pop() + c.uleb())
	case opDeref:
		e.push(e.load(e.pop(), 8))
	case opDerefSize:
		e.push(e.load(e.pop(), c.number(1)))
	case opDup:
		e.pick(0)
	case opOver:
		e.pick(1)
	case opPick:
		e.pick(int(c.number(1)))
	case opDrop:
		e.pop()
	case opSwap:
		top, below := e.pop(), e.pop()
		e.push(top)
		e.push(below)
	case opRot:
		top, second, third := e.pop(), e.pop(), e.pop()
		e.push(top)
		e.push(third)
		e.push(second)
	case opAbs:
		v := int64(e.pop())
		e.push(uint64(max(v, -v)))
	case opNeg:
		e.push(-e.pop())
	case opNot:
		e.push(^e.pop())
	default:
		e.binary(op)
	}
}

// load reads memory.
func (e *evaluation) load(addr, size uint64) uint64 {
	if size == 0 || size > 8 {
		return e.fail(EndDamaged)
	}
	v, why := e.walk.load(addr)
	if why != 0 {
		return e.fail(why)
	}
	return v << (64 - 8*size) >> (64 - 8*size)
}

// binary runs an operator that takes two operands.
func (e *evaluation) binary(op uint8) {
	y, x := e.pop(), e.pop()
	truth := func(b bool) {
		n := uint64(0)
		if b {
			n = 1
		}
		e.push(n)
	}
	switch op {
	case opAnd:
		e.push(x & y)
	case opOr:
		e.push(x | y)
	case opXor:
		e.push(x ^ y)
	case opPlus:
		e.push(x + y)
	case opMinus:
		e.push(x - y)
	case opMul:
		e.push(x * y)
	case opDiv, opMod:
		if y == 0 {
			e.fail(EndDamaged)
			return
		}
		if op == opMod {
			e.push(x % y)
			return
		}
		e.push(uint64(int64(x) / int64(y)))
	case opShl:
		e.push(x << y)
	case opShr:
		e.push(x >> y)
	case opShra:
		e.push(uint64(int64(x) >> min(y, 63)))
	case opEq:
		truth(x == y)
	case opNe:
		truth(x != y)
	case opGe:
		truth(int64(x) >= int64(y))
	case opGt:
		truth(int64(x) > int64(y))
	case opLe:
		truth(int64(x) <= int64(y))
	case opLt:
		truth(int64(x) < int64(y))
	default:
		e.fail(EndDamaged)
	}
}
