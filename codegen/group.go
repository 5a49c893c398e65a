// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"strings"

	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// maxGroup is how many bytes are read at once for the members in them. Beyond that, copying
// unused bytes costs more than another helper call.
const maxGroup = 128

// neighbours splits stores in two: the first store with all others that read nearby members
// of the same object, and the rest. It only groups reads that take a helper.
func (a *assembler) neighbours(stores []layout.Slot) (group, rest []layout.Slot) {
	first, ok := a.helperLoad(&stores[0])
	if !ok {
		return stores[:1], stores[1:]
	}
	lo, hi := first.Off, first.Off+int64(first.Width)
	for i := range stores {
		t, ok := a.helperLoad(&stores[i])
		if ok && t.Space == first.Space && expr.Same(t.Addr, first.Addr) &&
			max(hi, t.Off+int64(t.Width))-min(lo, t.Off) <= maxGroup {
			lo, hi = min(lo, t.Off), max(hi, t.Off+int64(t.Width))
			group = append(group, stores[i])
		} else {
			rest = append(rest, stores[i])
		}
	}
	return group, rest
}

func (a *assembler) helperLoad(s *layout.Slot) (*expr.Load, bool) {
	t, ok := s.Term.(*expr.Load)
	return t, ok && a.access(t) == accessRead && t.Width&(t.Width-1) == 0 && t.Off%int64(t.Width) == 0
}

// storeGroup reads the bytes around several members to the stack and takes the members from
// there. If some byte cannot be read, it tries each member alone.
func (a *assembler) storeGroup(group []layout.Slot) {
	first := group[0].Term.(*expr.Load)
	lo, hi := first.Off, first.Off+int64(first.Width)
	labels := make([]string, len(group))
	for i := range group {
		t := group[i].Term.(*expr.Load)
		lo, hi = min(lo, t.Off), max(hi, t.Off+int64(t.Width))
		labels[i] = a.slotText(&group[i])
	}
	// Stack loads must be aligned, so members keep their alignment.
	shift := int(lo & 7)
	buffer := stackSpill - 8*a.depth - (int(hi-lo)+shift+7)&^7
	buffer += shift
	alone, next := a.label("alone"), a.label("next")
	a.fault = alone
	a.say("together: " + strings.Join(labels, ", "))
	a.value(first.Addr, useAny)
	a.emit(asm.Mov.Reg(asm.R3, asm.R0))
	a.addOffset(asm.R3, lo)
	a.emit(asm.Mov.Imm(asm.R2, int32(hi-lo)))
	a.helper(readers[first.Space], asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(buffer)))
	a.emit(asm.JNE.Imm(asm.R0, 0, alone))
	for i := range group {
		t := group[i].Term.(*expr.Load)
		a.emit(asm.LoadMem(asm.R0, asm.RFP, int16(buffer+int(t.Off-lo)), sizeOf(t.Width)))
		a.loaded(t)
		a.put(int(group[i].Off))
	}
	a.emit(asm.Ja.Label(next))
	a.place(alone)
	for i := range group {
		a.store(&group[i])
	}
	a.place(next)
}
