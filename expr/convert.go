// SPDX-License-Identifier: Apache-2.0

package expr

import "github.com/cilium/ebpf/btf"

// promoted returns v's type after integer promotion. A bitfield promotes by its own width,
// as gcc does: an unsigned bitfield of fewer than 32 bits becomes int.
func promoted(v Term) numeric {
	n, _ := number(v.Type())
	switch size := bitsOf(v).Size; {
	case size == 0 || size > 32:
		return n.promote()
	case size == 32:
		return numeric{4, n.signed}
	}
	return numeric{4, true}
}

// convert returns v converted to scalar type t, folded if v is constant.
func convert(v Term, t btf.Type) Term {
	from, _ := number(v.Type())
	to, _ := number(t)
	switch {
	case isBool(t) && !isBool(v.Type()):
		return fold(&Convert{t, fold(&BinaryTerm{T: typeInt, Op: OpNe, X: v, Y: &Const{v.Type(), 0}})})
	case from == to:
		return retype(v, t)
	}
	return fold(&Convert{t, v})
}

// retype gives v another type that has the same register form; no code is needed for it.
func retype(v Term, t btf.Type) Term {
	switch v := v.(type) {
	case *Const:
		return &Const{t, v.V}
	case *Convert:
		return &Convert{t, v.X}
	}
	if v.Type() == t && bitsOf(v).Size == 0 { // a cast of a bitfield drops its width, so it needs the Convert
		return v
	}
	return &Convert{t, v}
}

// fold computes a term with constant operands. A term that faults, such as a division by
// zero, stays as it is and faults in every call.
func fold(t Term) Term {
	for _, x := range Operands(t) {
		if _, ok := (*x).(*Const); !ok {
			return t
		}
	}
	v, err := Eval(t, nil)
	if err != nil {
		return t
	}
	return &Const{t.Type(), v}
}

// addOffset returns base + off bytes, as a pointer of type t.
func addOffset(base Term, off int64, t btf.Type) Term {
	if off == 0 {
		return retype(base, t)
	}
	if k, ok := base.(*Const); ok {
		return &Const{t, k.V + uint64(off)}
	}
	return &BinaryTerm{T: t, Op: OpAdd, X: base, Y: &Const{typeUlong, uint64(off)}}
}
