// SPDX-License-Identifier: Apache-2.0

package progs

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// A Passing is what instructions tell of how a function is called. Compilers take parameters and
// the result away from a static function where nobody needs them, and BTF goes on declaring them.
type Passing struct {
	// Most is how many registers can hold arguments, from R1 on: at one call at least, those behind
	// have no value that the function may read.
	Most int
	// Unused says that no caller reads the result.
	Unused bool
	// Known is false for a function that the program does not call itself, as its first one and
	// those that the kernel calls back. These have what they declare.
	Known bool
}

// An instruction is a struct bpf_insn.
type instruction struct {
	code     uint8
	dst, src uint8
	off      int16
	imm      int32
}

const instructionSize = 8

func decode(data []byte) []instruction {
	out := make([]instruction, 0, len(data)/instructionSize)
	for ; len(data) >= instructionSize; data = data[instructionSize:] {
		out = append(out, instruction{data[0], data[1] & 15, data[1] >> 4, int16(binary.NativeEndian.Uint16(data[2:])), int32(binary.NativeEndian.Uint32(data[4:]))})
	}
	return out
}

// Parts of an instruction's code (include/uapi/linux/bpf.h and bpf_common.h).
const (
	classLD, classLDX, classST, classSTX = 0, 1, 2, 3
	classALU, classJMP, classJMP32       = 4, 5, 6
	sourceReg                            = 0x08 // the operand is a register
	opMov, opNeg, opEnd                  = 0xb0, 0x80, 0xd0
	opJA, opCall, opExit, opMayGoto      = 0x00, 0x80, 0x90, 0xe0
	modeIMM, modeATOMIC                  = 0x00, 0xc0
	modeABS, modeIND                     = 0x20, 0x40
	fetch, exchange                      = 0x01, 0xe0
	compareExchange                      = 0xf1
	loadAcquire                          = 0x100
	pseudoCall                           = 1 // the source register of a call within the program
	pseudoFunc                           = 4 // that of the address of a function, which the kernel calls back
)

func (i *instruction) class() uint8 { return i.code & 7 }
func (i *instruction) op() uint8    { return i.code & 0xf0 }

func (i *instruction) jump() bool { return i.class() == classJMP || i.class() == classJMP32 }
func (i *instruction) call() bool {
	return i.code == classJMP|opCall || i.code == classJMP|opCall|sourceReg
}
func (i *instruction) exit() bool { return i.code == classJMP|opExit }

// within reports whether i calls a function of the program, and how far away it is. Once the
// program is machine code, the kernel has that in off, and the number of the function in imm.
func (i *instruction) within() bool { return i.call() && i.src == pseudoCall }

// A registers is a set of R0 to R10.
type registers uint16

const (
	result    registers = 1
	arguments registers = 0x3e // R1 to R5
	clobbered           = result | arguments
)

func reg(n uint8) registers { return 1 << n }

// reads and writes are the registers of an instruction that is no call within the program.
// Of a call nobody but the kernel knows how many arguments it takes.
func (i *instruction) effects() (reads, writes registers) {
	switch i.class() {
	case classLDX:
		return reg(i.src), reg(i.dst)
	case classST:
		return reg(i.dst), 0
	case classSTX:
		reads = reg(i.dst) | reg(i.src)
		if i.code&0xe0 == modeATOMIC && i.imm == loadAcquire {
			return reg(i.src), reg(i.dst)
		}
		if i.code&0xe0 == modeATOMIC {
			switch op := uint8(i.imm); {
			case op == compareExchange:
				return reads | result, result
			case op&fetch != 0:
				return reads, reg(i.src)
			}
		}
		return reads, 0
	case classLD:
		if mode := i.code & 0xe0; mode == modeABS || mode == modeIND {
			return reg(6) | reg(i.src), clobbered
		}
		return 0, reg(i.dst)
	case classJMP, classJMP32:
		switch {
		case i.call():
			return 0, clobbered
		case i.exit():
			return result, 0
		case i.op() == opJA || i.op() == opMayGoto:
			return 0, 0
		}
		reads = reg(i.dst)
		if i.code&sourceReg != 0 {
			reads |= reg(i.src)
		}
		return reads, 0
	}
	// Arithmetic. What a register becomes by x ^= x or x -= x does not depend on it.
	same := i.code&sourceReg != 0 && i.src == i.dst && (i.op() == 0xa0 || i.op() == 0x10)
	if i.op() != opMov && !same {
		reads = reg(i.dst)
	}
	if i.code&sourceReg != 0 && i.op() != opNeg && i.op() != opEnd && !same {
		reads |= reg(i.src)
	}
	return reads, reg(i.dst)
}

// next are the instructions that may follow the one at an index.
func next(code []instruction, at int) []int {
	i := &code[at]
	after := at + 1
	switch {
	case i.exit():
		return nil
	case i.code == classLD|0x18: // of two places
		after++
	case i.jump() && i.op() == opJA && i.code&sourceReg != 0: // to where a table says: nothing is known then
		return []int{-1}
	case i.jump() && i.op() == opJA && i.class() == classJMP32:
		return []int{at + 1 + int(i.imm)}
	case i.jump() && i.op() == opJA:
		return []int{at + 1 + int(i.off)}
	case i.jump() && !i.call():
		return []int{after, at + 1 + int(i.off)}
	}
	return []int{after}
}

// passing finds how each function is called that begins at one of starts. It returns nil if the
// instructions are not as expected.
func passing(code []instruction, starts []int) []Passing {
	bodies := make([][]int, len(starts))
	for f, start := range starts {
		if bodies[f] = body(code, start); bodies[f] == nil {
			return nil
		}
	}
	function := func(at int) int { return slices.Index(starts, at+1+int(code[at].off)) }
	out := make([]Passing, len(starts))
	for f := range out {
		out[f] = Passing{Most: 5, Unused: true}
	}
	// What calls may read bounds what a function may, from above; without them, from below.
	may, does := make([]registers, len(starts)), make([]registers, len(starts))
	for f, start := range starts {
		may[f], does[f] = live(code, bodies[f], arguments, true)[start], live(code, bodies[f], 0, true)[start]
	}
	calledBack := map[int]bool{}
	for f := range starts {
		before := defined(code, bodies[f], starts[f], f == 0)
		for _, at := range bodies[f] {
			if code[at].code == classLD|0x18 && code[at].src == pseudoFunc {
				if g := slices.Index(starts, at+1+int(code[at].imm)); g >= 0 {
					calledBack[g] = true
				}
			}
			if !code[at].within() {
				continue
			}
			g := function(at)
			if g < 0 {
				return nil
			}
			out[g].Known = true
			passed := (before[at]&may[g] | does[g]) & arguments
			out[g].Most = min(out[g].Most, max(bits.Len16(uint16(passed))-1, 0))
		}
	}
	for g := range calledBack {
		out[g] = Passing{Most: 5}
	}
	// A result is used if its caller reads it, which may be to return it: then if that result is used.
	todo := make([]int, len(starts))
	for f := range todo {
		todo[f] = f
	}
	for len(todo) > 0 { // a function is done again when its own result turns out to be used
		f := todo[0]
		todo = todo[1:]
		after := live(code, bodies[f], 0, !out[f].Unused || !out[f].Known)
		for _, at := range bodies[f] {
			if !code[at].within() {
				continue
			}
			if g := function(at); out[g].Unused && after[at+1]&result != 0 {
				out[g].Unused = false
				todo = append(todo, g)
			}
		}
	}
	return out
}

// body are the instructions of the function that begins at start.
func body(code []instruction, start int) []int {
	seen := map[int]bool{}
	for todo := []int{start}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if at < 0 || at >= len(code) {
			return nil
		}
		if seen[at] {
			continue
		}
		seen[at] = true
		todo = append(todo, next(code, at)...)
	}
	out := make([]int, 0, len(seen))
	for at := range seen {
		out = append(out, at)
	}
	slices.Sort(out)
	return out
}

// live returns which registers are read later, before each instruction of a body. called are those
// that every call reads, returns says whether exit reads the result.
func live(code []instruction, body []int, called registers, returns bool) map[int]registers {
	before, from := make(map[int]registers, len(body)), make(map[int][]int, len(body))
	for _, at := range body {
		for _, n := range next(code, at) {
			from[n] = append(from[n], at)
		}
	}
	for todo := slices.Clone(body); len(todo) > 0; { // each is done again at most as often as there are registers
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		var after registers
		for _, n := range next(code, at) {
			after |= before[n]
		}
		reads, writes := code[at].effects()
		switch {
		case code[at].exit() && !returns:
			reads = 0
		case code[at].call():
			reads = called
		}
		if now := after&^writes | reads; now != before[at] {
			before[at] = now
			todo = append(todo, from[at]...)
		}
	}
	return before
}

// defined returns which registers have a value on all ways, before each instruction of a body. The
// first function of a program has a context in R1 alone; others may have five arguments.
func defined(code []instruction, body []int, start int, first bool) map[int]registers {
	const all = registers(0x7ff)
	entry := arguments | reg(10)
	if first {
		entry = reg(1) | reg(10)
	}
	before := make(map[int]registers, len(body))
	for _, at := range body {
		before[at] = all
	}
	before[start] = entry
	for todo := slices.Clone(body); len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		_, writes := code[at].effects()
		after := before[at] | writes
		if code[at].call() || writes == clobbered {
			after = before[at]&^arguments | result
		}
		for _, n := range next(code, at) {
			if now := before[n] & after; now != before[n] {
				before[n] = now
				todo = append(todo, n)
			}
		}
	}
	return before
}
