// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"slices"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// List returns what one end of a call captures as a table for the engine, if a table can
// express it: arguments, the result, and what these point to. Shared programs leave such
// values to the engine. If the whole call is one record, its entry fills in the first
// values. ok is false if generated code must capture.
func List(p *layout.Probe, h *layout.Half, t Options) (list bpf.SlotList, ok bool) {
	if !t.Shared || h == nil || len(h.Updates) > 0 {
		return list, false
	}
	switch {
	case h.Record != nil:
		list.Size = h.Record.Size
	case p.Joined && len(h.Stores) > 0:
		list.Size = p.Return.Record.Size
	default:
		return list, false
	}
	if placed(h) {
		list.Slots = append(list.Slots, bpf.Slot{Kind: bpf.SlotWord, Word: bpf.PlaceWord, Width: layout.PlaceSize, Off: h.Record.Place, Size: layout.PlaceSize})
	}
	if len(list.Slots)+len(h.Stores) > bpf.MaxListed {
		return bpf.SlotList{}, false
	}
	for i := range h.Stores {
		if h == p.Entry && leavesTail(p, &h.Stores[i]) { // the engine leaves what was in its buffer behind it
			return bpf.SlotList{}, false
		}
		s, ok := listed(p, &h.Stores[i], arches[t.Arch])
		if !ok {
			return bpf.SlotList{}, false
		}
		list.Slots = append(list.Slots, s)
	}
	return list, true
}

// placed reports whether the record that a half sends has the place of the call.
func placed(h *layout.Half) bool { return h.Record != nil && h.Record.Placed }

// listed returns a slot as an entry of the table.
func listed(p *layout.Probe, s *layout.Slot, at arch) (out bpf.Slot, ok bool) {
	out = bpf.Slot{Off: s.Off, Size: s.Size, Index: s.Index}
	var addr expr.Term
	switch t := s.Term.(type) {
	case *expr.Arg, *expr.Result, *expr.Passed:
		return out, asNumber(&out, s.Term.Type()) && isWord(p, s.Term, at, &out)
	case *expr.Load:
		if t.Off != 0 || t.Bits.Size != 0 || !asNumber(&out, t.T) || int(t.Width) != out.Width {
			return out, false
		}
		addr, out.Kind, out.User = t.Addr, bpf.SlotLoad, t.Space == expr.User
	case *expr.Object:
		if t.Addr == nil || t.Off != 0 {
			return out, false
		}
		addr, out.Kind, out.User = t.Addr, bpf.SlotBytes, t.Space == expr.User
	case *expr.Text:
		if t.Addr == nil || t.Off != 0 || !t.Terminated() {
			return out, false
		}
		addr, out.Kind, out.User = t.Addr, bpf.SlotText, t.Space == expr.User
	default:
		return out, false
	}
	return out, isWord(p, addr, at, &out)
}

// asNumber fills in how the bytes of a number become register form.
func asNumber(out *bpf.Slot, t btf.Type) bool {
	size, signed, ok := expr.Number(t)
	out.Width, out.Signed = size, signed
	return ok && size > 0
}

// isWord fills in which word t is, and reports whether it is a word exactly as it was
// passed.
func isWord(p *layout.Probe, t expr.Term, at arch, out *bpf.Slot) bool {
	switch t := t.(type) {
	case *expr.Passed:
		return isWord(p, t.X, at, out)
	case *expr.Arg:
		param := &p.Params[t.Index]
		if t.Off != 0 || t.Bits.Size != 0 || param.Loc.Slots != 1 {
			return false
		}
		if p.Method == layout.MethodUprobe && param.Loc.Reg < 0 { // the engine reads words from the kernel's stack
			return false
		}
		out.Word = param.Loc.Reg
		if p.Method == layout.MethodTracingMulti {
			out.Word = param.Loc.Slot
		} else if param.Loc.Reg < 0 {
			out.Word = len(at.args) + (param.Loc.Stack-int(at.popped))/8
		}
		return out.Word < bpf.ListedWords
	case *expr.Result:
		out.Word = bpf.ResultWord
		return t.Off == 0 && t.Bits.Size == 0
	}
	return false
}

// placeFunction generates ks_place, which returns userStack.
func placeFunction(p *layout.Probe, t Options, phase expr.Phase, half string) bpf.Subprogram {
	a := newAssembler(p, t, phase, half+"_place")
	a.ctx = asm.R1
	a.say("the place of the call")
	a.userStack(asm.R0)
	a.emit(asm.Return())
	return bpf.Subprogram{Name: bpf.FuncPlace, Args: 1, Insns: a.done()}
}

// leavesTail reports whether what the entry keeps in a slot is part of a key at return, and may not take all of its room.
func leavesTail(p *layout.Probe, s *layout.Slot) bool {
	return s.Size != 8 && p.Return != nil && slices.ContainsFunc(p.Return.Updates, func(u layout.Update) bool { return slices.Contains(u.Kept, s.Index) })
}
