// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"fmt"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// A cookie says how what entry keeps for the return program lies in the 8 bytes
// that a session has on the trampoline's stack: they cost no look-up, belong to
// one call only, and are 0 before entry writes them.
//
// It is either the time of the entry, which is never 0, or, from the highest bit
// down, the kept values, and, from bit 1 up, whether they could not be read. Bit 0
// then says that entry found the call wanted.
type cookie struct {
	timed  bool
	fields []field
}

// A field is where a kept value lies.
type field struct {
	slot   *layout.Slot
	shift  uint32 // of its lowest bit
	bits   uint32
	signed bool
	fault  uint32 // the bit that says that it could not be read
}

// cookieOf returns how the cookie is used; nil if what is kept does not fit and
// goes into a frame of the stash instead.
func cookieOf(p *layout.Probe, t Target) *cookie {
	if !p.AtBothEnds() || !p.Stashed || p.Role != layout.RoleCall {
		return nil
	}
	if _, listed := List(p, p.Return, t); listed {
		return nil // the engine captures from a frame
	}
	if p.Timed {
		if p.Joined && len(p.Entry.Stores) > 0 {
			return nil
		}
		return &cookie{timed: true}
	}
	c := &cookie{}
	if !p.Joined {
		return c
	}
	top := uint32(64)
	for i := range p.Entry.Stores {
		s := &p.Entry.Stores[i]
		size, signed, ok := keptNumber(s.Term)
		c.fields = append(c.fields, field{slot: s, shift: top - 8*size, bits: 8 * size, signed: signed, fault: uint32(1 + i)})
		if !ok || top < 8*size+uint32(len(p.Entry.Stores))+1 {
			return nil
		}
		top -= 8 * size
	}
	return c
}

// holds reports whether the record needs anything of the cookie.
func (c *cookie) holds() bool { return c != nil && (c.timed || len(c.fields) > 0) }

// keptNumber returns the size of a value that is a number.
func keptNumber(t expr.Term) (size uint32, signed, ok bool) {
	switch t.(type) {
	case *expr.Object, *expr.Text, *expr.Buffer:
		return 0, false, false
	}
	n, signed, ok := expr.Number(t.Type())
	return uint32(n), signed, ok && n > 0
}

// cookieAddress sets R0 to where the cookie lies.
func (a *assembler) cookieAddress() {
	a.emit(asm.Mov.Reg(asm.R1, a.ctx), callKfunc(a.target.kfuncs().Cookie))
}

// opened leaves in the cookie that the return of the call is wanted, and
// unlessOpened drops a return for which it does not say so.
func (a *assembler) opened() {
	if !a.probe.AtBothEnds() {
		return
	}
	a.say("the return is wanted")
	a.cookieAddress()
	a.emit(asm.Mov.Imm(asm.R1, 1), asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord))
}

func (a *assembler) unlessOpened() {
	if !a.probe.AtBothEnds() {
		return
	}
	a.say("is the return wanted?")
	a.cookieAddress()
	a.emit(asm.LoadMem(asm.R0, asm.R0, 0, asm.DWord), asm.JEq.Imm(asm.R0, 0, a.drop))
}

// storeCookie computes what is kept and stores it. It is the last that is done at
// entry: the context's register holds the value while the cookie is looked for.
func (a *assembler) storeCookie(c *cookie) {
	if !c.holds() {
		a.opened()
		return
	}
	a.say("keep in the session's cookie")
	switch {
	case c.timed:
		a.helper(asm.FnKtimeGetNs)
	default:
		fault, faulted := a.fault, a.faulted
		for i := range c.fields {
			if i > 0 {
				a.spill()
			}
			a.keepField(&c.fields[i])
			if i > 0 {
				a.unspill(asm.R2)
				a.emit(asm.Or.Reg(asm.R0, asm.R2))
			}
		}
		a.fault, a.faulted = fault, faulted
		a.emit(asm.Or.Imm(asm.R0, 1))
	}
	kept := a.ctx
	a.emit(asm.Mov.Reg(asm.R1, a.ctx), asm.Mov.Reg(kept, asm.R0), callKfunc(a.target.kfuncs().Cookie))
	a.emit(asm.StoreMem(asm.R0, 0, kept, asm.DWord))
}

// keepField computes a value into its place in R0.
func (a *assembler) keepField(f *field) {
	a.say("keep " + a.slotText(f.slot))
	a.fault, a.faulted = a.label("fault"), false
	a.value(f.slot.Term, useAny)
	if left := 64 - f.bits; left != 0 {
		a.emit(asm.LSh.Imm(asm.R0, int32(left)))
	}
	if right := 64 - f.bits - f.shift; right != 0 {
		a.emit(asm.RSh.Imm(asm.R0, int32(right)))
	}
	if a.faulted {
		a.aside(a.fault, func() { a.emit(asm.Mov.Imm(asm.R0, 1<<f.fault)) })
	}
}

// fromCookie sets R0 to the value of a slot that was kept; if it could not be
// read, that is a fault.
func (a *assembler) fromCookie(slot int) {
	c := cookieOf(a.probe, a.target)
	for i := range c.fields {
		if c.fields[i].slot.Index == slot {
			a.loadField(&c.fields[i])
			return
		}
	}
	panic(fmt.Sprintf("slot %d of %s is not in the cookie", slot, a.probe.Name))
}

func (a *assembler) loadField(f *field) {
	a.emit(asm.LoadMem(asm.R0, asm.RFP, stackCookie, asm.DWord), asm.JSet.Imm(asm.R0, 1<<f.fault, a.failed()))
	a.field(f.shift, f.bits, f.signed)
}

// stackCookie is where the cookie is kept at return, in code that has it in place of a
// frame: the context is in a register then.
const stackCookie = stackContext

// loadCookie leaves in R0, and in stackCookie if it is to be looked at again, what entry
// has kept.
func (a *assembler) loadCookie(again bool) {
	a.cookieAddress()
	a.emit(asm.LoadMem(asm.R0, asm.R0, 0, asm.DWord))
	if again {
		a.emit(asm.StoreMem(asm.RFP, stackCookie, asm.R0, asm.DWord))
		a.inCookie = true
	}
}

// returnWithCookie is the return program of a call whose entry has left all
// there is to know in the cookie.
func (a *assembler) returnWithCookie(c *cookie) {
	p := a.probe
	late, asked := p.Return.Predicates, a.hasTicket()
	if asked {
		late = a.begin(late)
	} else {
		late = a.first(late, a.inRegisters)
	}
	a.say("find what entry has kept")
	a.loadCookie(len(late) > 0)
	if !asked {
		kept := len(late) > 0
		late = a.first(late, a.untroubled)
		a.say("has it kept anything?")
		if kept {
			a.emit(asm.LoadMem(asm.R0, asm.RFP, stackCookie, asm.DWord))
		}
	}
	a.emit(asm.JEq.Imm(asm.R0, 0, a.drop))
	if !asked {
		a.unlessRunning()
	}
	a.lightly(true, func() { a.conditions(late) })
	if p.Entry.Record == nil {
		a.admit()
	}
	a.send(p.Return.Record, kindOf(p))
	a.finish()
}

// inRegisters reports whether a term is computed from what the program is handed, by
// loads of its own, and from constants, and can have no fault.
func (a *assembler) inRegisters(t expr.Term) bool { return expr.Walk(t, a.inRegister) }

// inRegister is inRegisters without regard to the terms below t.
func (a *assembler) inRegister(t expr.Term) bool {
	switch t := t.(type) {
	case *expr.Const, *expr.Passed, *expr.Convert, *expr.UnaryTerm, *expr.Logic:
		return true
	case *expr.Arg:
		p := &a.probe.Params[t.Index]
		return a.phase == expr.AtEntry && a.loadsWord(p.Type, p.Loc)
	case *expr.Result:
		return t.Off+t.Width <= 8 && a.loadsWord(a.probe.Result, layout.Loc{})
	case *expr.BinaryTerm:
		return t.Op != expr.OpDiv && t.Op != expr.OpMod
	}
	return false
}

// untroubled is inRegisters for programs that know how long the call took: to read the
// clock has no effect, and no fault either.
func (a *assembler) untroubled(t expr.Term) bool {
	return expr.Walk(t, func(t expr.Term) bool {
		if c, ok := t.(*expr.ContextTerm); ok {
			return c.Var == expr.ContextDuration
		}
		return a.inRegister(t)
	})
}

// loadsWord reports whether the program may load a word of a value that is passed at
// that place by itself: it is in a register, and the verifier takes it for a number.
func (a *assembler) loadsWord(t btf.Type, at layout.Loc) bool {
	m := a.probe.Method
	switch {
	case m == layout.MethodTracingMulti:
		return false
	case inWords(m):
		return contextKind(t) == wordNumber && !isInt128(t) && slots(a.probe) < maxContext
	}
	return m != layout.MethodTracepoint && at.Reg >= 0 && !at.Ref
}

// captureCookie stores what the cookie holds into the record at hand.
func (a *assembler) captureCookie(c *cookie) {
	a.say("what entry has kept")
	a.loadCookie(true)
	if c.timed {
		a.emit(asm.StoreMem(captureData, int16(bpf.FrameEntry-bpf.FrameData), asm.R0, asm.DWord))
	}
	for i := range c.fields {
		f := &c.fields[i]
		a.fault, a.faulted = a.label("fault"), false
		a.loadField(f)
		a.put(int(f.slot.Off))
		a.aside(a.fault, func() { a.noteFault(f.slot.Index, false) })
	}
}
