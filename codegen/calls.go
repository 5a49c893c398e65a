// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// entryProgram emits the program for the entry of a call.
func entryProgram(a *assembler) {
	p, c := a.probe, cookieOf(a.probe, a.target)
	if p.Stashed && (a.inPlace() || a.inProcess()) {
		a.keepContext() // forget needs it, wherever it is reached from
	}
	if a.target.told != nil {
		a.unlessReturn()
	}
	if p.Path() {
		a.enterPath()
	}
	rest := a.begin(p.Entry.Predicates)
	if p.Stashed && a.inPlace() && p.Entry.Record == nil {
		a.lightly(false, func() {
			a.predicates(rest)
			a.keep()
		})
		a.forget()
		return
	}
	if len(p.Entry.Updates) > 0 {
		a.wholly(p.Entry.Updates, rest)
		a.finish()
		return
	}
	a.lightly(p.Entry.Record != nil || p.Stashed && c == nil, func() { a.predicates(rest) })
	if p.Stashed || a.target.Shared {
		a.keepContext()
	}
	if p.Entry.Record != nil {
		a.admit()
		a.send(p.Entry.Record, bpf.KindEntry)
	}
	switch {
	case p.Stashed && c != nil:
		a.lightly(false, func() { a.storeCookie(c) })
	case p.Stashed:
		a.keep()
	}
	if p.Path() {
		a.openPath()
	}
	switch {
	case p.Stashed && a.inPlace():
		a.forget()
	case p.Stashed && a.inProcess():
		a.forgetUser()
	default:
		a.finish()
	}
}

// keep takes a frame for the call and stores the kept values in it.
func (a *assembler) keep() {
	p := a.probe
	a.open()
	if _, ok := List(p, p.Entry, a.target); ok && p.Joined {
		a.say("keep what is listed")
		a.emit(asm.Mov.Reg(asm.R2, frameReg), asm.Mov.Reg(asm.R1, a.ctx), call(bpf.FuncStashList))
	} else if p.Joined {
		a.stash(p.Entry.Stores, 0)
	}
	a.opened()
}

// open takes a frame that the return program can find, and leaves it in frameReg.
func (a *assembler) open() {
	if a.inPlace() {
		a.openInPlace()
		return
	}
	a.say("take a frame for the call")
	a.probeID()
	if a.inProcess() {
		a.userName(asm.R4, asm.R5)
		a.emit(asm.Mov.Imm(asm.R3, flag(a.probe.Timed)), call(bpf.FuncOpenUser))
	} else {
		a.stackKey(asm.R1)
		a.emit(asm.Mov.Imm(asm.R3, flag(a.probe.Timed)), call(bpf.FuncOpen))
	}
	a.emit(asm.JEq.Imm(asm.R0, 0, a.drop), asm.Mov.Reg(frameReg, asm.R0))
}

// stash stores values into the frame in frameReg. The slots in missing are stored later;
// until then they count as unreadable.
func (a *assembler) stash(stores []layout.Slot, missing uint64) {
	if missing == 0 {
		a.emit(storeZero(frameReg, int16(bpf.FrameFaults)))
	} else {
		a.constant(asm.R0, missing)
		a.emit(asm.StoreMem(frameReg, int16(bpf.FrameFaults), asm.R0, asm.DWord))
	}
	a.data, a.stashing = bpf.FrameData, true
	for i := range stores {
		a.clearForKey(&stores[i])
	}
	fault, faulted := a.fault, a.faulted
	a.storeAll(stores)
	a.fault, a.faulted = fault, faulted
	a.stashing = false
}

// clearForKey clears a slot of the frame in frameReg that the return makes part of a key, unless all of it will
// be written: keys of equal strings must be equal behind the end of the string, too.
func (a *assembler) clearForKey(s *layout.Slot) {
	if !leavesTail(a.probe, s) {
		return
	}
	for off := uint32(0); off < s.Size; off += 8 {
		a.emit(storeZero(frameReg, int16(bpf.FrameData+int(s.Off+off))))
	}
}

// returnProgram emits the program for the return of a call.
func returnProgram(a *assembler) {
	p := a.probe
	if c := cookieOf(p, a.target); p.Stashed && c != nil {
		a.returnWithCookie(c)
		return
	}
	if !p.Stashed {
		a.counted = p.Entry != nil // which has the same predicates
		rest := a.begin(p.Return.Predicates)
		a.keepFor(p.Return.Updates, rest)
		a.lightly(a.holds(), func() { a.predicates(rest) })
		a.counted = false
		if a.target.Shared {
			a.keepContext()
		}
		a.complete(p.Entry == nil)
		a.finish()
		return
	}
	if p.Path() {
		a.keepContext() // leavePath needs it, wherever it is reached from
	}
	// No engine call is needed to find a frame in place, so the switch is tested after
	// that.
	late := a.inPlace() && !a.hasTicket()
	if !late {
		a.begin(nil)
	}
	a.keepContext()
	a.unlessOpened()
	far := a.find(late)
	missed, early := a.exits, a.held != nil
	a.exits = exits{drop: a.label("free"), fault: a.label("fault")}
	a.lightly(a.holds(), func() {
		conditions := p.Return.Predicates
		if late {
			conditions = a.first(conditions, a.untroubled)
			a.unlessRunning()
		}
		a.conditions(conditions)
	})
	if len(p.Return.Updates) > 0 {
		a.add(p.Return.Updates)
	} else {
		a.sendFrame()
	}
	if early {
		a.placeExits()
	} else {
		a.leave()
	}
	a.free()
	a.exits = missed
	a.leave()
	if p.Path() {
		a.leavePath()
	}
	a.say("done")
	a.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
	far()
}

// holds reports whether a return program needs the guard for what it does with a call that is wanted.
func (a *assembler) holds() bool {
	return len(a.probe.Return.Updates) == 0 || callsHelpers(a.probe.Return.Updates)
}

// complete sends the record of a return, or adds the call up. first says that nothing of the call
// was sent before.
func (a *assembler) complete(first bool) {
	p := a.probe
	if len(p.Return.Updates) > 0 {
		a.add(p.Return.Updates)
		return
	}
	if first {
		a.admit()
	}
	a.send(p.Return.Record, kindOf(p))
}

// sendFrame sends the record in the frame of a call.
func (a *assembler) sendFrame() {
	p := a.probe
	if p.Entry.Record == nil {
		a.admit()
	}
	a.say("send the record")
	if a.inPlace() && !p.Timed {
		a.emit(storeZero(a.frame, int16(bpf.FrameEntry)))
	}
	a.emit(asm.Mov.Reg(asm.R1, a.ctx), asm.Mov.Reg(asm.R2, a.frame))
	if _, ok := List(p, p.Return, a.target); ok {
		a.callList(bpf.FuncFinishList, kindOf(p))
	} else {
		a.finishCall(bpf.FuncFinish, bpf.FuncFinishTail, p.Return.Record, kindOf(p))
	}
}

// returnWithCookie emits the return program of a call whose entry left everything in the
// cookie.
func (a *assembler) returnWithCookie(c *cookie) {
	p := a.probe
	if a.target.told != nil {
		a.keepContext()
	}
	late, asked := p.Return.Predicates, a.hasTicket()
	if asked {
		late = a.begin(late)
	} else {
		late = a.first(late, a.inRegisters)
	}
	a.say("find what entry has kept")
	kept := len(late) > 0 || c.holds() && len(p.Return.Updates) > 0
	a.loadCookie(kept)
	if !asked {
		late = a.first(late, a.untroubled)
		a.say("has it kept anything?")
		if kept {
			a.emit(asm.LoadMem(asm.R0, asm.RFP, stackCookie, asm.DWord))
		}
	}
	if a.target.told != nil && !c.timed {
		a.emit(asm.And.Imm(asm.R0, cookieWanted))
	}
	a.emit(asm.JEq.Imm(asm.R0, 0, a.drop))
	if !asked {
		a.unlessRunning()
	}
	a.lightly(a.holds(), func() { a.conditions(late) })
	a.complete(p.Entry.Record == nil)
	a.finish()
}

// kindOf returns the kind of a record sent at return: the return of a call whose entry was
// sent, or the whole call.
func kindOf(p *layout.Probe) bpf.Kind {
	if p.Joined {
		return bpf.KindCall
	}
	return bpf.KindReturn
}

// begin emits the start of a call's program: the predicates that registers alone decide,
// since most calls end there, and the test of the switch. It returns the other predicates.
func (a *assembler) begin(preds []layout.Predicate) (rest []layout.Predicate) {
	if a.hasTicket() { // no jump may come before the branch snapshot: it would be recorded
		a.switched()
		a.hold()
		a.snapshot()
		return preds
	}
	rest = a.first(preds, a.inRegisters)
	a.switched()
	return rest
}

// first emits predicates as long as kind holds for them, and returns the rest.
func (a *assembler) first(preds []layout.Predicate, kind func(expr.Term) bool) (rest []layout.Predicate) {
	rest = a.others(preds, kind)
	a.conditions(preds[:len(preds)-len(rest)])
	return rest
}

// others returns the predicates from the first one on that is not of a kind.
func (a *assembler) others(preds []layout.Predicate, kind func(expr.Term) bool) []layout.Predicate {
	for len(preds) > 0 && kind(preds[0].Term) {
		preds = preds[1:]
	}
	return preds
}

// switched tests the switch, unless the program for both ends has done so already.
func (a *assembler) switched() {
	if p := a.probe; p.Method != layout.MethodKprobeSession || p.Entry == nil || p.Return == nil {
		a.unlessRunning()
	}
}

// predicates emits the tests of a program that has nothing to clean up. The task filter
// comes after the tests of registers and before anything that reads memory: faults are then
// counted for wanted tasks only.
func (a *assembler) predicates(preds []layout.Predicate) {
	filter := a.target.Filtered && !a.afterEntry()
	for _, pred := range preds {
		if filter && expr.ReadsMemory(pred.Term) {
			a.filter()
			filter = false
		}
		a.condition(pred, a.drop)
	}
	if filter {
		a.filter()
	}
}

// conditions emits predicates that do not depend on the task filter.
func (a *assembler) conditions(preds []layout.Predicate) {
	for _, pred := range preds {
		a.condition(pred, a.drop)
	}
}

// filter emits the task filter, a call of the engine.
func (a *assembler) filter() {
	a.say("filter tasks")
	a.saveContext()
	a.emit(asm.Mov.Imm(asm.R1, a.trap()), call(bpf.FuncFilter))
	a.restoreContext()
	a.emit(asm.JEq.Imm(asm.R0, 0, a.drop))
}

// admit drops calls beyond the requested rate. It runs before the first record of a call. A
// return whose entry was sent is always sent.
func (a *assembler) admit() {
	if !a.target.Limited {
		return
	}
	a.say("limit the rate")
	a.saveContext()
	a.emit(call(bpf.FuncAdmit))
	a.restoreContext()
	a.emit(asm.JEq.Imm(asm.R0, 0, a.drop))
}

// keepContext moves the context to a register that survives calls.
func (a *assembler) keepContext() {
	if a.ctx == asm.R6 {
		return // done, when the branch snapshot was taken
	}
	a.say("keep the context")
	a.emit(asm.Mov.Reg(asm.R6, a.ctx))
	a.ctx = asm.R6
}

// probeID sets R2 to the number of the probe in records.
func (a *assembler) probeID() {
	if !a.target.Shared {
		a.emit(asm.Mov.Imm(asm.R2, int32(a.probe.ID)))
		return
	}
	a.hit()
	a.emit(asm.Mov.Reg(asm.R2, asm.R0))
}

// hit sets R0 to the cookie of the probe that a shared program runs for.
func (a *assembler) hit() {
	a.emit(asm.Mov.Reg(asm.R1, a.ctx))
	if a.probe.Method != layout.MethodKprobe {
		a.emit(call(bpf.FuncCookie))
		return
	}
	a.emit(asm.Mov.Imm(asm.R2, int32(a.target.Layer)), call(bpf.FuncSite), asm.JSLT.Imm(asm.R0, 0, a.drop))
}

// send emits the code that sends a record of one end of a call.
func (a *assembler) send(r *layout.Record, kind bpf.Kind) {
	a.say("send a record")
	a.probeID()
	a.passContext()
	half := a.probe.Entry
	if a.phase == expr.AtReturn {
		half = a.probe.Return
	}
	if _, ok := List(a.probe, half, a.target); ok {
		a.callList(bpf.FuncSendList, kind)
		return
	}
	a.finishCall(bpf.FuncSend, bpf.FuncSendTail, r, kind)
}

// finish emits the end of a program that has nothing to clean up.
func (a *assembler) finish() {
	if dropped := a.dropped(); dropped != 0 {
		a.letGo()
		a.say("done, and to be called at return")
		a.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
		a.leave()
		a.say("not wanted")
		a.emit(asm.Mov.Imm(asm.R0, dropped), asm.Return())
		return
	}
	a.leave()
	a.say("done")
	a.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
}

// countFault is the fault exit: it counts a predicate that met unreadable memory.
func (a *assembler) countFault() {
	a.place(a.fault)
	a.say("count the fault")
	a.emit(asm.Mov.Imm(asm.R1, int32(bpf.Fault)), call(bpf.FuncCount))
}
