// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
)

// A Loc is where a parameter is passed.
type Loc struct {
	// Slot and Slots are the 64-bit words of a fentry program's context that
	// hold it.
	Slot, Slots int
	// Reg is the first integer argument register, or -1 if it is on the
	// stack, Stack bytes above what the stack pointer shows at entry.
	Reg   int
	Stack int
}

// regs are the integer argument registers of an architecture and what lies
// between the stack pointer and the first stack argument at entry.
type callABI struct {
	regs       int
	stackStart int
	// user is where struct pt_regs has the parameters of a system call.
	user []int
}

var abis = map[string]callABI{
	"amd64": {6, 8, []int{112, 104, 96, 56, 72, 64}}, // System V: the return address is on top; system calls take r10 for cx
	"arm64": {8, 0, []int{0, 8, 16, 24, 32, 40}},     // AAPCS64
}

// locate assigns the parameters of proto to their places. Aggregates of up to
// 16 bytes travel in one or two registers, larger ones in memory; the kernel
// has no floating-point parameters.
func locate(params []btf.FuncParam, arch string) []Param {
	abi := abis[arch]
	out := make([]Param, 0, len(params))
	slot, reg, stack := 0, 0, abi.stackStart
	for _, p := range params {
		if _, variadic := p.Type.(*btf.Void); variadic {
			break // "...": unnamed, no type
		}
		words := 1
		if size, err := btf.Sizeof(p.Type); err == nil && size > 8 {
			words = (size + 7) / 8
		}
		loc := Loc{Slot: slot, Slots: words, Reg: -1}
		slot += words
		if words <= 2 && reg+words <= abi.regs {
			loc.Reg = reg
			reg += words
		} else {
			loc.Stack = stack
			stack += 8 * words
		}
		out = append(out, Param{Param: expr.Param{Name: p.Name, Type: p.Type}, Loc: loc})
	}
	return out
}
