// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// VarRunning is the switch of all programs, a Switch. VarGuarded counts the calls that the guard left
// alone. See control.h.
const (
	VarRunning = engineVarRunning
	VarGuarded = engineVarGuardedCalls
)

// The data sections that the switch and the guard's table lie in.
const (
	mapSwitch = ".data.switch"
	mapGuard  = ".data.guard"
)

// A Switch turns all programs on and off.
type Switch uint32

const (
	Off    = Switch(enginePositionOFF)    // programs do nothing
	On     = Switch(enginePositionON)     // they do everything
	Paused = Switch(enginePositionPAUSED) // they finish calls and sessions that were begun before
)

// AppendRunning appends the code that sets reg to the switch.
func AppendRunning(dst asm.Instructions, reg asm.Register) asm.Instructions {
	return appendLoad(dst, reg, mapSwitch)
}

// A Guard keeps programs from running inside each other on one stack. The zero value is none: the
// kernel itself keeps some kinds of programs from it.
type Guard struct {
	stackBits int // binary logarithm of the size of a kernel stack
}

// NewGuard returns a guard for a kernel whose stacks have a size, in bytes, that is a power of two.
func NewGuard(stackSize uint32) Guard {
	g := Guard{stackBits: stackBits}
	for 1<<g.stackBits < stackSize {
		g.stackBits++
	}
	return g
}

const (
	guards     = int32(engineGuardLimitGUARDS)
	guardTaken = int32(engineGuardLimitGUARD_TAKEN)
)

// AppendHold appends the code that holds the stack that on points into, if its home in the table is
// free. place is the address of the home then. If the home is not free, the code jumps to slow, where
// stack is the argument of FuncHold. R0 changes. on may be the frame pointer only of a program that has
// no stack of its own, as it can have since Linux 6.13.
func (g Guard) AppendHold(dst asm.Instructions, on, place, stack asm.Register, slow string) asm.Instructions {
	size := int32(unsafe.Sizeof(engineGuard{}))
	return append(dst,
		asm.Mov.Reg32(stack, on),
		asm.RSh.Imm32(stack, int32(g.stackBits)),
		asm.Mov.Reg32(asm.R0, stack),
		asm.And.Imm32(asm.R0, guards-1),
		asm.Mul.Imm32(asm.R0, size),
		asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: place, Src: asm.PseudoMapValue}.WithReference(mapGuard),
		asm.Add.Reg(place, asm.R0),
		asm.Or.Imm32(stack, guardTaken),
		asm.LoadMem(asm.R0, place, int16(size)+int16(unsafe.Offsetof(engineGuard{}.Stack)), asm.Word), // the upper part of the same stack?
		asm.Sub.Imm32(asm.R0, 1),
		asm.JEq.Reg32(asm.R0, stack, slow),
		asm.Mov.Imm(asm.R0, 0),
		atomically(asm.CmpXchg, place, stack, int16(unsafe.Offsetof(engineGuard{}.Stack))), // and strays, which is 0 before and after
		asm.JNE.Imm(asm.R0, 0, slow),
	)
}

// AppendAway appends the code that sets reg to 0 if place is a home, not one of the other places.
func AppendAway(dst asm.Instructions, reg, place asm.Register) asm.Instructions {
	return append(dst, asm.LoadMem(reg, place, int16(unsafe.Offsetof(engineGuard{}.Home)), asm.Word))
}

// AppendLetGo appends the code that lets go of the stack whose home is at place. R0 changes. The
// store needs no order: programs on the same stack see it in any case, and one on another stack that
// sees it late takes another place.
func AppendLetGo(dst asm.Instructions, place asm.Register) asm.Instructions {
	return append(dst, asm.Mov.Imm(asm.R0, 0), asm.StoreMem(place, int16(unsafe.Offsetof(engineGuard{}.Stack)), asm.R0, asm.Word))
}

// setGuard makes room for the guard's table, and for one place more: AppendHold looks at the place
// behind a home, and the last home has none in the table.
func setGuard(spec *ebpf.CollectionSpec) {
	enlarge(spec.Maps[mapGuard], "guards", int(guards+1)*int(unsafe.Sizeof(engineGuard{})))
}
