// SPDX-License-Identifier: Apache-2.0

package unwind

import "github.com/ksnoop/ksnoop/internal/dw"

// mostExpression bounds the bytes of an expression.
const mostExpression = 1 << 10

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
	for c.more() && e.why == 0 {
		if w.left--; w.left < 0 { // it may jump back
			return 0, EndLong
		}
		op := c.byte()
		switch {
		case op >= dw.OpLit0 && op <= dw.OpLit31:
			e.push(uint64(op - dw.OpLit0))
		case op >= dw.OpBreg0 && op <= dw.OpBreg31:
			e.push(e.register(uint64(op-dw.OpBreg0)) + uint64(c.sleb()))
		case op >= dw.OpConst1u && op <= dw.OpConst8s:
			e.push(constant(&c, op-dw.OpConst1u))
		case op == dw.OpBra || op == dw.OpSkip:
			by := c.signed(2)
			if op == dw.OpBra && e.pop() == 0 {
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
	case dw.OpNop:
	case dw.OpAddr:
		e.push(c.number(8))
	case dw.OpConstu:
		e.push(c.uleb())
	case dw.OpConsts:
		e.push(uint64(c.sleb()))
	case dw.OpBregx:
		reg := c.uleb()
		e.push(e.register(reg) + uint64(c.sleb()))
	case dw.OpPlusUconst:
		e.push(e.pop() + c.uleb())
	case dw.OpDeref:
		e.push(e.load(e.pop(), 8))
	case dw.OpDerefSize:
		e.push(e.load(e.pop(), c.number(1)))
	case dw.OpDup:
		e.pick(0)
	case dw.OpOver:
		e.pick(1)
	case dw.OpPick:
		e.pick(int(c.number(1)))
	case dw.OpDrop:
		e.pop()
	case dw.OpSwap:
		top, below := e.pop(), e.pop()
		e.push(top)
		e.push(below)
	case dw.OpRot:
		top, second, third := e.pop(), e.pop(), e.pop()
		e.push(top)
		e.push(third)
		e.push(second)
	case dw.OpAbs:
		v := int64(e.pop())
		e.push(uint64(max(v, -v)))
	case dw.OpNeg:
		e.push(-e.pop())
	case dw.OpNot:
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
	v, why := e.walk.load(addr, size)
	if why != 0 {
		return e.fail(why)
	}
	return v
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
	case dw.OpAnd:
		e.push(x & y)
	case dw.OpOr:
		e.push(x | y)
	case dw.OpXor:
		e.push(x ^ y)
	case dw.OpPlus:
		e.push(x + y)
	case dw.OpMinus:
		e.push(x - y)
	case dw.OpMul:
		e.push(x * y)
	case dw.OpDiv, dw.OpMod:
		if y == 0 {
			e.fail(EndDamaged)
			return
		}
		if op == dw.OpMod {
			e.push(x % y)
			return
		}
		e.push(uint64(int64(x) / int64(y)))
	case dw.OpShl:
		e.push(x << y)
	case dw.OpShr:
		e.push(x >> y)
	case dw.OpShra:
		e.push(uint64(int64(x) >> min(y, 63)))
	case dw.OpEq:
		truth(x == y)
	case dw.OpNe:
		truth(x != y)
	case dw.OpGe:
		truth(int64(x) >= int64(y))
	case dw.OpGt:
		truth(int64(x) > int64(y))
	case dw.OpLe:
		truth(int64(x) <= int64(y))
	case dw.OpLt:
		truth(int64(x) < int64(y))
	default:
		e.fail(EndDamaged)
	}
}
