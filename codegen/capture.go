// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"fmt"

	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// capture generates the function that stores the values of one half, and the place of the call:
//
//	faults = ks_capture(context, data)
//
// If c is not nil, the record also gets what entry kept in the session cookie.
func (a *assembler) capture(h *layout.Half, c *cookie) {
	a.ctx = captureContext
	a.frame, a.base = captureData, bpf.FrameData
	a.say("capture")
	a.emit(asm.Mov.Reg(captureContext, asm.R1), asm.Mov.Reg(captureData, asm.R2))
	a.clearFaults(0)
	if c.holds() {
		a.captureCookie(c)
	}
	if placed(h) {
		a.say("the place of the call")
		a.userStack(asm.R0)
		a.put(int(h.Record.Place))
	}
	a.storeAll(h.Stores)
	a.say("end of capture")
	a.emit(asm.Mov.Reg(asm.R0, captureFaults), asm.Return())
}

// captureCookie stores the values of the cookie into the record.
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
		a.aside(a.fault, func() { a.noteFault(f.slot.Index, nil) })
	}
}

// clearFaults clears the fault mask, but hides from the verifier that it is 0: it computes
// 0 from whatever is at off. A known mask would make the verifier explore 2^slots paths.
func (a *assembler) clearFaults(off int) {
	a.emit(asm.LoadMem(captureFaults, captureData, int16(off), asm.DWord), asm.Xor.Reg(captureFaults, captureFaults))
}

// storeAll stores the values of all slots. R6 has the context, R7 points to what contains
// the data, R8 is the fault mask.
func (a *assembler) storeAll(stores []layout.Slot) {
	for len(stores) > 0 {
		group, rest := a.neighbours(stores)
		if len(group) > 1 {
			a.storeGroup(group)
		} else {
			a.store(&group[0])
		}
		stores = rest
	}
}

// put stores R0 at offset off of the data, in bytes.
func (a *assembler) put(off int) {
	a.emit(asm.StoreMem(a.dest, int16(a.data+off), asm.R0, asm.DWord))
}

// dataAddress sets R1 to the address of offset off of the data.
func (a *assembler) dataAddress(off int) []asm.Instruction {
	return []asm.Instruction{asm.Mov.Reg(asm.R1, a.dest), asm.Add.Imm(asm.R1, int32(a.data+off))}
}

// store stores the value of one slot. If it cannot be read, store sets the slot's bit in
// the fault mask, and the slot's contents are undefined.
func (a *assembler) store(s *layout.Slot) {
	a.say(fmt.Sprintf("slot %d: %s", s.Index, a.slotText(s)))
	a.fault, a.faulted = a.label("fault"), false
	switch t := s.Term.(type) {
	case *expr.Object:
		a.storeObject(t, s)
	case *expr.Text:
		a.storeText(t, s)
	case *expr.Buffer:
		a.storeBuffer(t, s)
	default:
		use := useAny
		if a.dest == asm.RFP { // a key is computed with
			use = useNumber
		}
		a.value(t, use)
		a.put(int(s.Off))
	}
	a.placeFault(s.Index)
}

// placeFault places what a fault of a slot leads to, if anything led there: its bit in the fault mask
// is set; or, in a key that has none, the call is not added up.
func (a *assembler) placeFault(slot int) {
	if !a.faulted {
		return
	}
	if a.maskless != "" {
		a.placeNotAdded(a.maskless)
		return
	}
	mask := a.faultMask()
	a.aside(a.fault, func() { a.noteFault(slot, mask) })
}

// aside places rarely run code behind the program, at label. The code continues where aside
// was called.
func (a *assembler) aside(label string, emit func()) {
	next, source := a.label("next"), a.source
	a.place(next)
	a.later = append(a.later, func() {
		a.source = source
		a.place(label)
		emit()
		a.emit(asm.Ja.Label(next))
	})
}

// A maskPlace is where a fault mask is in memory.
type maskPlace struct {
	base   asm.Register
	offset int16
}

// faultMask returns where the fault mask is; nil if that is a register.
func (a *assembler) faultMask() *maskPlace {
	if !a.stashing {
		return nil
	}
	return &maskPlace{a.dest, int16(a.mask)}
}

// noteFault sets the slot's bit in the fault mask.
func (a *assembler) noteFault(slot int, mask *maskPlace) {
	a.emit(asm.LoadImm(asm.R0, int64(uint64(1)<<slot), asm.DWord))
	if mask == nil {
		a.emit(asm.Or.Reg(captureFaults, asm.R0))
		return
	}
	a.emit(asm.LoadMem(asm.R2, mask.base, mask.offset, asm.DWord), asm.Or.Reg(asm.R2, asm.R0),
		asm.StoreMem(mask.base, mask.offset, asm.R2, asm.DWord))
}

// slotText returns the part of the SPEC that a slot is for.
func (a *assembler) slotText(s *layout.Slot) string {
	switch it := &a.probe.Items[s.Item]; {
	case s.Capture < 0:
		return a.probe.ItemText(s.Item)
	case it.Aggregation != nil:
		return it.Aggregation.Keys[s.Capture].Label
	default:
		return it.Captures[s.Capture].Label
	}
}

// storeObject copies an aggregate from memory, or takes it out of the words that it was passed in.
func (a *assembler) storeObject(t *expr.Object, s *layout.Slot) {
	if t.Addr != nil {
		a.value(t.Addr, useAny)
		a.readInto(readers[t.Space], t.Off, s.Off, s.Size)
		a.emit(asm.JNE.Imm(asm.R0, 0, a.failed()))
		return
	}
	word := a.resultWord
	if t.Arg >= 0 {
		word = func(i int) { a.word(&a.probe.Params[t.Arg], i) }
	}
	// What follows the aggregate in its last word is not shown, but would tell equal keys apart.
	key := a.probe.Items[s.Item].Aggregation != nil
	for done := uint32(0); done < s.Size; done += 8 {
		at := uint32(t.Off) + done
		f, first := extent{shift: 8 * (at % 8), size: 8 * min(8, s.Size-done)}, int(at/8)
		switch {
		case f.inTwo():
			a.inTwoWords(f, first, word)
		case f.shift > 0 || key:
			word(first)
			a.field(f.shift, f.size, false)
		default:
			word(first)
		}
		a.put(int(s.Off + done))
	}
}

// readInto calls a reading helper. It copies size bytes at R0 + off to offset to of the
// data.
func (a *assembler) readInto(fn asm.BuiltinFunc, off int64, to, size uint32) {
	a.emit(asm.Mov.Reg(asm.R3, asm.R0))
	a.addOffset(asm.R3, off)
	a.emit(asm.Mov.Imm(asm.R2, int32(size)))
	a.helper(fn, a.dataAddress(int(to))...)
}

// storeText copies a string. The helper always writes a NUL, over the last byte if it must,
// and then returns the slot's size. Since the slot is one byte larger than what is shown,
// that size means that the string was cut.
func (a *assembler) storeText(t *expr.Text, s *layout.Slot) {
	if t.Addr == nil && a.dest == asm.RFP { // of a key
		a.saveContext()
		a.emit(a.dataAddress(int(s.Off))...)
		a.emit(call(bpf.FuncKeyComm))
		a.restoreContext()
		return
	}
	if t.Addr == nil {
		a.emit(asm.Mov.Imm(asm.R2, int32(s.Size)))
		a.helper(asm.FnGetCurrentComm, a.dataAddress(int(s.Off))...)
		return
	}
	if !t.Terminated() {
		a.value(t.Addr, useAny)
		a.readInto(readers[t.Space], t.Off, s.Off, s.Size)
		a.emit(asm.JNE.Imm(asm.R0, 0, a.failed()))
		return
	}
	a.value(t.Addr, useAny)
	a.readInto(stringReaders[t.Space], t.Off, s.Off, s.Size)
	a.emit(asm.JSLT.Imm(asm.R0, 0, a.failed()))
	whole := a.label("whole")
	a.emit(asm.JNE.Imm(asm.R0, int32(s.Size), whole))
	a.countTruncated()
	a.place(whole)
}

// storeBuffer stores the number of bytes that buf() asked for, and behind it as many of
// them as fit.
func (a *assembler) storeBuffer(t *expr.Buffer, s *layout.Slot) {
	a.value(t.N, useNumber)
	a.put(int(s.Off))
	fits := a.label("fits")
	a.emit(asm.JLE.Imm(asm.R0, int32(t.Max), fits))
	a.countTruncated()
	a.emit(asm.Mov.Imm(asm.R0, int32(t.Max)))
	a.place(fits)
	a.spill()
	a.value(t.Addr, useAny)
	a.emit(asm.Mov.Reg(asm.R3, asm.R0))
	a.unspill(asm.R2)
	a.helper(readers[t.Space], a.dataAddress(int(s.Off)+8)...)
	a.emit(asm.JNE.Imm(asm.R0, 0, a.failed()))
}

// countTruncated counts a capture that was cut.
func (a *assembler) countTruncated() {
	a.saveContext()
	a.emit(asm.Mov.Imm(asm.R1, int32(bpf.Truncated)), call(bpf.FuncCount))
	a.restoreContext()
}
