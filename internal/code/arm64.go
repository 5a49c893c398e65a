// SPDX-License-Identifier: Apache-2.0

package code

import (
	"encoding/binary"
	"fmt"

	"github.com/ksnoop/ksnoop/internal/ptregs"
)

// conditionARM64 tells whether a condition of B.cond holds, from pstate.
func conditionARM64(code uint8, pstate uint64) bool {
	n, z, c, v := pstate>>31&1 != 0, pstate>>30&1 != 0, pstate>>29&1 != 0, pstate>>28&1 != 0
	var holds bool
	switch code >> 1 & 7 {
	case 0:
		holds = z
	case 1:
		holds = c
	case 2:
		holds = n
	case 3:
		holds = v
	case 4:
		holds = c && !z
	case 5:
		holds = n == v
	case 6:
		holds = n == v && !z
	case 7:
		return true
	}
	return holds != (code&1 != 0)
}

// pstate is the word of the flags.
func pstate() int { return ptregs.Words("arm64", "pstate")[0] }

// decodeARM64 decodes what leads elsewhere or sets flags. All other instructions go on behind
// them, whatever they are: those that do not are one class of encodings.
func decodeARM64(code []byte, addr uint64) (Instruction, error) {
	in := Instruction{Addr: addr, Len: 4, writes: anyWord, stores: true}
	if len(code) < 4 {
		in.Len, in.flow = len(code), Unknown
		return in, errShort
	}
	w := binary.LittleEndian.Uint32(code)
	if w>>26&7 == 5 {
		in.branchARM64(w)
		return in, nil
	}
	in.writes, in.stores = writesARM64(w)
	in.compareARM64(w)
	return in, nil
}

// signed returns the low bits of x with their sign, times 4.
func signed(x uint32, bits int) uint64 { return uint64(int64(int32(x<<(32-bits))) >> (32 - bits) * 4) }

// branchARM64 decodes the class of branches, exceptions and system instructions.
func (in *Instruction) branchARM64(w uint32) {
	reg := int(w & 31)
	bits := 32 << (w >> 31)
	switch {
	case w>>26 == 0b000101: // B
		in.flow, in.Target = Jump, in.Addr+signed(w, 26)
	case w>>26 == 0b100101: // BL
		in.Target = in.Addr + signed(w, 26)
	case w>>24 == 0b01010100: // B.cond, BC.cond
		in.flow, in.Target = Branch, in.Addr+signed(w>>5, 19)
		in.Test = Test{Kind: FlagsARM64, Code: uint8(w & 15), Word: pstate()}
		if w&15 >= 14 {
			in.flow = Jump
		}
		in.writes, in.stores = noWord, false
	case w>>25&0x3f == 0b011010: // CBZ, CBNZ
		in.flow, in.Target = Branch, in.Addr+signed(w>>5, 19)
		in.Test = Test{Kind: Zero, Word: reg, Bits: bits}
		if w>>24&1 != 0 {
			in.Test.Kind = NotZero
		}
		in.tests(reg, bits/8)
	case w>>25&0x3f == 0b011011: // TBZ, TBNZ
		in.flow, in.Target = Branch, in.Addr+signed(w>>5, 14)
		in.Test = Test{Kind: BitClear, Word: reg, Bits: int(w>>31<<5 | w>>19&31)}
		if w>>24&1 != 0 {
			in.Test.Kind = BitSet
		}
		in.tests(reg, bits/8)
	case w>>25 == 0b1101011: // to a register
		switch w >> 21 & 15 {
		case 1, 9: // BLR
		case 2, 10, 4, 5: // RET, ERET, DRPS
			in.flow = Leave
		case 0, 8: // BR
			in.flow = Indirect
		default:
			in.flow = Unknown
		}
	case w>>24 == 0b11010100: // exceptions
		if w>>21&7 == 1 { // BRK, of BUG, WARN and unreachable code
			in.padding = true
		}
	case w>>24 == 0b11010101: // system
		if w&0xfffff01f == 0xd503201f { // hints: NOP, BTI, PAC
			in.writes, in.stores = noWord, false
			in.padding = w == 0xd503201f
		}
	case w>>24 == 0b01110100, w>>24 == 0b11110100, w>>24 == 0b01110101, w>>24 == 0b11110101: // CB: compare and branch, ARMv9.6
		in.flow = Unknown
	}
}

// tests sets the register that a branch tests.
func (in *Instruction) tests(reg, size int) {
	in.writes, in.stores = noWord, false
	if reg == zeroRegister {
		in.flow = Unknown // no compiler makes this
		return
	}
	in.operands = []Operand{registerARM64(reg, size)}
}

func registerARM64(reg, size int) Operand {
	letter := 'x'
	if size == 4 {
		letter = 'w'
	}
	return Operand{Text: fmt.Sprintf("%c%d", letter, reg), Size: size, Base: reg, Index: noWord}
}

// compareARM64 finds instructions that set the flags, and what they compare.
func (in *Instruction) compareARM64(w uint32) {
	size := 4 << (w >> 31)
	rd, rn, rm := int(w&31), int(w>>5&31), int(w>>16&31)
	var regs []int
	switch {
	case w>>24&0x1f == 0b10001 && w>>29&1 != 0: // ADDS, SUBS immediate
		regs = []int{rn}
	case w>>24&0x1f == 0b01011 && w>>29&1 != 0: // ADDS, SUBS registers
		regs = []int{rn, rm}
	case w>>23&0x3f == 0b100100 && w>>29&3 == 3: // ANDS immediate
		regs = []int{rn}
	case w>>24&0x1f == 0b01010 && w>>29&3 == 3: // ANDS, BICS registers
		regs = []int{rn, rm}
	case w>>21&0xff == 0b11010010 && w>>29&1 != 0: // CCMP, CCMN
		regs = []int{rn}
		if w>>11&1 == 0 {
			regs = []int{rn, rm}
		}
		rd = zeroRegister
	case w>>21&0xff == 0b11010000 && w>>29&1 != 0, // ADCS, SBCS
		w>>24&0x7f == 0x1e, // floating point, also compares
		w>>24&0x7f == 0x3a: // RMIF, SETF
		in.flags = true
		return
	default:
		return
	}
	in.flags = true
	for i, r := range regs {
		if r != zeroRegister && (r != rd || rd == zeroRegister) && (i == 0 || r != regs[0]) {
			in.operands = append(in.operands, registerARM64(r, size))
		}
	}
	if len(in.operands) == 0 && rd != zeroRegister {
		in.operands = append(in.operands, registerARM64(rd, size))
	}
	if rd != zeroRegister {
		in.writes = rd
	}
}

// writesARM64 returns which register an instruction of data processing writes, and whether it
// may write memory.
func writesARM64(w uint32) (word int, stores bool) {
	switch op := w >> 25 & 15; {
	case op == 0b1000 || op == 0b1001 || op == 0b0101 || op == 0b1101: // data processing, immediate and registers
		if rd := int(w & 31); rd != zeroRegister {
			return rd, false
		}
		return noWord, false
	case op&0b0111 == 0b0111: // floating point and vectors
		return noWord, false
	}
	o := operationOf(w)
	loads := o.do == doLoad && o.mem.count == 1 && !o.mem.vectors
	if !loads && o.do != doStore || o.mem.update != 0 {
		return anyWord, true
	}
	if loads {
		return o.mem.regs[0], false
	}
	return noWord, true
}

// KeepsPointer reports whether 8 aligned bytes among code are a pointer of the kernel. On arm64 it keeps one to a
// struct ftrace_ops before each function that can be traced (CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS), within what symbols
// say is the function before. A breakpoint there would change the pointer, and the kernel would jump to nowhere. No
// instruction begins with 16 bits that are set.
func KeepsPointer(arch string, word []byte) bool {
	return arch == "arm64" && len(word) == 8 && binary.LittleEndian.Uint64(word)>>48 == 0xffff
}

// BeforePointer returns the code before the first pointer among it.
func BeforePointer(arch string, text []byte, addr uint64) []byte {
	for at := int(-addr & 7); at+8 <= len(text); at += 8 {
		if KeepsPointer(arch, text[at:at+8]) {
			return text[:at]
		}
	}
	return text
}
