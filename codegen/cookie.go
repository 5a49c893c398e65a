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

// A cookie says how values kept by entry are packed into the session cookie: 8 bytes on the
// trampoline's stack. They cost no look-up, belong to one call only, and are 0 until entry
// writes them.
//
// The cookie holds either the time of entry, which is never 0, or kept values. Values are
// packed from the highest bit down. From bit 1 up, one bit for each value says that it
// could not be read. Bit 0 says that entry wants the call.
type cookie struct {
	timed  bool
	fields []field
}

// A field is the place of a kept value in the cookie.
type field struct {
	slot   *layout.Slot
	shift  uint32 // its lowest bit
	bits   uint32
	signed bool
	fault  uint32 // bit that says it could not be read
}

// cookieOf returns how p uses the cookie. It is nil if the kept values do not fit; they go
// to a frame of the stash instead.
func cookieOf(p *layout.Probe, t Options) *cookie {
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

// holds reports whether the record needs any value from the cookie.
func (c *cookie) holds() bool { return c != nil && (c.timed || len(c.fields) > 0) }

// keptNumber returns the size in bytes and the sign of a value; ok is false if it is not a
// number.
func keptNumber(t expr.Term) (size uint32, signed, ok bool) {
	switch t.(type) {
	case *expr.Object, *expr.Text, *expr.Buffer:
		return 0, false, false
	}
	n, signed, ok := expr.Number(t.Type())
	return uint32(n), signed, ok && n > 0
}

// cookieWanted is the bit of a cookie without a time that says that entry found the call
// wanted: what the switch is while tracing is on.
const cookieWanted = int32(bpf.On)

// cookieAddress sets R0 to the address of the cookie.
func (a *assembler) cookieAddress() {
	a.emit(asm.Mov.Reg(asm.R1, a.ctx), callKfunc(a.target.kfuncs().Cookie))
}

// opened notes in the cookie that the return of this call is wanted. unlessOpened drops a
// return without that note.
func (a *assembler) opened() {
	if !a.probe.AtBothEnds() {
		return
	}
	a.say("the return is wanted")
	a.cookieAddress()
	a.emit(asm.Mov.Imm(asm.R1, cookieWanted), asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord))
}

func (a *assembler) unlessOpened() {
	if !a.probe.AtBothEnds() {
		return
	}
	a.say("is the return wanted?")
	a.cookieAddress()
	a.emit(asm.LoadMem(asm.R0, asm.R0, 0, asm.DWord), asm.JEq.Imm(asm.R0, 0, a.drop))
}

// storeCookie computes the kept values and stores them. It must come last at entry, because
// it holds the value in the context's register while the kernel looks up the cookie.
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
		a.cookieFields(c)
		a.emit(asm.Or.Imm(asm.R0, cookieWanted))
	}
	value := a.ctx
	a.emit(asm.Mov.Reg(asm.R1, a.ctx), asm.Mov.Reg(value, asm.R0), callKfunc(a.target.kfuncs().Cookie))
	a.emit(asm.StoreMem(asm.R0, 0, value, asm.DWord))
}

// cookieFields computes what is kept in fields into R0.
func (a *assembler) cookieFields(c *cookie) {
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
}

// keepField computes a value and shifts it to its place in R0.
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

// fromCookie sets R0 to the kept value of a slot. It faults if entry could not read the
// value.
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
	a.emit(asm.LoadMem(asm.R0, asm.RFP, stackCookie, asm.DWord))
	if expr.CanFault(f.slot.Term) {
		a.emit(asm.JSet.Imm(asm.R0, 1<<f.fault, a.failed()))
	}
	a.field(f.shift, f.bits, f.signed)
}

// loadCookie loads the cookie into R0, and into stackCookie if it is needed again.
func (a *assembler) loadCookie(again bool) {
	a.cookieAddress()
	a.emit(asm.LoadMem(asm.R0, asm.R0, 0, asm.DWord))
	if again {
		a.emit(asm.StoreMem(asm.RFP, stackCookie, asm.R0, asm.DWord))
		a.inCookie = true
	}
}

// inRegisters reports whether a program can compute t from its context alone: no helper, no
// fault.
func (a *assembler) inRegisters(t expr.Term) bool { return expr.Walk(t, a.inRegister) }

// inRegister is inRegisters for t alone, without the terms below it.
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

// untroubled is inRegisters, with $duration allowed: reading the clock cannot fault either.
func (a *assembler) untroubled(t expr.Term) bool {
	return expr.Walk(t, func(t expr.Term) bool {
		if c, ok := t.(*expr.ContextTerm); ok {
			return c.Var == expr.ContextDuration
		}
		return a.inRegister(t)
	})
}

// loadsWord reports whether a program may load a value at this place itself: it must be in
// a register, and the verifier must take it for a number.
func (a *assembler) loadsWord(t btf.Type, at layout.Loc) bool {
	m := a.probe.Method
	switch {
	case m == layout.MethodTracingMulti, a.probe.InProgram:
		return false
	case inWords(m):
		return contextKind(t) == wordNumber && !isInt128(t) && slots(a.probe) < maxContext
	}
	return m != layout.MethodTracepoint && at.Reg >= 0 && !at.Ref
}
