// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// injectedProgram generates the program of an injected probe. If a session is open, it
// notes in its log that the thread came by.
func injectedProgram(p *layout.Probe, t Options) (Programs, error) {
	phase, half, name, kind := expr.AtEntry, p.Entry, "entry", bpf.KindEntry
	if p.Role == layout.RoleInjectedReturn {
		phase, half, name, kind = expr.AtReturn, p.Return, "return", bpf.KindReturn
	}
	a := newAssembler(p, t, phase, name)
	a.keepContext()
	a.unlessIdle(a.drop)
	a.say("find the session")
	miss, unwanted := a.drop, a.label("unwanted")
	a.emit(asm.Mov.Imm(asm.R1, a.trap()), call(bpf.FuncAround), asm.JEq.Imm(asm.R0, 0, miss))
	a.emit(asm.StoreMem(asm.RFP, stackSession, asm.R0, asm.DWord))
	a.drop = unwanted
	for _, pred := range half.Predicates {
		a.condition(pred, unwanted)
	}
	a.say("make room for values")
	a.session(asm.R1)
	a.emit(asm.Mov.Imm(asm.R2, int32(p.ID)), asm.Mov.Imm(asm.R3, int32(kind)), asm.Mov.Imm(asm.R4, int32(half.Record.Size)))
	a.emit(call(bpf.FuncHit), asm.JEq.Imm(asm.R0, 0, unwanted))
	a.emit(asm.Mov.Reg(frameReg, asm.R0))
	a.stash(half.Stores, 0)
	if p.Conditional() {
		a.session(asm.R1)
		a.emit(call(bpf.FuncSatisfied))
	}
	a.emit(asm.Ja.Label(unwanted))
	if a.faulted {
		a.countFault()
	}
	a.place(unwanted)
	a.say("done")
	a.session(asm.R1)
	a.emit(call(bpf.FuncDone))
	a.place(miss)
	a.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
	f := append(a.program(programName(p, t, name)), t.Subprograms...)
	if phase == expr.AtReturn {
		return Programs{Return: f}, nil
	}
	return Programs{Entry: f}, nil
}

// trap returns 1 for a program at an instruction inside a function, else 0. A breakpoint
// may have led there, and the kernel counts that as an interrupt.
func (a *assembler) trap() int32 { return flag(a.probe.Kind == expr.Instruction) }
