// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// ticket holds that of the branch snapshot from a program's first instruction
// to its last. No other code uses the register.
const ticket = asm.R9

// takes returns what the tail of the record holds that one end of a call sends.
// A call that has two records has its stacks with the first, since they are
// the same at both ends, and its branches with the last.
func takes(p *layout.Probe, t Target, phase expr.Phase) bpf.Take {
	var take bpf.Take
	atEntry, atReturn := sends(p.Entry), sends(p.Return)
	if t.Stacks && (phase == expr.AtEntry && atEntry || !atEntry && atReturn) {
		take |= bpf.TakeStacks
		if t.Arch == "arm64" && phase == expr.AtEntry && p.IsCall() && !p.Method.Trampoline() {
			take |= bpf.TakeCaller
		}
	}
	if t.Branches && (phase == expr.AtReturn && atReturn || atEntry && !atReturn) {
		take |= bpf.TakeBranches
	}
	return take
}

func sends(h *layout.Half) bool { return h != nil && h.Record != nil }

// snapshot takes the newest branches if a record is to have them. What a program does
// before must neither call nor jump: that would be among them.
func (a *assembler) snapshot() {
	if !a.hasTicket() {
		return
	}
	a.say("take the newest branches")
	a.passContext()
	a.emit(bpf.AppendSnapshot(nil, asm.R6, ticket)...)
	a.ctx = asm.R6
}

// callList leaves it to the engine to capture and send, with the arguments in
// R1 and R2 already in place.
func (a *assembler) callList(name string, kind bpf.Kind) {
	take := takes(a.probe, a.target, a.phase)
	a.emit(asm.Mov.Imm(asm.R3, take.With(kind)), asm.Mov.Imm(asm.R4, 0))
	if take&bpf.TakeBranches != 0 {
		a.emit(asm.Mov.Reg(asm.R4, ticket))
	}
	a.emit(call(name))
}

// finishCall calls plain, or tailed for a record that has a tail, with the
// arguments in R1 and R2 already in place.
func (a *assembler) finishCall(plain, tailed string, r *layout.Record, kind bpf.Kind) {
	take, name := takes(a.probe, a.target, a.phase), plain
	if take != 0 {
		name = tailed
		a.ticket()
	}
	a.emit(asm.Mov.Imm(asm.R3, take.With(kind)), asm.Mov.Imm(asm.R4, recordSize(r)), call(name))
}

// hasTicket reports whether the program takes a branch snapshot. In sessions
// all do that run at a function's return.
func (a *assembler) hasTicket() bool {
	if a.probe.Role != layout.RoleCall {
		return !a.probe.Role.Injected() && a.target.Branches && a.phase == expr.AtReturn
	}
	return takes(a.probe, a.target, a.phase)&bpf.TakeBranches != 0
}

// ticket sets R5 to that of the branch snapshot, 0 if none was taken.
func (a *assembler) ticket() {
	if a.hasTicket() {
		a.emit(asm.Mov.Reg(asm.R5, ticket))
	} else {
		a.emit(asm.Mov.Imm(asm.R5, 0))
	}
}
