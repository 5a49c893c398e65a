// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// ticket is the register that holds the ticket of the branch snapshot for the whole
// program. No other code uses it.
const ticket = asm.R9

// takes returns which tail the record of one end of a call carries. If a call has two
// records, the first has the stacks, as they are the same at both ends, and the last has
// the branches.
func takes(p *layout.Probe, t Options, phase expr.Phase) bpf.Take {
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
	if p.Path() && phase == expr.AtReturn {
		take |= bpf.TakePath
	}
	return take
}

func sends(h *layout.Half) bool { return h != nil && h.Record != nil && len(h.Updates) == 0 }

func recordSize(r *layout.Record) int32 { return int32(bpf.EventSize + int(r.Size)) }

// snapshot takes the newest branch records if a record is to have them. Code before it must
// neither call nor jump, since that would be recorded too.
func (a *assembler) snapshot() {
	if !a.hasTicket() {
		return
	}
	a.say("take the newest branches")
	a.passContext()
	a.emit(bpf.AppendSnapshot(nil, asm.R6, ticket)...)
	a.ctx = asm.R6
}

// callList lets the engine capture by its table, and send. R1 and R2 hold the arguments.
func (a *assembler) callList(name string, kind bpf.Kind) {
	take := takes(a.probe, a.target, a.phase)
	a.emit(asm.Mov.Imm(asm.R3, take.With(kind)), asm.Mov.Imm(asm.R4, 0))
	if take&bpf.TakeBranches != 0 {
		a.emit(asm.Mov.Reg(asm.R4, ticket))
	}
	a.emit(call(name))
}

// finishCall calls the engine function plain, or tailed if the record has a tail. R1 and R2
// hold the arguments.
func (a *assembler) finishCall(plain, tailed string, r *layout.Record, kind bpf.Kind) {
	take, name := takes(a.probe, a.target, a.phase), plain
	if take != 0 {
		name = tailed
		a.ticket()
	}
	a.emit(asm.Mov.Imm(asm.R3, take.With(kind)), asm.Mov.Imm(asm.R4, recordSize(r)), call(name))
}

// hasTicket reports whether the program takes a branch snapshot. In sessions, all return
// programs do.
func (a *assembler) hasTicket() bool {
	if a.probe.Role != layout.RoleCall {
		return !a.probe.Role.Injected() && a.target.Branches && a.phase == expr.AtReturn
	}
	return takes(a.probe, a.target, a.phase)&bpf.TakeBranches != 0
}

// ticket sets R5 to the ticket of the branch snapshot, or to 0 if there is none.
func (a *assembler) ticket() {
	if a.hasTicket() {
		a.emit(asm.Mov.Reg(asm.R5, ticket))
	} else {
		a.emit(asm.Mov.Imm(asm.R5, 0))
	}
}
