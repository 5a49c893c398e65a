// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// either generates the program that kprobe.session runs at both ends of a call. It calls
// one function at entry and another at return. Its result at entry decides whether the
// kernel runs it at return; while tracing is off or paused it says no.
func either(p *layout.Probe, entry, ret string, kfuncs Kfuncs) (*bpf.Subprogram, error) {
	isReturn, err := kfuncs.CallIsReturn()
	if err != nil {
		return nil, err
	}
	const label, paused, off = ".at_return", ".paused", ".off"
	var insns asm.Instructions
	var head asm.Instructions
	if p.Role == layout.RoleCall { // programs of sessions test the switch when they would open one
		head = append(bpf.AppendRunning(nil, asm.R0), asm.JNE.Imm(asm.R0, int32(bpf.On), paused))
	}
	for _, ins := range append(head,
		asm.Mov.Reg(asm.R6, asm.R1),
		isReturn,
		asm.JNE.Imm(asm.R0, 0, label),
		asm.Mov.Reg(asm.R1, asm.R6),
		call(entry),
		asm.Return(),
		asm.Mov.Reg(asm.R1, asm.R6).WithSymbol(label),
		call(ret),
		asm.Return(),
	) {
		insns = append(insns, ins.WithSource(asm.Comment("entry or return?")))
	}
	if p.Role == layout.RoleCall {
		for _, ins := range []asm.Instruction{
			asm.JEq.Imm(asm.R0, int32(bpf.Off), off).WithSymbol(paused),
			asm.Mov.Reg(asm.R6, asm.R1),
			isReturn,
			asm.JNE.Imm(asm.R0, 0, label),
			asm.Mov.Imm(asm.R0, 1).WithSymbol(off),
			asm.Return(),
		} {
			insns = append(insns, ins.WithSource(asm.Comment("tracing is off, or paused")))
		}
	}
	return &bpf.Subprogram{Name: "session", Args: 1, Insns: insns}, nil
}

// joined generates the start of a program that fsession runs at both ends of a call. The
// code of the entry follows, and then that of the return, at label ret. Both have the
// context in R6. Calling them instead would cost more than what many of them do.
func joined(p *layout.Probe, ret string, kfuncs Kfuncs) (*bpf.Subprogram, error) {
	isReturn, err := kfuncs.CallIsReturn()
	if err != nil || kfuncs.Cookie == 0 {
		return nil, errNoSessions
	}
	const busy = ".busy"
	var head, insns asm.Instructions
	if p.Role != layout.RoleCall { // those of calls test the switch once they know at which end they run
		asks := bpf.AppendRunning
		if idlesFirst(p) {
			asks = bpf.AppendOpenSessions
		}
		head = append(asks(nil, asm.R0),
			asm.JNE.Imm(asm.R0, 0, busy),
			asm.Mov.Imm(asm.R0, 0),
			asm.Return())
	}
	for i, ins := range append(head,
		asm.Mov.Reg(asm.R6, asm.R1),
		isReturn,
		asm.JNE.Imm(asm.R0, 0, ret),
	) {
		if i > 0 && i == len(head) {
			ins = ins.WithSymbol(busy)
		}
		insns = append(insns, ins.WithSource(asm.Comment("entry or return?")))
	}
	return &bpf.Subprogram{Name: "session", Args: 1, Insns: insns}, nil
}

// idlesFirst reports whether a program for both ends first asks whether any session is
// open. It does if everything it does depends on that: most calls are outside of sessions,
// and at return the call in flight tells what the cookie would.
func idlesFirst(p *layout.Probe) bool {
	return p.AtBothEnds() && p.Role == layout.RoleInside && !p.HasItems()
}

// dropped is the result of a program for a call that is not wanted. With kprobe.session, 1
// at entry keeps the kernel from running the program at return.
func (a *assembler) dropped() int32 {
	if a.probe.Method == layout.MethodKprobeSession && a.phase == expr.AtEntry && a.probe.Return != nil {
		return 1
	}
	return 0
}

// afterEntry reports whether the program only runs if the entry program of the same call
// accepted the task.
func (a *assembler) afterEntry() bool {
	return a.probe.Method == layout.MethodKprobeSession && a.phase == expr.AtReturn && a.probe.Entry != nil
}
