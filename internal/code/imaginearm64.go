// SPDX-License-Identifier: Apache-2.0

package code

import "math/bits"

// executeARM64 executes an instruction on what is known. What it does not know makes all unknown.
func (m *imagined) executeARM64(f *Function, in *Instruction) {
	o := f.operationAt(in.Addr)
	switch o.do {
	case doAnything:
		m.forget()
	case doNothing:
	case doFlags:
		m.flags = known{}
	case doSign:
		m.words[linkARM64], m.words[16], m.words[17] = known{}, known{}, known{}
	case doCall:
		if !f.tracerARM64(in.Addr) {
			m.call(in)
		}
	case doLoad, doStore, doExchange:
		m.accessARM64(&o)
	case doCompareIf:
		m.compareIfARM64(&o)
	default:
		v := m.computedARM64(&o)
		if o.sets {
			m.flags = m.comparedARM64(&o)
		}
		if o.d != stackARM64 && o.d != frameARM64 {
			m.escape(v)
		}
		m.setARM64(o.d, v)
	}
}

func (m *imagined) setARM64(word int, v known) {
	if word != noWord {
		m.words[word] = v
	}
}

// registerARM64 returns what the lowest bytes of a register hold.
func (m *imagined) registerARM64(word, size int) known {
	if word == noWord {
		return known{number, 0, 8}
	}
	v := m.words[word]
	switch {
	case v.kind == number && v.size >= size:
		v.v, v.size = low(v.v, size), 8
	case v.kind == number, v.kind == onStack && size < 8:
		v = known{}
	}
	return v
}

// secondARM64 returns the second operand, of a size.
func (m *imagined) secondARM64(o *operationARM64) known {
	s := &o.m
	if s.immediate {
		return known{number, s.number, 8}
	}
	v := m.registerARM64(s.word, min(o.size, s.how.bytes()))
	switch {
	case v.kind == number:
		return known{number, s.of(v.v, o.size), 8}
	case s.shift != 0, s.how.bytes() < 4:
		return known{}
	}
	return v
}

// bytes returns how many bytes of a register matter.
func (c changeARM64) bytes() int {
	if c < zeroExtend1 {
		return 8
	}
	return 1 << ((c - zeroExtend1) % 4)
}

// of changes a number as a register would be, for an operation of a size.
func (s *secondARM64) of(v uint64, size int) uint64 {
	if s.how < zeroExtend1 {
		return s.how.shift(v, uint64(s.shift), size)
	}
	v = low(v, s.how.bytes())
	if s.how >= signExtend1 {
		v = signExtend(v, s.how.bytes())
	}
	return low(v<<s.shift, size)
}

// shift shifts a number of a size.
func (c changeARM64) shift(v, by uint64, size int) uint64 {
	v = low(v, size)
	by %= uint64(8 * size)
	switch c {
	case shiftLeft:
		v <<= by
	case shiftRight:
		v >>= by
	case shiftSigned:
		v = uint64(int64(signExtend(v, size)) >> by)
	case rotateRight:
		v = v>>by | v<<(uint64(8*size)-by)
	}
	return low(v, size)
}

// computedARM64 returns what an instruction makes of registers.
func (m *imagined) computedARM64(o *operationARM64) known {
	a, b := m.registerARM64(o.n, o.size), m.secondARM64(o)
	switch o.do {
	case doSet:
		return b
	case doChoose:
		return m.chosenARM64(o, a, b)
	case doInsert:
		if a = m.registerARM64(o.d, o.size); a.kind == number {
			a.v = a.v&^(0xffff<<o.m.shift) | o.m.number
			return a
		}
		return known{}
	case doField, doSigned:
		if bits := m.registerARM64(o.n, o.top/8+1); bits.kind == number {
			return known{number, o.field(bits.v), 8}
		}
		if a.kind >= sought && o.rotate == 0 && o.top >= 31 {
			return a // what is returned is the same
		}
		return known{}
	case doOr:
		if o.n == noWord && !o.not { // MOV
			return b
		}
	case doAdd, doSubtract:
		if a.kind == onStack && b.kind == number && o.size == 8 {
			if o.do == doSubtract {
				b.v = -b.v
			}
			return add(a, b.v)
		}
	case doShift:
		if by := m.registerARM64(o.m.word, o.size); a.kind == number && by.kind == number {
			return known{number, o.m.how.shift(a.v, by.v, o.size), 8}
		}
		return known{}
	}
	if a.kind != number || b.kind != number {
		return known{}
	}
	v, _, ok := o.arithmetic(a.v, b.v)
	if !ok {
		return known{}
	}
	return known{number, v, 8}
}

// chosenARM64 returns what a choice makes of two values.
func (m *imagined) chosenARM64(o *operationARM64, a, b known) known {
	switch {
	case !o.invert && !o.increment:
	case b.kind != number:
		b = known{}
	default:
		if o.invert {
			b.v = ^b.v
		}
		if o.increment {
			b.v++
		}
		b.v = low(b.v, o.size)
	}
	flags, ok := m.flagsFor()
	switch {
	case ok && conditionARM64(o.cond, flags), a == b:
		return a
	case ok:
		return b
	case a.kind == lost || b.kind == lost:
		return known{kind: lost}
	case a.mayBeError() && b.mayBeError():
		return known{kind: failing}
	}
	return known{}
}

// mayBeError reports whether a value is an error, or the one that is looked for.
func (k known) mayBeError() bool { return k.kind == sought || k.widened().kind == failing }

// field moves bits as SBFM and UBFM do.
func (o *operationARM64) field(v uint64) uint64 {
	width := o.top + 1
	to := 0
	if o.top >= o.rotate {
		v >>= o.rotate
		width -= o.rotate
	} else {
		to = 8*o.size - o.rotate
	}
	v <<= 64 - width
	if o.do == doSigned {
		v = uint64(int64(v) >> (64 - width))
	} else {
		v >>= 64 - width
	}
	return low(v<<to, o.size)
}

// The flags of arm64, in pstate.
const (
	negativeARM64 = 1 << 31
	zeroARM64     = 1 << 30
	carryARM64    = 1 << 29
	overflowARM64 = 1 << 28
)

// arithmetic returns what an instruction makes of two numbers, and the flags.
func (o *operationARM64) arithmetic(a, b uint64) (r, flags uint64, ok bool) {
	if o.not {
		b = low(^b, o.size)
	}
	switch o.do {
	case doAdd:
		r, flags = addWithCarry(a, b, 0, o.size)
	case doSubtract:
		r, flags = addWithCarry(a, low(^b, o.size), 1, o.size)
	case doAnd:
		r = a & b
		flags = signAndZero(r, o.size)
	case doOr:
		r = a | b
	case doXor:
		r = a ^ b
	default:
		return 0, 0, false
	}
	return r, flags, true
}

// addWithCarry is AddWithCarry of the manual.
func addWithCarry(a, b, carry uint64, size int) (r, flags uint64) {
	sum, out := bits.Add64(a, b, carry)
	r = low(sum, size)
	if size < 8 {
		out = sum >> (8 * size)
	}
	top := uint64(1) << (8*size - 1)
	return r, signAndZero(r, size) | flag(out != 0, carryARM64) | flag((a^r)&(b^r)&top != 0, overflowARM64)
}

func signAndZero(r uint64, size int) uint64 {
	return flag(r>>(8*size-1)&1 != 0, negativeARM64) | flag(r == 0, zeroARM64)
}

// comparedARM64 returns the flags that an instruction sets.
func (m *imagined) comparedARM64(o *operationARM64) known {
	a, b := m.registerARM64(o.n, o.size), m.secondARM64(o)
	if a.kind == made && (o.do == doSubtract && b.kind == number && b.v == 0 || o.do == doAnd && !o.not && !o.m.immediate && o.n == o.m.word && o.m.shift == 0) {
		return a
	}
	if a.kind != number || b.kind != number {
		return known{}
	}
	_, flags, ok := o.arithmetic(a.v, b.v)
	if !ok {
		return known{}
	}
	return known{number, flags, 8}
}

// compareIfARM64 executes CCMP and CCMN.
func (m *imagined) compareIfARM64(o *operationARM64) {
	flags, ok := m.flagsFor()
	switch {
	case !ok:
		m.flags = known{}
	case !conditionARM64(o.cond, flags):
		m.flags = known{number, uint64(o.nzcv) << 28, 8}
	default:
		compare := *o
		compare.do, compare.not = doSubtract, false
		if o.not {
			compare.do = doAdd
		}
		m.flags = m.comparedARM64(&compare)
	}
}

// accessARM64 executes a load or store.
func (m *imagined) accessARM64(o *operationARM64) {
	a := &o.mem
	var base known
	if a.base != noWord {
		base = m.words[a.base]
	}
	at := base
	if a.index {
		at = known{}
	}
	for i, word := range a.regs[:a.count] {
		disp := a.offset + int64(i*a.size)
		switch {
		case o.do == doLoad:
			if v := m.load(at, disp, a.size); !a.vectors {
				m.setARM64(word, a.loaded(v))
			}
		case a.vectors:
			m.store(at, disp, a.size, known{})
		case o.do == doExchange:
			m.escape(m.registerARM64(word, a.size))
			m.store(at, disp, a.size, known{})
		default:
			v := m.registerARM64(word, a.size)
			if v.kind >= sought && a.size < 4 {
				v = known{}
			}
			m.escape(v)
			m.store(at, disp, a.size, v)
		}
	}
	m.setARM64(a.status, known{})
	if a.update != 0 {
		m.setARM64(a.base, base.moved(a.update))
	}
}

// moved returns an address that another one is changed to.
func (k known) moved(n int64) known {
	if k.kind == onStack || k.kind == number && k.size == 8 {
		return add(k, uint64(n))
	}
	return known{}
}

// loaded returns what a register holds of what was loaded.
func (a *memoryARM64) loaded(v known) known {
	switch {
	case v.kind == number && v.size >= a.size:
		return known{number, a.extended(v.v), 8}
	case v.kind == number, v.kind == onStack && a.size < 8, a.size < 4:
		return known{}
	}
	return v
}

// extended returns what a load makes of a number in memory.
func (a *memoryARM64) extended(v uint64) uint64 {
	v = low(v, a.size)
	if a.signed {
		v = low(signExtend(v, a.size), a.to)
	}
	return v
}
