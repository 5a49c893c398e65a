// SPDX-License-Identifier: Apache-2.0

package bpf

import "github.com/cilium/ebpf/asm"

// MaxStack is how many bytes of stack a program and the functions on a chain of calls below it can
// have (MAX_BPF_STACK).
const MaxStack = 512

// The verifier rounds the stack frame of a function up to 16 bytes if programs are compiled to
// machine code, else to 32 (kernel/bpf/verifier.c). frameUnit is the larger.
const frameUnit = 32

// StackDepth returns how many bytes of stack linked instructions need, as the verifier counts them:
// the stack frames of the deepest chain of calls. No function calls itself.
func StackDepth(insns asm.Instructions) int {
	frames, callees := map[string]int{}, map[string][]string{}
	for _, f := range split(insns) {
		name := f[0].Symbol()
		frames[name], callees[name] = FunctionStack(f), f.FunctionReferences()
	}
	var depth func(name string) int
	depth = func(name string) int {
		most := 0
		for _, callee := range callees[name] {
			most = max(most, depth(callee))
		}
		return frames[name] + most
	}
	return depth(insns.Name())
}

// FunctionStack returns the size of a function's stack frame, rounded up: how far below the frame
// pointer it loads, stores, or computes an address by adding to a copy of the frame pointer.
func FunctionStack(f asm.Instructions) int {
	lowest := -1
	copies := map[asm.Register]bool{}
	for _, ins := range f {
		class := ins.OpCode.Class()
		switch {
		case (class == asm.StXClass || class == asm.StClass) && ins.Dst == asm.RFP, class == asm.LdXClass && ins.Src == asm.RFP:
			lowest = min(lowest, int(ins.Offset))
		case class == asm.ALU64Class && ins.OpCode.ALUOp() == asm.Mov && ins.OpCode.Source() == asm.RegSource:
			copies[ins.Dst] = ins.Src == asm.RFP
		case class == asm.ALU64Class && ins.OpCode.ALUOp() == asm.Add && ins.OpCode.Source() == asm.ImmSource && copies[ins.Dst]:
			lowest = min(lowest, int(ins.Constant))
		}
	}
	return (-lowest + frameUnit - 1) / frameUnit * frameUnit
}
