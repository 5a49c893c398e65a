// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// sessionStack is how much stack the functions take that tell the two ends of
// a call apart, in bytes: a frame each for the program and for ks_capture.
const sessionStack = 2 * 32

// session joins the programs of both ends of a call to one that the kernel
// runs at both (kprobe.session). What the entry program returns decides
// whether it is run at return.
func session(entry, ret []bpf.Function) []bpf.Function {
	funcs := []bpf.Function{atEither("session", 1, entry[0].Name, ret[0].Name), entry[0], ret[0]}
	names := [2]string{"capture_entry", "capture_return"}
	captures := false
	for i, half := range [][]bpf.Function{entry, ret} {
		if len(half) < 2 {
			names[i] = ""
			continue
		}
		half[1].Name = names[i]
		funcs = append(funcs, half[1])
		captures = true
	}
	if captures {
		funcs = append(funcs, atEither(bpf.FuncCapture, 2, names[0], names[1]))
	}
	return funcs
}

// atEither is a function that calls one function at entry and another one at
// return, each with its own arguments. Without a name it does nothing then.
func atEither(name string, args int, atEntry, atReturn string) bpf.Function {
	saved := [...]asm.Register{asm.R6, asm.R7}
	parameters := [...]asm.Register{asm.R1, asm.R2}
	var insns asm.Instructions
	emit := func(more ...asm.Instruction) {
		for _, ins := range more {
			insns = append(insns, ins.WithSource(asm.Comment("entry or return?")))
		}
	}
	for i := range args {
		emit(asm.Mov.Reg(saved[i], parameters[i]))
	}
	// A call returns from the middle: the labels of two ends cannot meet.
	end := func(callee string) []asm.Instruction {
		if callee == "" {
			return []asm.Instruction{asm.Mov.Imm(asm.R0, 0), asm.Return()}
		}
		var out []asm.Instruction
		for i := range args {
			out = append(out, asm.Mov.Reg(parameters[i], saved[i]))
		}
		return append(out, call(callee), asm.Return())
	}
	label := "." + name + "_at_return"
	emit(call(bpf.FuncIsReturn), asm.JNE.Imm(asm.R0, 0, label))
	emit(end(atEntry)...)
	second := end(atReturn)
	second[0] = second[0].WithSymbol(label)
	emit(second...)
	return bpf.Function{Name: name, Args: args, Insns: insns}
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
