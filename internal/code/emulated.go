// SPDX-License-Identifier: Apache-2.0

package code

import (
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"github.com/ksnoop/ksnoop/internal/ptregs"
)

// callSize is how many bytes the kernel takes every call for that it emulates.
const callSize = 5

// Misemulated reports whether the kernel goes on at a wrong place behind a kprobe on an
// instruction of amd64. It emulates a call, and pushes the address 5 bytes behind its start
// (int3_emulate_call), whatever its size is: behind "cs call", as the compiler writes calls of the
// thunks of r8 to r15, that is inside of the next instruction. Indirect calls had the same fault up
// to Linux 6.7, and in the stable releases of that time; those are not looked at here.
func Misemulated(code []byte) bool {
	n := prefixBytes(code)
	return n > 0 && n < len(code) && code[n] == 0xe8
}

// plainOps set their first operand and nothing else but flags, and go on behind themselves.
var plainOps = []x86asm.Op{x86asm.MOV, x86asm.LEA, x86asm.MOVZX, x86asm.MOVSX, x86asm.MOVSXD, x86asm.XOR, x86asm.ADD, x86asm.SUB, x86asm.AND, x86asm.OR,
	x86asm.SHL, x86asm.SHR, x86asm.SAR, x86asm.CMP, x86asm.TEST, x86asm.INC, x86asm.DEC, x86asm.NOP}

// plainSets returns the register that one instruction sets, as Call.At has it; "" for none. ok is
// false if it is not known to be plain.
func plainSets(code []byte) (register string, ok bool) {
	x, err := decodeX86(code)
	if err != nil || x.Len != len(code) || !slices.Contains(plainOps, x.Op) {
		return "", false
	}
	if reg, is := x.Args[0].(x86asm.Reg); is {
		w, _, _ := registerAMD64(reg)
		if w < 0 {
			return "", false
		}
		return "$" + ptregs.Names("amd64")[w], true
	}
	return "", true
}
