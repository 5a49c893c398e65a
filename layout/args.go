// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"github.com/cilium/ebpf/btf"
)

// An Arg says what to capture of one argument where all arguments are captured: the words
// it is passed in and, for some pointers, what they point to.
type Arg struct {
	Param *Param
	// Word is the index of the first 64-bit word, Words their number. Words is 0 if the
	// argument is beyond the words that are captured.
	Word, Words int
	// Target is the type of what the argument points to; nil if that is not captured. Text
	// says that it is a NUL-terminated string.
	Target btf.Type
	Text   bool
	Size   int // bytes captured of the target, at most
	// Ref says that the target is the argument's own value, passed as the address of a
	// copy.
	Ref bool
	// Withheld says that neither the words nor the target are captured.
	Withheld bool
}

// Withhold has an argument not captured.
func (a *Arg) Withhold() { a.Target, a.Text, a.Size, a.Withheld = nil, false, 0, true }

// Limits on what is captured where all arguments are.
const (
	maxArgWords   = 12
	maxArgTargets = 6
	maxArgReach   = 256
)

// ArgsOf returns what to capture of each argument of a function.
func ArgsOf(params []Param, arch string) []Arg {
	abi := abis[arch]
	args := make([]Arg, 0, len(params))
	targets := 0
	for i := range params {
		p := &params[i]
		a := Arg{Param: p, Word: p.Loc.Reg, Words: p.Loc.Slots, Ref: p.Loc.Ref}
		if p.Absent || p.Lost != 0 {
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

// target decides what to capture of what an argument points to.
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
		return // void, a function, an unknown type: nothing to show
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

// ArgWords returns the number of words that args need.
func ArgWords(args []Arg) int {
	n := 0
	for _, a := range args {
		n = max(n, a.Word+a.Words)
	}
	return n
}

// Cut reports whether a target is longer than the size bytes that were captured. For a
// string the answer may be wrong in one case: a string that just fits looks like one that
// was cut.
func (a *Arg) Cut(size int) bool {
	if a.Text {
		return size >= a.Size
	}
	whole, err := btf.Sizeof(a.Target)
	return err != nil || whole > size
}
