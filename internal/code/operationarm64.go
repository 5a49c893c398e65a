// SPDX-License-Identifier: Apache-2.0

package code

import "math/bits"

// An operationARM64 is what one instruction of arm64 does to registers, memory and flags, where that is
// not all in Instruction. Encodings and names are those of the Arm Architecture Reference Manual (DDI 0487),
// C4 and C6. Registers are words of pt_regs; the zero register is noWord.
type operationARM64 struct {
	do   doARM64
	size int // of the registers, in bytes
	d, n int
	m    secondARM64
	// sets says that the flags are set, by what is made of n and m.
	sets bool
	not  bool // of the logical ones: m is inverted first; of a conditional compare: m is added
	// nzcv are the flags of a conditional compare whose cond does not hold.
	cond, nzcv uint8
	// invert and increment say what is done to m by a choice if the condition does not hold.
	invert, increment bool
	// rotate and top are immr and imms of bit fields.
	rotate, top int
	mem         memoryARM64
}

// A secondARM64 is the second operand: a number, or a register, changed.
type secondARM64 struct {
	immediate bool
	number    uint64
	word      int
	how       changeARM64
	shift     int
}

// A changeARM64 says how a register is changed before it is used.
type changeARM64 uint8

const (
	shiftLeft changeARM64 = iota
	shiftRight
	shiftSigned
	rotateRight
	zeroExtend1 // of the lowest byte, and so on; then it is shifted left
	zeroExtend2
	zeroExtend4
	zeroExtend8
	signExtend1
	signExtend2
	signExtend4
	signExtend8
)

// A memoryARM64 is what is accessed by a load or store.
type memoryARM64 struct {
	base    int
	offset  int64
	index   bool // a register is added, too
	update  int64
	size    int // of one element
	signed  bool
	to      int    // how many bytes of the register a load sets
	regs    [2]int // those that are loaded or stored; noWord for the zero register
	count   int
	vectors bool // they are no general registers
	status  int  // the register that says whether it was stored, or gets what was there; noWord if there is none
}

// A doARM64 says what is done.
type doARM64 uint8

const (
	doAnything doARM64 = iota // it is not known
	doNothing
	doSet       // d = m
	doInsert    // of d, the 16 bits at m.shift = m.number
	doAdd       // d = n + m
	doSubtract  // d = n - m
	doAnd       // d = n & m, and so on
	doOr        //
	doXor       //
	doField     // of n, bits are moved to d: zeros around them
	doSigned    // likewise, with their sign
	doShift     // d = n changed by the number in m.word
	doChoose    // d = n if cond holds, else m
	doCompareIf // the flags are those of n - m if cond holds, else given ones
	doCompute   // d = something of other registers
	doFlags     // the flags = something
	doLoad
	doStore
	doExchange // what mem.regs hold may have been stored, and mem.status has changed
	doCall
	doSign // pointer authentication: it changes a return address
)

// zeroRegister is the number of XZR, and of SP, in encodings.
const zeroRegister = 31

const (
	stackARM64 = 31
	frameARM64 = 29
	linkARM64  = 30
)

// general returns the word of a register, of which number 31 is zero.
func general(r uint32) int {
	if r &= 31; r == zeroRegister {
		return noWord
	}
	return int(r)
}

// operationOf decodes an instruction.
func operationOf(w uint32) operationARM64 {
	o := operationARM64{size: 4 << (w >> 31), d: general(w), n: general(w >> 5), m: secondARM64{word: general(w >> 16)}}
	switch op := w >> 25 & 15; {
	case op&0b1110 == 0b1000:
		o.immediate(w)
	case op&0b0111 == 0b0101:
		o.registers(w)
	case op&0b0101 == 0b0100:
		o.memory(w)
	case op&0b1110 == 0b1010:
		o.system(w)
	}
	return o
}

// immediate decodes data processing with a number.
func (o *operationARM64) immediate(w uint32) {
	o.m = secondARM64{immediate: true, word: noWord}
	switch w >> 23 & 7 {
	case 0, 1: // ADR, ADRP: an address of code or of what is behind it
		o.do = doCompute
	case 2: // ADD, SUB
		o.do, o.sets = addOrSubtract(w), w>>29&1 != 0
		o.m.number = uint64(w>>10&0xfff) << (12 * (w >> 22 & 1))
		o.n = int(w >> 5 & 31) // 31 is the stack pointer
		if !o.sets {
			o.d = int(w & 31)
		}
	case 4: // logical
		mask, ok := bitmask(w>>22&1, w>>10&63, w>>16&63, o.size)
		if !ok {
			return
		}
		o.m.number = mask
		o.do, o.sets = [...]doARM64{doAnd, doOr, doXor, doAnd}[w>>29&3], w>>29&3 == 3
		if !o.sets {
			o.d = int(w & 31)
		}
	case 5: // MOVN, MOVZ, MOVK
		o.m.shift = int(w>>21&3) * 16
		o.m.number = uint64(w>>5&0xffff) << o.m.shift
		switch w >> 29 & 3 {
		case 0:
			o.do, o.m.number = doSet, low(^o.m.number, o.size)
		case 2:
			o.do = doSet
		case 3:
			o.do = doInsert
		}
	case 6: // SBFM, BFM, UBFM
		o.rotate, o.top = int(w>>16&63), int(w>>10&63)
		o.do = [...]doARM64{doSigned, doCompute, doField, doAnything}[w>>29&3]
	case 7: // EXTR
		o.do = doCompute
	}
}

func addOrSubtract(w uint32) doARM64 {
	if w>>30&1 != 0 {
		return doSubtract
	}
	return doAdd
}

// bitmask decodes the number of a logical instruction (DecodeBitMasks).
func bitmask(n, imms, immr uint32, size int) (mask uint64, ok bool) {
	length := bits.Len32(n<<6|^imms&63) - 1
	if length < 1 || n != 0 && size == 4 {
		return 0, false
	}
	width := 1 << length
	ones, rotate := int(imms)&(width-1)+1, int(immr)&(width-1)
	if ones == width {
		return 0, false
	}
	element := uint64(1)<<ones - 1
	element = (element>>rotate | element<<(width-rotate)) & (^uint64(0) >> (64 - width))
	for ; width < 64; width *= 2 {
		element |= element << width
	}
	return low(element, size), true
}

// registers decodes data processing with registers.
func (o *operationARM64) registers(w uint32) {
	o.m.how, o.m.shift = changeARM64(w>>22&3), int(w>>10&63)
	o.sets = w>>29&1 != 0
	switch op := w >> 21 & 15; {
	case w>>28&1 == 0 && op&8 == 0: // logical
		o.do, o.sets = [...]doARM64{doAnd, doOr, doXor, doAnd}[w>>29&3], w>>29&3 == 3
		o.not = w>>21&1 != 0
	case w>>28&1 == 0 && op&1 == 0: // ADD, SUB
		o.do = addOrSubtract(w)
	case w>>28&1 == 0: // ADD, SUB of what is extended
		o.do, o.n = addOrSubtract(w), int(w>>5&31)
		o.m.how, o.m.shift = zeroExtend1+changeARM64(w>>13&7), int(w>>10&7)
		if !o.sets {
			o.d = int(w & 31)
		}
	case op == 0: // ADC, SBC; RMIF, SETF
		o.do = doCompute
		if w>>10&63 != 0 {
			o.do, o.d, o.sets = doFlags, noWord, true
		}
	case op == 2: // CCMN, CCMP
		o.do, o.d, o.cond, o.nzcv = doCompareIf, noWord, uint8(w>>12&15), uint8(w&15)
		o.m.how, o.m.shift = shiftLeft, 0
		if w>>11&1 != 0 {
			o.m = secondARM64{immediate: true, number: uint64(w >> 16 & 31), word: noWord}
		}
		if o.not = w>>30&1 == 0; !o.sets {
			o.do = doAnything
		}
	case op == 4: // CSEL, CSINC, CSINV, CSNEG
		o.do, o.cond = doChoose, uint8(w>>12&15)
		o.m.how, o.m.shift = shiftLeft, 0
		o.invert, o.increment = w>>30&1 != 0, w>>10&1 != 0
		if o.sets || w>>11&1 != 0 {
			o.do = doAnything
		}
	case op == 6 && w>>30&1 == 0 && w>>12&15 == 2 && !o.sets: // LSLV, LSRV, ASRV, RORV
		o.do, o.m.how, o.m.shift = doShift, changeARM64(w>>10&3), 0
	case op == 6 && (w>>30&1 != 0 || w>>12&15 < 5) && !o.sets && (w>>30&1 == 0 || w>>16&31 == 0): // UDIV, SDIV, CRC32; RBIT, REV, CLZ
		o.do = doCompute
	case op&8 != 0: // MADD and others
		o.do = doCompute
	}
}

// system decodes what is executed for the processor's state.
func (o *operationARM64) system(w uint32) {
	switch {
	case w>>26 == 0b100101, w>>25 == 0b1101011 && w>>21&7 == 1: // BL, BLR
		o.do = doCall
	case w>>24 == 0xd4 && w&3 != 0: // SVC, HVC, SMC
	case w>>24 != 0xd5: // other branches, BRK
		o.do = doNothing
	case w&0xfffff01f == 0xd503201f: // hints
		o.do = doNothing
		if n := w >> 5 & 127; n == 7 || n >= 8 && n <= 15 || n >= 24 && n <= 31 {
			o.do = doSign
		}
	case w&0xfffff000 == 0xd5033000, w>>19&31 == 0: // barriers; MSR of a number
		o.do = doNothing
		if w>>12&15 == 4 && w>>16&7 == 0 && w>>5&7 < 3 { // CFINV, XAFLAG, AXFLAG
			o.do, o.d = doFlags, noWord
		}
	case w>>21&1 != 0: // MRS, SYSL
		o.do, o.sets = doCompute, w&^0x3f == 0xd53b2400 // RNDR
	case w&^31 == 0xd51b4200: // MSR NZCV
		o.do, o.d = doFlags, noWord
	default: // MSR, SYS
		o.do = doNothing
	}
}

// memory decodes loads and stores.
func (o *operationARM64) memory(w uint32) {
	m := &o.mem
	*m = memoryARM64{base: int(w >> 5 & 31), size: 1 << (w >> 30), to: 8, regs: [2]int{general(w), noWord}, count: 1, vectors: w>>26&1 != 0, status: noWord}
	load := w>>22&1 != 0
	switch class := w >> 27 & 7; {
	case class == 0b101: // LDP, STP, LDNP, STNP
		o.pair(w, load)
		return
	case class == 0b011 && w>>24&1 == 0: // LDR of what is behind the code
		m.base, m.index = noWord, true
		o.do = doLoad
		if w>>30 == 3 { // PRFM
			o.do = doNothing
		}
		return
	case class == 0b001:
		o.exclusive(w, load)
		return
	case class != 0b111:
		return
	}
	if w>>24&1 == 0 && w>>21&1 != 0 && w>>10&3 == 0 {
		o.atomic(w)
		return
	}
	if m.vectors {
		if m.size = 1 << (w>>30 | w>>23&1<<2); m.size > 16 {
			return
		}
	} else {
		switch opc := w >> 22 & 3; {
		case m.size == 8 && opc == 2 && (w>>24&1 != 0 || w>>10&3 == 0 || w>>10&3 == 2): // PRFM
			o.do = doNothing
			return
		case opc >= 2:
			load, m.signed = true, true
			if opc == 3 {
				m.to = 4
			}
		}
	}
	o.do = doStore
	if load {
		o.do = doLoad
	}
	unscaled := int64(int32(w<<11) >> 23)
	switch {
	case w>>24&1 != 0:
		m.offset = int64(w>>10&0xfff) * int64(m.size)
	case w>>21&1 == 0 && w>>10&1 == 0: // LDUR, LDTR
		m.offset = unscaled
	case w>>21&1 == 0 && w>>11&1 == 0: // behind the access
		m.update = unscaled
	case w>>21&1 == 0: // before it
		m.offset, m.update = unscaled, unscaled
	case w>>10&3 == 2:
		m.index = true
	default:
		o.do = doAnything
	}
}

// atomic decodes accesses that read and write at once.
func (o *operationARM64) atomic(w uint32) {
	m := &o.mem
	switch op := w >> 12 & 15; {
	case m.vectors:
	case op <= 8: // LDADD, SWP and others
		o.do, m.status, m.regs[0] = doExchange, general(w), general(w>>16)
	case op == 12 && w>>16&31 == zeroRegister: // LDAPR
		o.do = doLoad
	}
}

// pair decodes accesses of two registers.
func (o *operationARM64) pair(w uint32, load bool) {
	m := &o.mem
	m.regs[1], m.count = general(w>>10), 2
	opc := w >> 30
	switch {
	case m.vectors && opc < 3:
		m.size = 4 << opc
	case opc == 0:
		m.size = 4
	case opc == 1 && load && w>>23&3 != 0: // LDPSW
		m.size, m.signed = 4, true
	case opc == 2:
		m.size = 8
	default:
		return
	}
	o.do = doStore
	if load {
		o.do = doLoad
	}
	offset := int64(int32(w<<10)>>25) * int64(m.size)
	switch w >> 23 & 3 {
	case 0, 2:
		m.offset = offset
	case 1:
		m.update = offset
	case 3:
		m.offset, m.update = offset, offset
	}
}

// exclusive decodes accesses that are ordered, or done only if nobody else has written in between.
func (o *operationARM64) exclusive(w uint32, load bool) {
	m := &o.mem
	if m.vectors || w>>24&1 != 0 {
		return
	}
	ordered, pair := w>>23&1 != 0, w>>21&1 != 0
	switch {
	case ordered && !pair:
		o.do = doStore
		if load {
			o.do = doLoad
		}
	case ordered: // CAS
		o.do, m.status = doExchange, general(w>>16)
	case pair && m.size < 4: // CASP
		return
	case load: // LDXR, LDXP
		o.do = doLoad
		if pair {
			m.regs[1], m.count = general(w>>10), 2
		}
	default: // STXR, STXP
		o.do, m.status = doExchange, general(w>>16)
		if pair {
			m.size *= 2
		}
	}
}
