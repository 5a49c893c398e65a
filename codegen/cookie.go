// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"fmt"

	"github.com/cilium/ebpf/asm"

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

// storeCookie computes what is kept and stores it.
func (a *assembler) storeCookie(c *cookie) {
	if !c.holds() {
		a.opened()
		return
	}
	a.say("keep in the session's cookie")
	const kept = asm.R7
	switch {
	case c.timed:
		a.helper(asm.FnKtimeGetNs)
		a.emit(asm.Mov.Reg(kept, asm.R0))
	default:
		fault, faulted := a.fault, a.faulted
		for i := range c.fields {
			a.keepField(&c.fields[i], kept, i == 0)
		}
		a.fault, a.faulted = fault, faulted
		a.emit(asm.Or.Imm(kept, 1))
	}
	a.cookieAddress()
	a.emit(asm.StoreMem(asm.R0, 0, kept, asm.DWord))
}

// keepField computes a value into its place in reg, all of which the first sets.
func (a *assembler) keepField(f *field, reg asm.Register, first bool) {
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
		place := a.label("place")
		a.emit(asm.Ja.Label(place))
		a.place(a.fault)
		a.emit(asm.Mov.Imm(asm.R0, 1<<f.fault))
		a.place(place)
	}
	if first {
		a.emit(asm.Mov.Reg(reg, asm.R0))
	} else {
		a.emit(asm.Or.Reg(reg, asm.R0))
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
	a.emit(asm.JSet.Imm(a.cookieReg, 1<<f.fault, a.failed()), asm.Mov.Reg(asm.R0, a.cookieReg))
	a.field(f.shift, f.bits, f.signed)
}

// returnWithCookie is the return program of a call whose entry has left all
// there is to know in the cookie. Predicates that read nothing but registers come
// first: looking for the cookie costs more.
func (a *assembler) returnWithCookie(c *cookie) {
	p := a.probe
	late := p.Return.Predicates
	for len(late) > 0 && inRegisters(late[0].Term) {
		a.condition(late[0], a.drop)
		late = late[1:]
	}
	a.say("find what entry has kept")
	a.cookieAddress()
	const kept = asm.R7
	a.emit(asm.LoadMem(kept, asm.R0, 0, asm.DWord), asm.JEq.Imm(kept, 0, a.drop))
	a.cookieReg = kept
	a.lightly(true, func() { a.conditions(late) })
	if p.Entry.Record == nil {
		a.admit()
	}
	a.send(p.Return.Record, kindOf(p))
	a.finish()
}

// inRegisters reports whether a term is computed from the result and constants,
// and can have no fault.
func inRegisters(t expr.Term) bool {
	return expr.Walk(t, func(t expr.Term) bool {
		switch t := t.(type) {
		case *expr.Const, *expr.Result, *expr.Convert, *expr.UnaryTerm, *expr.Logic:
			return true
		case *expr.BinaryTerm:
			return t.Op != expr.OpDiv && t.Op != expr.OpMod
		}
		return false
	})
}

// captureCookie stores what the cookie holds into the record at hand.
func (a *assembler) captureCookie(c *cookie) {
	const kept = asm.R9
	a.say("what entry has kept")
	a.cookieAddress()
	a.emit(asm.LoadMem(kept, asm.R0, 0, asm.DWord))
	if c.timed {
		a.emit(asm.StoreMem(captureData, int16(bpf.FrameEntry-bpf.FrameData), kept, asm.DWord))
	}
	a.cookieReg = kept
	for i := range c.fields {
		f := &c.fields[i]
		a.fault, a.faulted = a.label("fault"), false
		a.loadField(f)
		a.put(int(f.slot.Off))
		next := a.label("next")
		a.emit(asm.Ja.Label(next))
		a.place(a.fault)
		a.emit(asm.LoadImm(asm.R0, int64(uint64(1)<<f.slot.Index), asm.DWord), asm.Or.Reg(captureFaults, asm.R0))
		a.place(next)
	}
}
