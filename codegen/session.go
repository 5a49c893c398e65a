// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// sessionStack is how much stack the program takes that tells the two ends of
// a call apart, in bytes.
const sessionStack = 32

// either is a program that the kernel runs at both ends of a call
// (kprobe.session): it calls one program at entry and another one at return.
// What it returns at entry decides whether it is run at return.
func either(entry, ret string) bpf.Function {
	const label = ".at_return"
	var insns asm.Instructions
	for _, ins := range []asm.Instruction{
		asm.Mov.Reg(asm.R6, asm.R1),
		call(bpf.FuncIsReturn),
		asm.JNE.Imm(asm.R0, 0, label),
		asm.Mov.Reg(asm.R1, asm.R6),
		call(entry),
		asm.Return(),
		asm.Mov.Reg(asm.R1, asm.R6).WithSymbol(label),
		call(ret),
		asm.Return(),
	} {
		insns = append(insns, ins.WithSource(asm.Comment("entry or return?")))
	}
	return bpf.Function{Name: "session", Args: 1, Insns: insns}
}

// dropped is what a program returns for a call that is not wanted: with
// kprobe.session 1 at entry, which keeps the kernel from running it at return.
func (a *assembler) dropped() int32 {
	if a.probe.Method == plan.MethodSession && a.phase == expr.AtEntry && a.probe.Return != nil {
		return 1
	}
	return 0
}

// afterEntry reports whether the program runs only if the entry program of the
// same call has found the task wanted.
func (a *assembler) afterEntry() bool {
	return a.probe.Method == plan.MethodSession && a.phase == expr.AtReturn && a.probe.Entry != nil
}
