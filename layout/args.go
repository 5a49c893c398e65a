// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"github.com/cilium/ebpf/btf"
)

// An Arg is what is captured of one argument where all of them are: the words
// it is passed in and, of some pointers, what they point to.
type Arg struct {
	Param *Param
	// Word is the first of Words 64-bit words. Words is 0 if the argument is
	// passed too far away.
	Word, Words int
	// Target is the type of what the argument points to; nil if that is not
	// captured. Text says that it is a string.
	Target btf.Type
	Text   bool
	Size   int // bytes captured of the target, at most
	// Ref says that the target is the argument itself, of which the address of
	// a copy was passed.
	Ref bool
}

// Limits of what is captured of a call where all arguments are.
const (
	maxArgWords   = 12
	maxArgTargets = 6
	maxArgReach   = 256
)

// ArgsOf says what to capture of the arguments of a function.
func ArgsOf(params []Param, arch string) []Arg {
	abi := abis[arch]
	args := make([]Arg, 0, len(params))
	targets := 0
	for i := range params {
		p := &params[i]
		a := Arg{Param: p, Word: p.Loc.Reg, Words: p.Loc.Slots, Ref: p.Loc.Ref}
		if p.Absent {
			args = append(args, Arg{Param: p})
			continue
		}
		if p.Loc.Reg < 0 {
			a.Word = abi.regs + (p.Loc.Stack-abi.stackStart)/8
		}
		if a.Word+a.Words > maxArgWords {
			a.Word, a.Words = 0, 0
		} else if a.target(p); a.Target != nil {
			if targets == maxArgTargets {
				a.Target, a.Text, a.Size = nil, false, 0
				if a.Ref {
					a.Words = 0
				}
			} else {
				targets++
			}
		}
		args = append(args, a)
	}
	return args
}

// target sets what is captured of what an argument points to.
func (a *Arg) target(param *Param) {
	p, ok := btf.UnderlyingType(param.Type).(*btf.Pointer)
	switch {
	case a.Ref:
		p = &btf.Pointer{Target: param.Type}
	case !ok:
		return
	}
	to := btf.UnderlyingType(p.Target)
	switch to := to.(type) {
	case *btf.Struct, *btf.Union, *btf.Enum, *btf.Pointer, *btf.Array:
	case *btf.Int:
		a.Text = to.Size == 1 && to.Name == "char"
	default:
		return // nothing is known of it, or it is code
	}
	size, err := btf.Sizeof(to)
	if err != nil || size <= 0 {
		a.Text = false
		return
	}
	a.Target, a.Size = p.Target, min(size, maxArgReach)
	if a.Text {
		a.Size = maxArgReach
	}
}

// ArgWords returns how many words have to be captured for args.
func ArgWords(args []Arg) int {
	n := 0
	for _, a := range args {
		n = max(n, a.Word+a.Words)
	}
	return n
}

// Cut reports whether a target of which size bytes were captured is longer; of
// a string, whether it may be: one that just fits looks the same.
func (a *Arg) Cut(size int) bool {
	if a.Text {
		return size >= a.Size
	}
	whole, err := btf.Sizeof(a.Target)
	return err != nil || whole > size
}
