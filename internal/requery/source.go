// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// A source is one recorded value, and what is known through it.
type source struct {
	slot layout.Slot
	late bool      // it is in the record that return sends
	term expr.Term // what was recorded, in canonical form
	mem  *region   // the memory that its bytes were read from; nil if it is computed
	// arg is the parameter whose bytes it has, if that was passed by value. The return value
	// is resultArg.
	arg     int
	argOff  uint32 // where the slot begins in its image
	byValue bool
	part    *part // it is one of what -A has captured, and in no slot; else nil
}

const resultArg = -1

// A part is what a run with -A has captured of one argument of a call: the words that it was
// passed in or, if target is set, what it points to.
type part struct {
	arg    int // of layout.Probe.Args
	target bool
	size   int // bytes that the type of a number has, and whether it has a sign; 0: all words
	signed bool
}

// A region is a range of memory: size bytes from the sum of base and off on.
type region struct {
	base    []expr.Term // in canonical form
	off     int64
	size    uint32 // at most; text and buffers may end earlier
	skip    uint32 // bytes of the slot before those of the region
	text    bool   // ends at the first NUL
	counted bool   // a buffer: the first 8 bytes of the slot say how long it is
	space   expr.Space
	at      expr.Phase
	// pointer is the source that has base itself, or -1.
	pointer int
}

// sourcesOf lists what the records of a probe have, those of entry first.
func sourcesOf(p *plan.Probe) []source {
	var all []source
	for _, half := range [...]*layout.Half{p.Entry, p.Return} {
		if half == nil || half.Record == nil {
			continue
		}
		for _, s := range half.Record.Slots {
			all = append(all, newSource(s, unkeep(s.Term, half.Record), half == p.Return))
		}
	}
	link(all)
	return all
}

// link finds the sources that the memory of others is read through.
func link(all []source) {
	for i := range all {
		if m := all[i].mem; m != nil {
			m.pointer = -1
			if len(m.base) == 1 {
				m.pointer = scalarOf(all, m.base[0])
			}
		}
	}
}

// unkeep puts back the terms that Lay has replaced by slots of the same record.
func unkeep(t expr.Term, r *layout.Record) expr.Term {
	if k, ok := t.(*expr.Kept); ok {
		return r.Slots[k.Slot].Term
	}
	t = expr.Clone(t)
	putBack(t, r)
	return t
}

func putBack(t expr.Term, r *layout.Record) {
	for _, x := range expr.Operands(t) {
		if k, ok := (*x).(*expr.Kept); ok {
			*x = r.Slots[k.Slot].Term
			continue
		}
		putBack(*x, r)
	}
}

func newSource(s layout.Slot, t expr.Term, late bool) source {
	src := source{slot: s, late: late, term: canon(t)}
	switch t := t.(type) {
	case *expr.Object:
		if t.Addr == nil {
			src.arg, src.argOff, src.byValue = max(t.Arg, resultArg), uint32(t.Off), true
			return src
		}
		src.mem = newRegion(t.Addr, t.Off, s.Size, t.Space, t.At)
	case *expr.Load:
		if t.Bits.Size == 0 {
			src.mem = newRegion(t.Addr, t.Off, t.Width, t.Space, t.At)
		}
	case *expr.Text:
		if t.Addr != nil {
			src.mem = newRegion(t.Addr, t.Off, s.Size, t.Space, t.At)
			src.mem.text = t.Terminated()
		}
	case *expr.Buffer:
		src.mem = newRegion(t.Addr, 0, s.Size-8, t.Space, t.At)
		src.mem.skip, src.mem.counted = 8, true
	}
	return src
}

func newRegion(addr expr.Term, off int64, size uint32, space expr.Space, at expr.Phase) *region {
	parts, more := addends(addr)
	for i := range parts {
		parts[i] = canon(parts[i])
	}
	return &region{base: parts, off: off + more, size: size, space: space, at: at}
}

// scalarOf returns the source that has the value of a term in canonical form, or -1.
func scalarOf(all []source, t expr.Term) int {
	for i := range all {
		if scalar(all[i].term) && expr.Same(all[i].term, t) {
			return i
		}
	}
	return -1
}

func scalar(t expr.Term) bool {
	switch t.(type) {
	case *expr.Object, *expr.Text, *expr.Buffer:
		return false
	}
	return true
}

// canon returns t in a form that is the same for all terms that read the same memory: constant
// offsets are in Off, and addresses have no conversions that change nothing. At each end of a
// call, the arguments are recorded as they were at entry, so that Passed makes no difference.
func canon(t expr.Term) expr.Term {
	t = expr.Clone(t)
	if p, ok := t.(*expr.Passed); ok {
		return canon(p.X)
	}
	if m, ok := t.(*expr.Match); ok {
		m.X = canon(m.X).(*expr.Text)
		return m
	}
	var addr *expr.Term
	var off *int64
	switch t := t.(type) {
	case *expr.Load:
		addr, off = &t.Addr, &t.Off
	case *expr.Object:
		addr, off = &t.Addr, &t.Off
	case *expr.Text:
		addr, off = &t.Addr, &t.Off
	}
	if addr != nil {
		if *addr != nil {
			parts, more := addends(*addr)
			*addr, *off = sum((*addr).Type(), parts, canon), *off+more
		}
		return t
	}
	for _, x := range expr.Operands(t) {
		*x = canon(*x)
	}
	return t
}

// addends splits an address into a sum of terms and a constant.
func addends(t expr.Term) (parts []expr.Term, off int64) {
	switch x := t.(type) {
	case *expr.Passed:
		return addends(x.X)
	case *expr.Const:
		return nil, int64(x.V)
	case *expr.Convert:
		if wide(x.T) && wide(x.X.Type()) {
			return addends(x.X)
		}
	case *expr.BinaryTerm:
		k, constant := x.Y.(*expr.Const)
		switch {
		case !wide(x.T):
		case x.Op == expr.OpAdd:
			parts, off = addends(x.X)
			more, k := addends(x.Y)
			return append(parts, more...), off + k
		case x.Op == expr.OpSub && constant:
			parts, off = addends(x.X)
			return parts, off - int64(k.V)
		}
	}
	return []expr.Term{t}, 0
}

// sum returns the sum of terms that were changed by a function, as a term of type t.
func sum(t btf.Type, parts []expr.Term, change func(expr.Term) expr.Term) expr.Term {
	if len(parts) == 0 {
		return &expr.Const{T: t}
	}
	total := change(parts[0])
	for _, p := range parts[1:] {
		total = &expr.BinaryTerm{T: t, Op: expr.OpAdd, X: total, Y: change(p)}
	}
	return total
}

// wide reports whether a type fills a register, so that a conversion to another such type
// changes nothing.
func wide(t btf.Type) bool {
	size, _, ok := expr.Number(t)
	return ok && size == 8
}
