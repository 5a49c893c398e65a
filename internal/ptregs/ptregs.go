// SPDX-License-Identifier: Apache-2.0

// Package ptregs knows struct pt_regs, the registers that a probe is handed, by
// architecture (Go's name of it): arch/x86/include/asm/ptrace.h and
// arch/arm64/include/asm/ptrace.h. A word of it is known by its number; word n is
// 8*n bytes from the begin.
package ptregs

import "slices"

// Names are the words that are general registers, in order; "" is another word.
func Names(arch string) []string { return arches[arch].names }

// Words finds registers by their names; a name that is unknown has the word -1.
func Words(arch string, registers ...string) []int {
	words := make([]int, len(registers))
	for i, name := range registers {
		words[i] = slices.Index(arches[arch].names, name)
	}
	return words
}

// Arguments are the words that have the integer arguments of a function.
func Arguments(arch string) []int { return Words(arch, arches[arch].arguments...) }

// Results are the words of a function's result; the second is used by results of
// more than 8 bytes.
func Results(arch string) []int { return Words(arch, arches[arch].results...) }

// SyscallArguments are the words that have the arguments of a system call when the
// kernel has been entered.
func SyscallArguments(arch string) []int { return Words(arch, arches[arch].syscall...) }

// DWARF returns the word of a register as debug info numbers it; ok is false if it
// is none of the general ones.
func DWARF(arch string, n uint64) (word int, ok bool) {
	names := arches[arch].dwarf
	if n >= uint64(len(names)) {
		return 0, false
	}
	return slices.Index(arches[arch].names, names[n]), true
}

type registers struct {
	names, arguments, results, syscall, dwarf []string
}

var arm64 = []string{"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18",
	"x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp", "pc", "pstate"}

// arches is never changed.
var arches = map[string]registers{
	"amd64": {
		names:     []string{"r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8", "ax", "cx", "dx", "si", "di", "", "ip", "", "flags", "sp"},
		arguments: []string{"di", "si", "dx", "cx", "r8", "r9"},
		results:   []string{"ax", "dx"},
		syscall:   []string{"di", "si", "dx", "r10", "r8", "r9"}, // the CPU itself needs cx
		dwarf:     []string{"ax", "dx", "cx", "bx", "si", "di", "bp", "sp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"},
	},
	"arm64": {names: arm64, arguments: arm64[:8], results: arm64[:2], syscall: arm64[:6], dwarf: arm64[:32]},
}
