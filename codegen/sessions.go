// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// Cookie returns the 64-bit cookie that tells a shared program about its function: the
// probe's index and, for sessions, its role and error class. bpf/session.h has the bits.
func Cookie(p *layout.Probe) uint64 {
	c := uint64(p.ID)
	c |= uint64(p.Class) << bpf.CookieClassShift
	if p.Role == layout.RoleEntry {
		c |= bpf.CookieEntry
		if p.Method.Trampoline() {
			c |= bpf.CookieTrampoline
		}
	}
	if p.Args != nil {
		c |= bpf.CookieArgs
	}
	return c
}

// cookie sets reg to the probe's cookie. The context is in R6.
func (a *assembler) cookie(reg asm.Register) {
	if !a.target.Shared {
		a.constant(reg, Cookie(a.probe))
		return
	}
	a.hit()
	if reg != asm.R0 {
		a.emit(asm.Mov.Reg(reg, asm.R0))
	}
}

// stackHalf sets reg to the low half of stackKey. The verifier takes that for a number even
// if the key is the address of the context.
func (a *assembler) stackHalf(reg asm.Register) {
	a.stackKey(reg)
	a.emit(asm.Mov.Reg32(reg, reg))
}

// inStack sets R3 to what tells a call from others of its function in a session. It returns kernel or, if the function
// is the process's, user: the engine function that is given this. R4 is lost for FuncPushUser.
func (a *assembler) inStack(kernel, user string) string {
	if !a.inProcess() {
		a.stackHalf(asm.R3)
		return kernel
	}
	a.userStack(asm.R3)
	if user == bpf.FuncPushUser {
		a.emit(asm.Mov.Reg(asm.R4, a.ctx))
	}
	return user
}

// A Shape is what the programs of a function depend on if sessions record the function and
// the SPEC asks for nothing else. Functions of equal shape share their programs. Shapes are
// comparable.
type Shape struct {
	method layout.Method
	entry  bool
	layer  int
}

// ShapeOf returns the shape of a probe; false if its programs cannot be shared.
func ShapeOf(p *layout.Probe, t Options) (Shape, bool) {
	if p.Role == layout.RoleCall || p.HasItems() || !t.Shared {
		return Shape{}, false
	}
	return Shape{p.Method, p.Role == layout.RoleEntry, t.Layer}, true
}

// returned sets reg to the function's result. Shared programs do this for void functions
// too; the value is never read.
func (a *assembler) returned(reg asm.Register) {
	if a.probe.Result == nil && !a.target.Shared {
		a.emit(asm.Mov.Imm(reg, 0))
		return
	}
	a.resultWord(0)
	a.emit(asm.Mov.Reg(reg, asm.R0))
}

// sessionPrograms generates the programs of a function in sessions.
func sessionPrograms(p *layout.Probe, t Options) (Programs, error) {
	if p.Role.Injected() {
		return injectedProgram(p, t)
	}
	var out Programs
	for _, half := range []struct {
		phase expr.Phase
		name  string
		plain func(*assembler)
		items func(*assembler)
		funcs *[]bpf.Subprogram
	}{
		{expr.AtEntry, "entry", enterProgram, enterItems, &out.Entry},
		{expr.AtReturn, "return", leaveProgram, leaveItems, &out.Return},
	} {
		a := newAssembler(p, t, half.phase, half.name)
		switch {
		case a.hasTicket():
			a.snapshot()
		case p.HasItems() || t.Shared || half.phase == expr.AtEntry && p.Role == layout.RoleEntry:
			a.keepContext() // past engine calls that come before the last one
		}
		if p.HasItems() {
			half.items(a)
		} else {
			half.plain(a)
		}
		*half.funcs = append(*half.funcs, a.program(programName(p, t, half.name))...)
		*half.funcs = append(*half.funcs, t.Subprograms...)
		*half.funcs = append(*half.funcs, trampolineFunctions(p, t, half.name)...)
		if half.phase == expr.AtEntry && p.Method.Trampoline() && p.Method != layout.MethodTracingMulti {
			*half.funcs = append(*half.funcs, wordsFunction(p, t))
		}
	}
	return out, out.join(p, t)
}

// enterProgram emits the entry program of a function that is recorded without values or
// predicates.
func enterProgram(a *assembler) {
	idle, entry := a.label("idle"), a.probe.Role == layout.RoleEntry
	switch {
	case entry:
		a.say("is the task wanted?")
		a.emit(call(bpf.FuncAway), asm.JSLT.Imm(asm.R0, 0, idle), asm.Mov.Reg(asm.R7, asm.R0))
	case !idlesFirst(a.probe):
		a.unlessIdle(idle)
	}
	a.say("record the call")
	a.cookie(asm.R2)
	if entry {
		a.emit(asm.Or.Reg(asm.R2, asm.R7))
	}
	enter := a.inStack(bpf.FuncEnter, bpf.FuncEnterUser)
	a.passContext()
	a.emit(call(enter))
	switch {
	case a.probe.Method == layout.MethodKprobeSession:
		a.emit(asm.Return())
	case a.probe.AtBothEnds() && entry:
		a.emit(asm.JNE.Imm(asm.R0, 0, a.drop))
		a.opened()
		fallthrough
	default:
		a.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
	}
	a.place(a.drop)
	a.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
	a.place(idle)
	a.emit(asm.Mov.Imm(asm.R0, a.dropped()), asm.Return())
}

// unlessIdle jumps to idle if no session is open. It comes before anything that takes time,
// such as finding the cookie where many functions share a link.
func (a *assembler) unlessIdle(idle string) {
	a.say("is a session open?")
	a.emit(bpf.AppendOpenSessions(nil, asm.R0)...)
	a.emit(asm.JEq.Imm(asm.R0, 0, idle))
}

// leaveProgram emits the return program that goes with enterProgram.
func leaveProgram(a *assembler) {
	if !idlesFirst(a.probe) {
		a.unlessIdle(a.drop)
		a.unlessOpened()
	}
	a.say("record the return")
	a.returned(asm.R4)
	if a.target.Shared { // on the stack: every call outside of sessions would have to save a register
		a.emit(asm.StoreMem(asm.RFP, stackResult, asm.R4, asm.DWord))
	}
	a.cookie(asm.R2)
	if a.target.Shared {
		a.emit(asm.LoadMem(asm.R4, asm.RFP, stackResult, asm.DWord))
	}
	leave := a.inStack(bpf.FuncLeave, bpf.FuncLeaveUser)
	a.passContext()
	a.ticket()
	a.emit(call(leave))
	a.place(a.drop)
	a.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
}

func (a *assembler) session(reg asm.Register) {
	a.emit(asm.LoadMem(reg, asm.RFP, stackSession, asm.DWord))
}

// enterItems emits the entry program of a function with values or predicates. A call that
// does not satisfy the predicates is not recorded.
func enterItems(a *assembler) {
	p := a.probe
	miss, unwanted := a.drop, a.label("unwanted")
	a.say("find the session")
	a.cookie(asm.R1)
	a.emit(call(bpf.FuncSession), asm.JEq.Imm(asm.R0, 0, miss), asm.StoreMem(asm.RFP, stackSession, asm.R0, asm.DWord))
	a.drop = unwanted
	rejected := unwanted
	if a.inProcess() {
		rejected = a.label("rejected")
	}
	for _, pred := range p.Entry.Predicates {
		a.condition(pred, rejected)
	}
	a.say("record the call")
	a.cookie(asm.R2)
	push := a.inStack(bpf.FuncPush, bpf.FuncPushUser)
	a.session(asm.R1)
	a.emit(call(push), asm.JEq.Imm(asm.R0, 0, unwanted))
	a.opened()
	done := a.label("done")
	if p.Args != nil {
		a.cookie(asm.R3)
		a.emit(asm.Mov.Reg(asm.R1, a.ctx))
		a.session(asm.R2)
		a.emit(call(bpf.FuncLogArgs))
	}
	if p.Conditional() && len(p.Return.Predicates) == 0 {
		a.say("its predicates hold")
		a.session(asm.R1)
		a.emit(call(bpf.FuncSatisfied))
	}
	a.say("make room for values")
	a.cookie(asm.R2)
	a.session(asm.R1)
	a.emit(asm.Mov.Imm(asm.R3, int32(p.Return.Record.Size)), call(bpf.FuncItem), asm.JEq.Imm(asm.R0, 0, done), asm.Mov.Reg(frameReg, asm.R0))
	a.stash(p.Entry.Stores, slotMask(p.Return.Stores))
	a.place(done)
	a.say("done")
	a.session(asm.R1)
	a.emit(call(bpf.FuncDone), asm.Mov.Imm(asm.R0, 0), asm.Return())
	if a.faulted {
		a.countFault()
	}
	if rejected != unwanted && len(p.Entry.Predicates) > 0 {
		a.place(rejected)
		a.say("its return is not one of the calls in flight")
		a.session(asm.R1)
		a.emit(asm.Mov.Reg(asm.R2, a.ctx))
		a.userStack(asm.R3)
		a.emit(call(bpf.FuncRejectUser))
	}
	a.place(unwanted)
	a.say("not wanted")
	a.session(asm.R1)
	a.emit(call(bpf.FuncDone))
	a.place(miss)
	a.emit(asm.Mov.Imm(asm.R0, a.dropped()), asm.Return())
}

// slotMask returns the bits of the slots in a fault mask.
func slotMask(slots []layout.Slot) uint64 {
	var mask uint64
	for _, s := range slots {
		mask |= 1 << s.Index
	}
	return mask
}

// leaveItems emits the return program that goes with enterItems.
func leaveItems(a *assembler) {
	p := a.probe
	a.say("find the session")
	miss, done, pop := a.drop, a.label("done"), a.label("pop")
	a.unlessOpened()
	a.emit(call(bpf.FuncOpenSession), asm.JEq.Imm(asm.R0, 0, miss), asm.StoreMem(asm.RFP, stackSession, asm.R0, asm.DWord))
	if a.target.Branches {
		a.emit(asm.StoreMem(asm.R0, int16(bpf.SessionTicket), ticket, asm.DWord))
	}
	a.drop = done
	a.cookie(asm.R2)
	innermost := a.inStack(bpf.FuncInnermost, bpf.FuncInnermostUser)
	a.session(asm.R1)
	a.emit(call(innermost), asm.JEq.Imm(asm.R0, 0, done), asm.StoreMem(asm.RFP, stackEntry, asm.R0, asm.DWord))
	const hidden = asm.R9
	a.emit(asm.Mov.Imm(hidden, 0))
	unmet := a.label("unmet")
	for _, pred := range p.Return.Predicates {
		if expr.ReadsKept(pred.Term) { // what is not known does not hold
			a.findItem(unmet)
		}
		a.condition(pred, unmet)
	}
	fault, faulted := a.fault, a.faulted
	if len(p.Return.Predicates) > 0 {
		a.say("its predicates hold")
		a.session(asm.R1)
		a.emit(call(bpf.FuncSatisfied))
	}
	a.findItem(pop)
	if len(p.Return.Stores) > 0 {
		a.say("capture")
		a.emit(asm.LoadMem(captureFaults, captureData, int16(bpf.FrameFaults), asm.DWord))
		a.constant(asm.R1, ^slotMask(p.Return.Stores))
		a.emit(asm.And.Reg(captureFaults, asm.R1))
		a.storeAll(p.Return.Stores)
		a.emit(asm.StoreMem(captureData, int16(bpf.FrameFaults), captureFaults, asm.DWord))
	}
	a.fault, a.faulted = fault, faulted
	a.emit(asm.Ja.Label(pop))
	if a.faulted {
		a.countFault()
	}
	a.place(unmet)
	a.say("a predicate does not hold")
	a.emit(asm.Mov.Imm(hidden, int32(bpf.CallHidden)))
	a.place(pop)
	a.say("record the return")
	a.session(asm.R1)
	a.emit(asm.Mov.Imm(asm.R2, int32(p.Return.Record.Size)), call(bpf.FuncLogItem))
	a.cookie(asm.R8)
	a.returned(asm.R4)
	a.emit(asm.Mov.Reg(asm.R1, a.ctx))
	a.session(asm.R2)
	a.emit(asm.Mov.Reg(asm.R3, asm.R8), asm.Mov.Reg(asm.R5, hidden), call(bpf.FuncPop))
	a.place(done)
	a.say("done")
	a.session(asm.R1)
	a.emit(call(bpf.FuncDone))
	a.place(miss)
	a.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
}

// findItem emits the search for the values of the call that returns, unless that has been emitted before. If they found no
// room, it jumps to none.
func (a *assembler) findItem(none string) {
	if a.frame == captureData {
		return
	}
	a.say("find the call's values")
	a.session(asm.R1)
	a.emit(asm.Mov.Imm(asm.R2, int32(a.probe.Return.Record.Size)), call(bpf.FuncItemOf), asm.JEq.Imm(asm.R0, 0, none))
	a.emit(asm.Mov.Reg(captureData, asm.R0))
	a.frame, a.data = captureData, bpf.FrameData
}
