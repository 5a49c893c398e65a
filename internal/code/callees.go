// SPDX-License-Identifier: Apache-2.0

package code

import (
	"cmp"
	"slices"
)

// A Callee is a function that code calls or jumps to.
type Callee struct {
	Addr   uint64
	Name   string
	Kind   CalleeKind
	Result Class // of one that returns a value, as far as it is known
}

// A CalleeKind says what a function does to the register that results are in. It goes by address:
// a thunk can have several names.
type CalleeKind uint8

const (
	Strange   CalleeKind = iota // nothing is known of it but perhaps its name: it may keep what others change
	Returning                   // it returns a value, as compilers make functions
	Through                     // a thunk: it jumps to where a register says
	Return                      // a thunk: to jump there is to return
	Final                       // it never comes back, as __stack_chk_fail
	Keeping                     // it returns nothing and keeps all registers, as preempt_schedule_thunk
)

// A Class is what matters of a C type when a number of it is written. The zero value is for one
// that is not known.
type Class struct {
	Size    int  `json:",omitempty"` // in bytes
	Signed  bool `json:",omitempty"`
	Pointer bool `json:",omitempty"`
	Bool    bool `json:",omitempty"`
}

// Callees are the callees of a function, by address.
type Callees []Callee

// At returns the callee that begins at an address; nil if none is known.
func (c Callees) At(addr uint64) *Callee {
	i, ok := slices.BinarySearchFunc(c, addr, func(c Callee, addr uint64) int { return cmp.Compare(c.Addr, addr) })
	if !ok {
		return nil
	}
	return &c[i]
}

func (c Callees) kind(addr uint64) CalleeKind {
	if f := c.At(addr); f != nil {
		return f.Kind
	}
	return Strange
}

// keeps reports whether an instruction calls a function that keeps all registers.
func (c Callees) keeps(in *Instruction) bool {
	return in.flow == Next && in.Target != 0 && c.kind(in.Target) == Keeping
}

// Callees yields the addresses that a function calls, and those outside of it that it jumps to.
func (g *Graph) Callees() func(yield func(uint64) bool) {
	return func(yield func(uint64) bool) {
		for i := range g.Instructions {
			if in := &g.Instructions[i]; in.flow == Next && in.Target != 0 && !yield(in.Target) {
				return
			}
		}
		g.Outside()(yield)
	}
}
