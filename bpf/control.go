// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// VarRunning is the switch of all programs: they do nothing while it is 0.
// VarGuarded is how many calls the guard has left alone. control.h has both.
const (
	VarRunning = engineVarRunning
	VarGuarded = engineVarGuardedCalls
)

// FuncHold and FuncLetGo are what of the guard is not done in place.
const (
	FuncHold  = "ks_hold"
	FuncLetGo = "ks_let_go"
)

// The data sections that the switch and the guard's table lie in.
const (
	mapSwitch = ".data.switch"
	mapGuard  = ".data.guard"
)

// AppendRunning appends the code that sets reg to the switch.
func AppendRunning(dst asm.Instructions, reg asm.Register) asm.Instructions {
	return appendLoad(dst, reg, mapSwitch)
}

// appendLoad loads the 4 bytes at the beginning of a data section.
func appendLoad(dst asm.Instructions, reg asm.Register, section string) asm.Instructions {
	return append(dst,
		asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: reg, Src: asm.PseudoMapValue}.WithReference(section),
		asm.LoadMem(reg, reg, 0, asm.Word))
}

// A Guard keeps programs from running inside each other on one stack. The zero
// value is none: for programs that the kernel keeps from it.
type Guard struct {
	stackBits int // binary logarithm of the size of a kernel stack
}

// NewGuard returns a guard for a kernel whose stacks have that size, in bytes, a power
// of two.
func NewGuard(stackSize uint32) Guard {
	g := Guard{stackBits: stackBits}
	for 1<<g.stackBits < stackSize {
		g.stackBits++
	}
	return g
}

const (
	guards     = 1 << 10 // GUARDS
	guardTaken = 1 << 30 // GUARD_TAKEN
)

// AppendHold appends the code that takes hold of the stack if its place in the table
// is free: place holds its address then, R0 is 0, and stack its number, which
// FuncHold wants otherwise.
func (g Guard) AppendHold(dst asm.Instructions, place, stack asm.Register) asm.Instructions {
	return append(dst,
		asm.Mov.Reg32(stack, asm.RFP),
		asm.RSh.Imm32(stack, int32(g.stackBits)),
		asm.Mov.Reg32(asm.R0, stack),
		asm.And.Imm32(asm.R0, guards-1),
		asm.Mul.Imm32(asm.R0, int32(unsafe.Sizeof(engineGuard{}))),
		asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: place, Src: asm.PseudoMapValue}.WithReference(mapGuard),
		asm.Add.Reg(place, asm.R0),
		asm.Or.Imm32(stack, guardTaken),
		asm.Mov.Imm(asm.R0, 0),
		atomic(asm.CmpXchg, place, stack, int16(unsafe.Offsetof(engineGuard{}.Stack))), // and strays, which is 0 before and after
	)
}

// AppendAway appends the code that sets reg to 0 if place is the stack's home.
func AppendAway(dst asm.Instructions, reg, place asm.Register) asm.Instructions {
	return append(dst, asm.LoadMem(reg, place, int16(unsafe.Offsetof(engineGuard{}.Home)), asm.Word))
}

// AppendLetGo appends the code that lets go of the stack whose home place is. R0
// changes. Where stores may overtake each other, this one must not.
func AppendLetGo(dst asm.Instructions, place asm.Register, storesInOrder bool) asm.Instructions {
	dst = append(dst, asm.Mov.Imm(asm.R0, 0))
	offset := int16(unsafe.Offsetof(engineGuard{}.Stack))
	if storesInOrder {
		return append(dst, asm.StoreMem(place, offset, asm.R0, asm.Word))
	}
	swap := asm.Xchg.Mem(place, asm.R0, asm.Word, offset)
	swap.Constant = int64(asm.Xchg >> 8)
	return append(dst, swap)
}

// setGuard makes room for the guard's table.
func setGuard(spec *ebpf.CollectionSpec) {
	enlarge(spec.Maps[mapGuard], "guards", guards*int(unsafe.Sizeof(engineGuard{})))
}
