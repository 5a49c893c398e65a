// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// trampolineFunctions returns functions that replace the engine's in programs on a
// trampoline: those that read words of the context.
func trampolineFunctions(p *layout.Probe, t Options, half string) []bpf.Subprogram {
	if !p.Method.Trampoline() {
		return nil
	}
	unknown := asm.Comment("where it returns to is not known")
	insns := asm.Instructions{asm.Mov.Imm(asm.R0, 0).WithSource(unknown), asm.Return().WithSource(unknown)}
	funcs := []bpf.Subprogram{{Name: bpf.FuncReturnAddress, Args: 1, Insns: insns}}
	if p.Method == layout.MethodTracingMulti {
		funcs = append(funcs, funcWords(p, t, half), funcResult(p, t))
	}
	return funcs
}

// funcWords generates ks_words(context, words, number): it loads argument words of whatever
// function a shared program is hit at. They pass through the stack, because the verifier
// only lets the helper write to memory that it knows to be aligned, which the log of a
// session is not.
func funcWords(p *layout.Probe, t Options, half string) bpf.Subprogram {
	a := newAssembler(p, t, expr.AtEntry, half+"_words")
	a.ctx = asm.R6
	a.say("the arguments")
	a.emit(asm.Mov.Reg(asm.R6, asm.R1), asm.Mov.Reg(asm.R7, asm.R2), asm.Mov.Reg(asm.R8, asm.R3))
	done := a.label("done")
	for i := range bpf.MaxArgWords {
		a.emit(asm.JLE.Imm(asm.R8, int32(i), done))
		a.funcArg(i)
		a.emit(asm.StoreMem(asm.R7, int16(8*i), asm.R0, asm.DWord))
	}
	a.place(done)
	a.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
	return bpf.Subprogram{Name: bpf.FuncWords, Args: 3, Insns: a.done()}
}

// funcResult generates the function that loads the result. At entry it returns 0.
func funcResult(p *layout.Probe, t Options) bpf.Subprogram {
	a := newAssembler(p, t, expr.AtReturn, "result")
	a.ctx = asm.R1
	a.say("the result")
	a.emit(asm.Mov.Imm(asm.R0, 0), asm.StoreMem(asm.RFP, stackScratch, asm.R0, asm.DWord))
	a.funcResult()
	a.emit(asm.Return())
	return bpf.Subprogram{Name: bpf.FuncResult, Args: 1, Insns: a.done()}
}

// wordsFunction generates ks_words(context, words, number) for one function, whose
// signature says which words go where.
func wordsFunction(p *layout.Probe, t Options) bpf.Subprogram {
	a := newAssembler(p, t, expr.AtEntry, "words")
	a.ctx = asm.R6
	a.say("the arguments")
	a.emit(asm.Mov.Reg(asm.R6, asm.R1), asm.Mov.Reg(asm.R7, asm.R2))
	for _, arg := range p.Args {
		for i := range arg.Words {
			a.word(arg.Param, i)
			a.emit(asm.StoreMem(asm.R7, int16(8*(arg.Word+i)), asm.R0, asm.DWord))
		}
	}
	a.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
	return bpf.Subprogram{Name: bpf.FuncWords, Args: 3, Insns: a.done()}
}
