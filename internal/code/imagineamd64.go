// SPDX-License-Identifier: Apache-2.0

package code

import (
	"math/bits"
	"slices"

	"golang.org/x/arch/x86/x86asm"
)

// executeAMD64 executes an instruction on what is known. What it does not know makes all unknown.
func (m *imagined) executeAMD64(f *Function, in *Instruction) {
	text := f.codeAt(in.Addr)
	if changesNothing(text) {
		return
	}
	x, err := decodeX86(text)
	if err != nil {
		m.forget()
		return
	}
	sp := wordAMD64("sp")
	switch x.Op {
	case x86asm.NOP, x86asm.LFENCE, x86asm.MFENCE, x86asm.SFENCE, x86asm.PAUSE, x86asm.JMP, x86asm.RET, x86asm.UD1, x86asm.UD2:
	case x86asm.CALL:
		m.call(in)
	case x86asm.PUSH:
		v, _ := m.value(&x, x.Args[0], 8)
		m.words[sp] = add(m.words[sp], ^uint64(7))
		m.store(m.words[sp], 0, 8, v)
	case x86asm.POP:
		v := m.load(m.words[sp], 0, 8)
		m.words[sp] = add(m.words[sp], 8)
		m.set(&x, x.Args[0], v)
	case x86asm.MOV:
		v, _ := m.value(&x, x.Args[1], 0)
		m.escape(v)
		m.set(&x, x.Args[0], v)
	case x86asm.MOVZX, x86asm.MOVSX, x86asm.MOVSXD:
		v, size := m.value(&x, x.Args[1], x.MemBytes)
		if v.kind >= sought { // what is returned is the same
		} else if v.kind != number {
			v = known{}
		} else if v.v, v.size = low(v.v, size), 8; x.Op != x86asm.MOVZX {
			v.v = signExtend(v.v, size)
		}
		m.set(&x, x.Args[0], v)
	case x86asm.LEA:
		a, _ := x.Args[1].(x86asm.Mem)
		v := m.address(a)
		m.escape(v)
		m.set(&x, x.Args[0], v)
	case x86asm.STOSB, x86asm.STOSW, x86asm.STOSD, x86asm.STOSQ, x86asm.MOVSB, x86asm.MOVSW, x86asm.MOVSD, x86asm.MOVSQ:
		m.fill(m.words[wordAMD64("di")])
	case x86asm.CBW, x86asm.CWDE, x86asm.CDQE:
		v, size := m.value(&x, map[x86asm.Op]x86asm.Reg{x86asm.CBW: x86asm.AL, x86asm.CWDE: x86asm.AX, x86asm.CDQE: x86asm.EAX}[x.Op], 0)
		if v.kind == number {
			v.v = signExtend(v.v, size)
		}
		m.set(&x, map[x86asm.Op]x86asm.Reg{x86asm.CBW: x86asm.AX, x86asm.CWDE: x86asm.EAX, x86asm.CDQE: x86asm.RAX}[x.Op], v)
	case x86asm.CWD, x86asm.CDQ, x86asm.CQO:
		m.words[wordAMD64("dx")] = known{}
	case x86asm.XADD, x86asm.XCHG, x86asm.CMPXCHG:
		a, _ := m.value(&x, x.Args[0], 8)
		b, _ := m.value(&x, x.Args[1], 8)
		m.escape(a)
		m.escape(b)
		m.set(&x, x.Args[0], known{})
		if x.Op == x86asm.CMPXCHG {
			m.words[wordAMD64("ax")] = known{}
		} else {
			m.set(&x, x.Args[1], known{})
		}
		m.flags = known{}
	case x86asm.MUL, x86asm.DIV, x86asm.IDIV:
		m.words[wordAMD64("ax")], m.words[wordAMD64("dx")], m.flags = known{}, known{}, known{}
	default:
		switch {
		case conditional(&x):
		case isChoice(x.Op):
			m.choose(&x)
		case slices.Contains(computed, x.Op):
			m.compute(&x)
		case slices.Contains(oneResult, x.Op), x.Op == x86asm.IMUL && x.Args[1] != nil:
			m.set(&x, x.Args[0], known{})
			m.flags = known{}
		default:
			m.forget()
		}
	}
}

// fill executes an instruction that writes an area of unknown size from a place on, and uses up
// the registers that count.
func (m *imagined) fill(to known) {
	m.escape(to)
	m.disturb()
	for _, name := range usedByStrings {
		m.words[wordAMD64(name)] = known{}
	}
}

// computed are instructions that make their first operand and the flags of their operands.
var computed = []x86asm.Op{x86asm.CMP, x86asm.TEST, x86asm.ADD, x86asm.SUB, x86asm.AND, x86asm.OR, x86asm.XOR, x86asm.INC, x86asm.DEC, x86asm.SHL, x86asm.SHR, x86asm.SAR, x86asm.NEG, x86asm.NOT, x86asm.BT}

// signExtend extends the sign of a number of some bytes.
func signExtend(v uint64, size int) uint64 {
	shift := 64 - 8*size
	return uint64(int64(v<<shift) >> shift)
}

// add returns a value and a number that is added to it.
func add(v known, n uint64) known {
	v.v += n
	return v
}

// address returns the address of an operand in memory.
func (m *imagined) address(a x86asm.Mem) known {
	if a.Segment != 0 || a.Base == x86asm.RIP {
		return known{}
	}
	sum := known{number, uint64(a.Disp), 8}
	for _, part := range []struct {
		reg   x86asm.Reg
		scale uint64
	}{{a.Base, 1}, {a.Index, uint64(a.Scale)}} {
		if part.reg == 0 {
			continue
		}
		word, size, _ := registerAMD64(part.reg)
		if word < 0 || size != 8 {
			return known{}
		}
		v := m.words[word]
		switch {
		case v.kind != number && v.kind != onStack, v.kind == number && v.size < 8, v.kind == onStack && (part.scale != 1 || sum.kind == onStack):
			return known{}
		case v.kind == onStack:
			sum.kind = onStack
		}
		sum.v += v.v * part.scale
	}
	return sum
}

// value returns an operand and its size.
func (m *imagined) value(x *x86asm.Inst, arg x86asm.Arg, size int) (known, int) {
	switch arg := arg.(type) {
	case x86asm.Imm:
		if size == 0 {
			size = x.DataSize / 8
		}
		return known{number, uint64(arg), 8}, size
	case x86asm.Reg:
		word, n, shift := registerAMD64(arg)
		if word < 0 {
			return known{}, n
		}
		v := m.words[word]
		switch {
		case v.kind == number && v.size >= n+shift/8:
			v.v = low(v.v>>shift, n)
		case v.kind == number, n < 4, n == 4 && v.kind == onStack:
			v = known{}
		}
		return v, n
	case x86asm.Mem:
		if x.MemBytes != 0 {
			size = x.MemBytes
		}
		return m.load(m.address(arg), 0, size), size
	}
	return known{}, size
}

// set changes an operand.
func (m *imagined) set(x *x86asm.Inst, arg x86asm.Arg, v known) {
	switch arg := arg.(type) {
	case x86asm.Reg:
		word, n, shift := registerAMD64(arg)
		if word < 0 {
			return
		}
		old := m.words[word]
		switch {
		case n == 8, n == 4 && v.kind >= sought:
		case v.kind != number:
			v = known{}
		case n == 4:
			v.v, v.size = low(v.v, 4), 8
		case old.kind == number && old.size >= n+shift/8:
			mask := low(^uint64(0), n) << shift
			v.v, v.size = old.v&^mask|v.v<<shift&mask, old.size
		case shift == 0:
			v.v, v.size = low(v.v, n), n
		default:
			v = known{}
		}
		m.words[word] = v
	case x86asm.Mem:
		m.store(m.address(arg), 0, x.MemBytes, v)
	default:
		m.forget()
	}
}

// choose executes an instruction that makes its result by the flags.
func (m *imagined) choose(x *x86asm.Inst) {
	flags, ok := m.flagsFor()
	if x.Op == x86asm.SBB {
		m.flags = known{}
	}
	switch {
	case ok && x.Op == x86asm.SBB && x.Args[0] == x.Args[1]: // all bits are the carry
		m.set(x, x.Args[0], known{number, -(flags & carryFlag), 8})
		return
	case !ok, x.Op == x86asm.SBB:
		m.set(x, x.Args[0], known{})
		return
	}
	// The low four bits of the second byte of the code, as those of a jump.
	holds := conditionAMD64(uint8(x.Opcode>>16&15), flags)
	if x.Args[1] == nil { // SETcc
		v := known{kind: number, size: 8}
		if holds {
			v.v = 1
		}
		m.set(x, x.Args[0], v)
		return
	}
	v, size := m.value(x, x.Args[0], 0)
	if holds {
		v, _ = m.value(x, x.Args[1], size)
	}
	m.set(x, x.Args[0], v) // which clears the upper half in both cases
}

// compute executes an instruction that sets the flags.
func (m *imagined) compute(x *x86asm.Inst) {
	a, size := m.value(x, x.Args[0], 0)
	b := known{number, 1, 8}
	if x.Args[1] != nil {
		if n, immediate := x.Args[1].(x86asm.Imm); immediate {
			b = known{number, low(uint64(n), size), 8}
		} else if b, _ = m.value(x, x.Args[1], size); x.Op == x86asm.XOR && x.Args[0] == x.Args[1] || x.Op == x86asm.SUB && x.Args[0] == x.Args[1] {
			a, b = known{number, 0, 8}, known{number, 0, 8}
		}
	}
	writes := x.Op != x86asm.CMP && x.Op != x86asm.TEST && x.Op != x86asm.BT
	if a.kind == onStack && b.kind == number && size == 8 && (x.Op == x86asm.ADD || x.Op == x86asm.SUB) {
		if x.Op == x86asm.SUB {
			b.v = -b.v
		}
		m.flags = known{}
		m.set(x, x.Args[0], add(a, signExtend(low(b.v, size), size)))
		return
	}
	if a.kind != number || b.kind != number || size == 0 {
		if x.Op != x86asm.NOT {
			m.flags = known{}
		}
		if zero := b.kind == number && low(b.v, max(size, 1)) == 0; a.kind == made && (x.Op == x86asm.TEST && x.Args[0] == x.Args[1] || x.Op == x86asm.CMP && zero) {
			m.flags = a
		}
		if writes {
			m.set(x, x.Args[0], known{})
		}
		return
	}
	r, flags, ok := arithmetic(x.Op, low(a.v, size), low(b.v, size), size, m.flags)
	if x.Op != x86asm.NOT {
		m.flags = known{}
		if ok {
			m.flags = known{number, flags, 8}
		}
	}
	if writes {
		m.set(x, x.Args[0], known{number, r, 8})
	}
}

// The flags of amd64 that conditions ask for.
const (
	carryFlag    = 1 << 0
	parityFlag   = 1 << 2
	zeroFlag     = 1 << 6
	signFlag     = 1 << 7
	overflowFlag = 1 << 11
)

// arithmetic returns what an instruction makes of two numbers, and the flags; ok is false if
// those are not known.
func arithmetic(op x86asm.Op, a, b uint64, size int, before known) (r, flags uint64, ok bool) {
	top := uint64(1) << (8*size - 1)
	ok = true
	carry := before.v & carryFlag
	switch op {
	case x86asm.ADD, x86asm.INC:
		r = low(a+b, size)
		flags = flag(r < a, carryFlag) | flag((a^r)&(b^r)&top != 0, overflowFlag)
		if op == x86asm.INC {
			flags, ok = flags&^carryFlag|carry, before.kind == number
		}
	case x86asm.SUB, x86asm.CMP, x86asm.DEC:
		r = low(a-b, size)
		flags = flag(a < b, carryFlag) | flag((a^b)&(a^r)&top != 0, overflowFlag)
		if op == x86asm.DEC {
			flags, ok = flags&^carryFlag|carry, before.kind == number
		}
	case x86asm.NEG:
		r = low(-a, size)
		flags = flag(a != 0, carryFlag) | flag(a == top, overflowFlag)
	case x86asm.AND, x86asm.TEST:
		r = a & b
	case x86asm.OR:
		r = a | b
	case x86asm.XOR:
		r = a ^ b
	case x86asm.NOT:
		return low(^a, size), 0, false
	case x86asm.BT:
		return 0, before.v&zeroFlag | a>>(b%uint64(8*size))&1*carryFlag, true
	default:
		return shift(op, a, b, size), 0, false
	}
	flags |= flag(r == 0, zeroFlag) | flag(r&top != 0, signFlag) | flag(bits.OnesCount8(uint8(r))%2 == 0, parityFlag)
	return r, flags, ok
}

// shift shifts. The processor takes the number of bits modulo 32, or 64.
func shift(op x86asm.Op, a, b uint64, size int) uint64 {
	n := b & 31
	if size == 8 {
		n = b & 63
	}
	switch op {
	case x86asm.SHL:
		return low(a<<n, size)
	case x86asm.SHR:
		return a >> n
	}
	return low(uint64(int64(signExtend(a, size))>>n), size)
}

func flag(is bool, bit uint64) uint64 {
	if is {
		return bit
	}
	return 0
}
