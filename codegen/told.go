// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// told is a program for both ends of a call that need not ask the kernel which end it is,
// which costs more than what many programs do. What most calls need it does itself, and
// calls the program of either end for the rest. It is nil for requests that need more.
//
// It may take a return for an entry. So at what it takes for an entry it does nothing that
// lasts until it calls the entry program, which begins with asking the kernel.
func told(p *layout.Probe, t Options) *bpf.Subprogram {
	c, k := cookieOf(p, t), t.kfuncs()
	if k.IsReturn == 0 || k.Cookie == 0 || p.Method != layout.MethodFsession || c == nil || p.Entry.Record != nil || t.Filtered {
		return nil
	}
	a := newAssembler(p, t, expr.AtEntry, "told")
	if len(a.others(p.Entry.Predicates, a.inRegisters)) > 0 {
		return nil
	}
	a.phase = expr.AtReturn
	if a.hasTicket() {
		return nil
	}
	emit, decides := a.byResult, a.inRegisters
	if c.timed {
		emit, decides = a.byTime, a.untroubled
	}
	late := p.Return.Predicates
	late = late[:len(late)-len(a.others(late, decides))]
	if !emit(c, late) {
		return nil
	}
	insns := a.done()
	if len(p.Return.Updates) > 0 {
		if len(insns.FunctionReferences()) > 0 {
			return nil // only the halves are linked with the engine
		}
		insns = withoutContext(insns)
	}
	return &bpf.Subprogram{Name: "session", Args: 1, Insns: insns}
}

// addsAtOnce reports whether a program that has evaluated these predicates can add a call up without the
// guard.
func (a *assembler) addsAtOnce(late []layout.Predicate) bool {
	r := a.probe.Return
	return len(r.Updates) > 0 && len(late) == len(r.Predicates) && !callsHelpers(r.Updates)
}

// withoutContext leaves out that the context is kept, if nothing needs it.
func withoutContext(insns asm.Instructions) asm.Instructions {
	uses := func(ins asm.Instruction) bool { return ins.Dst == asm.R6 || ins.Src == asm.R6 }
	first := slices.IndexFunc(insns, uses)
	if first < 0 || insns[first].OpCode != asm.Mov.Op(asm.RegSource) || insns[first].Src != asm.R1 || slices.ContainsFunc(insns[first+1:], uses) {
		return insns
	}
	return slices.Delete(insns, first, first+1)
}

// byResult tells the ends apart by the result. At entry the kernel has 0 in its place, so
// anything else is a result. 0 is taken for the entry. It may be the result as well, if the
// predicates drop calls that return 0: what is kept at such a return is never looked at.
func (a *assembler) byResult(c *cookie, late []layout.Predicate) bool {
	if !dropZero(late) {
		return false
	}
	a.ctx = asm.R1
	again, ret := a.label("again"), a.label("return")
	a.say("entry or return?")
	a.resultWord(0)
	a.emit(asm.JNE.Imm(asm.R0, 0, ret))
	a.phase, a.again = expr.AtEntry, again
	a.first(a.probe.Entry.Predicates, a.inRegisters)
	a.keepOrSwitch(c)
	if a.reads {
		return false
	}
	used := a.againUsed
	a.again, a.againUsed = "", false
	a.finish()
	if used {
		a.place(again)
		a.leaveTo("entry", "that takes more than loads")
	}
	a.phase = expr.AtReturn
	a.withResult(ret, func() { a.conditions(late) })
	a.leaveTo("return", "a return that may be wanted")
	return true
}

// byTime tells the ends apart by the time that entry has kept.
func (a *assembler) byTime(_ *cookie, late []layout.Predicate) bool {
	adds := a.addsAtOnce(late)
	if len(late) == 0 && !adds {
		return false
	}
	const address = int16(stackScratch)
	ret := a.label("return")
	a.ctx = asm.R1
	a.keepContext()
	a.say("entry or return?")
	a.emit(callKfunc(a.target.kfuncs().Cookie), asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord), asm.JNE.Imm(asm.R1, 0, ret))
	a.phase = expr.AtEntry
	a.emit(asm.StoreMem(asm.RFP, address, asm.R0, asm.DWord))
	a.first(a.probe.Entry.Predicates, a.inRegisters)
	a.unlessRunning()
	a.say("keep in the session's cookie")
	a.helper(asm.FnKtimeGetNs)
	a.emit(asm.LoadMem(asm.R1, asm.RFP, address, asm.DWord), asm.StoreMem(asm.R1, 0, asm.R0, asm.DWord))
	a.finish()
	a.place(ret)
	a.phase, a.inCookie = expr.AtReturn, true
	a.say("what entry has kept")
	a.emit(asm.StoreMem(asm.RFP, stackCookie, asm.R1, asm.DWord))
	a.conditions(late)
	if adds { // whatever the switch is now: it was on at entry, and nothing is sent
		a.add(a.probe.Return.Updates)
		a.say("done")
		a.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
		return true
	}
	a.leaveTo("return", "a return that may be wanted")
	a.contextOnStack()
	return true
}

// contextOnStack keeps the context on the stack instead of in R6, if nothing reads from it
// but what passes it on. A register that outlasts calls is saved and restored whenever the
// program runs, which takes more than to store the context once.
func (a *assembler) contextOnStack() {
	const slot = stackSpill
	passes := func(ins asm.Instruction) bool {
		return ins.OpCode == asm.Mov.Op(asm.RegSource) && ins.Dst == asm.R1 && ins.Src == asm.R6
	}
	keeps := func(ins asm.Instruction) bool {
		return ins.OpCode == asm.Mov.Op(asm.RegSource) && ins.Dst == asm.R6 && ins.Src == asm.R1
	}
	for _, ins := range a.insns {
		uses := ins.Dst == asm.R6 || ins.Src == asm.R6
		spills := (ins.Dst == asm.RFP || ins.Src == asm.RFP) && ins.Offset <= slot
		if uses && !passes(ins) && !keeps(ins) || spills {
			return
		}
	}
	for i, ins := range a.insns {
		with := asm.Instruction{}
		switch {
		case passes(ins):
			with = asm.LoadMem(asm.R1, asm.RFP, slot, asm.DWord)
		case keeps(ins):
			with = asm.StoreMem(asm.RFP, slot, asm.R1, asm.DWord)
		default:
			continue
		}
		with.Metadata = ins.Metadata
		a.insns[i] = with
	}
}

// leaveTo calls the program of an end and is done.
func (a *assembler) leaveTo(half, why string) {
	a.say(why)
	a.passContext()
	a.emit(call(programName(a.probe, a.target, half)), asm.Ja.Label(a.drop))
}

// withResult emits what emit does, to be reached by label with the result in R0, which is
// what most of it begins with.
func (a *assembler) withResult(label string, emit func()) {
	at := len(a.insns)
	a.resultWord(0)
	load := a.insns[at]
	a.insns = a.insns[:at]
	emit()
	if first := &a.insns[at]; first.OpCode == load.OpCode && first.Dst == load.Dst && first.Src == load.Src && first.Offset == load.Offset {
		a.insns = slices.Delete(a.insns, at, at+1)
	}
	a.insns[at] = a.insns[at].WithSymbol(label)
}

// unlessReturn drops the call at its return, which told may have taken for the entry.
func (a *assembler) unlessReturn() {
	a.keepContext()
	a.say("entry or return?")
	a.emit(callKfunc(a.target.kfuncs().IsReturn), asm.JNE.Imm(asm.R0, 0, a.drop))
}

// keepOrSwitch keeps the values, and the switch in place of the bit that says that the call
// is wanted: other positions than On have that bit at 0. The context is in R1, and lost.
func (a *assembler) keepOrSwitch(c *cookie) {
	a.say("keep in the session's cookie")
	if len(c.fields) == 0 {
		a.emit(asm.Mov.Imm(asm.R0, 0))
	}
	a.cookieFields(c)
	a.say("is tracing on?")
	a.emit(bpf.AppendRunning(nil, asm.R2)...)
	a.emit(asm.Or.Reg(asm.R0, asm.R2))
	a.say("keep in the session's cookie")
	a.spill()
	a.emit(callKfunc(a.target.kfuncs().Cookie))
	a.unspill(asm.R1)
	a.emit(asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord))
}

// dropZero reports whether predicates on the result alone drop a call that returns 0.
func dropZero(preds []layout.Predicate) bool {
	return slices.ContainsFunc(preds, func(pred layout.Predicate) bool {
		v, err := expr.Eval(pred.Term, zeroResult{})
		return err == nil && v == 0
	})
}

// A zeroResult is the state of a call for terms of its result alone, which is 0.
type zeroResult struct{ expr.Machine }

func (zeroResult) Result(_ uint32, p []byte) { clear(p) }
