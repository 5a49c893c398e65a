// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// Constants are the engine's variables that no longer change, by the data section they are in.
// Programs may be pruned by them.
type Constants map[string][]byte

// ConstantsOf returns those of an engine that is set up.
func ConstantsOf(spec *ebpf.CollectionSpec) Constants {
	c := Constants{}
	for name, m := range spec.Maps {
		if !strings.HasPrefix(name, ".rodata") || m.Flags&unix.BPF_F_RDONLY_PROG == 0 || len(m.Contents) != 1 {
			continue
		}
		if data, ok := m.Contents[0].Value.([]byte); ok {
			c[name] = slices.Clone(data)
		}
	}
	for _, v := range spec.Variables {
		if data := c[v.SectionName]; data != nil {
			copy(data[v.Offset:], v.Value)
		}
	}
	return c
}

// Prune returns a program of the engine's functions without what cannot be reached, since the constants decide
// conditions. The verifier would drop the same, but not before it has gone through all of it in many ways: this is most
// of its work for a program of sessions. The program does what it did before.
func (c Constants) Prune(insns asm.Instructions) asm.Instructions {
	functions := map[string]asm.Instructions{}
	var order []string
	for _, f := range split(insns) {
		name := f.Name()
		order = append(order, name)
		functions[name] = c.pruneFunction(f)
	}
	used := map[string]bool{}
	todo := []string{order[0]}
	for len(todo) > 0 {
		name := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if used[name] {
			continue
		}
		used[name] = true
		todo = append(todo, functions[name].FunctionReferences()...)
	}
	var out asm.Instructions
	for _, name := range order {
		if used[name] {
			out = append(out, functions[name]...)
		}
	}
	return out
}

// pruneFunction drops what cannot be reached in a function. One with a tail call stays as it is: a tail call that is
// never made keeps the kernel from giving the program a stack of its own.
func (c Constants) pruneFunction(insns asm.Instructions) asm.Instructions {
	if slices.ContainsFunc(insns, func(ins asm.Instruction) bool {
		return ins.IsBuiltinCall() && asm.BuiltinFunc(ins.Constant) == asm.FnTailCall
	}) {
		return insns
	}
	f := flow{constants: c, insns: insns}
	if !f.findTargets() {
		return insns
	}
	f.follow()
	return f.reached()
}

// A flow follows the instructions of a function with what is known of its registers.
type flow struct {
	constants Constants
	insns     asm.Instructions
	target    []int              // of each jump, the index of the instruction it goes to
	joins     map[int]*registers // what is known at the instructions that jumps go to
	outcome   []outcome
}

// An outcome says where it goes on after an instruction; unreached if it is never run.
type outcome uint8

const (
	unreached outcome = iota
	goesOn
	jumps
	either
	ends
)

// A known is what is known of a register's value: nothing, a number, or that it is an address in a section
// of constants.
type known struct {
	kind    kind
	section string
	n       uint64 // the number, or the offset in the section
}

type kind uint8

const (
	anything kind = iota
	number
	address
)

// registers are R0 to R10. What R10 points to is not followed.
type registers [asm.R10 + 1]known

// findTargets finds out where jumps go. It reports false if there is one that is not understood.
func (f *flow) findTargets() bool {
	labels, offsets := map[string]int{}, map[asm.RawInstructionOffset]int{}
	at := make([]asm.RawInstructionOffset, len(f.insns))
	for it := f.insns.Iterate(); it.Next(); {
		at[it.Index], offsets[it.Offset] = it.Offset, it.Index
		if s := it.Ins.Symbol(); s != "" {
			labels[s] = it.Index
		}
	}
	f.target, f.joins = make([]int, len(f.insns)), map[int]*registers{}
	for i := range f.insns {
		ins := &f.insns[i]
		if !branches(ins) {
			continue
		}
		to, ok := labels[ins.Reference()]
		if ins.Reference() == "" {
			to, ok = offsets[at[i]+1+asm.RawInstructionOffset(ins.Offset)]
		}
		if _, plain := compare(ins.OpCode.JumpOp(), 0, 0); !ok || !plain && ins.OpCode != jumpAlways {
			return false
		}
		f.target[i], f.joins[to] = to, nil
	}
	return true
}

var jumpAlways = asm.Ja.Label("").OpCode

// branches reports whether an instruction is a jump within a function.
func branches(ins *asm.Instruction) bool {
	op := ins.OpCode
	return op.Class().IsJump() && op.JumpOp() != asm.Call && op.JumpOp() != asm.Exit
}

// follow goes all ways from the beginning, and again where less is known than it was the first time.
func (f *flow) follow() {
	f.outcome = make([]outcome, len(f.insns))
	var todo []int
	// meet adds what is known at an instruction on one of the ways there, and reports whether that is new.
	meet := func(i int, regs *registers) bool {
		old := f.joins[i]
		if old == nil {
			copied := *regs
			f.joins[i] = &copied
			return true
		}
		changed := false
		for r := range old {
			if old[r] != regs[r] && old[r].kind != anything {
				old[r], changed = known{}, true
			}
		}
		return changed
	}
	meet(0, &registers{})
	for todo = append(todo, 0); len(todo) > 0; {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		regs := *f.joins[i]
		for first := true; i < len(f.insns); i++ {
			if _, join := f.joins[i]; join && !first {
				if !meet(i, &regs) {
					break
				}
				regs = *f.joins[i]
			}
			first = false
			f.outcome[i] = f.step(i, &regs)
			if f.outcome[i] == jumps || f.outcome[i] == either {
				if to := f.target[i]; meet(to, &regs) {
					todo = append(todo, to)
				}
			}
			if f.outcome[i] == jumps || f.outcome[i] == ends {
				break
			}
		}
	}
}

// step runs an instruction.
func (f *flow) step(i int, regs *registers) outcome {
	ins := &f.insns[i]
	op := ins.OpCode
	relocated := btf.CORERelocationMetadata(ins) != nil // then its values are not yet those of this kernel
	switch op.Class() {
	case asm.JumpClass, asm.Jump32Class:
		return f.jump(ins, regs)
	case asm.LdClass:
		switch {
		case relocated || !op.IsDWordLoad():
			regs[asm.R0], regs[ins.Dst] = known{}, known{}
		case ins.Src == asm.PseudoMapValue && f.constants[ins.Reference()] != nil:
			regs[ins.Dst] = known{address, ins.Reference(), uint64(ins.Constant) >> 32}
		case ins.Src == asm.R0 && ins.Reference() == "":
			regs[ins.Dst] = known{kind: number, n: uint64(ins.Constant)}
		default:
			regs[ins.Dst] = known{}
		}
	case asm.LdXClass:
		from := regs[ins.Src]
		regs[ins.Dst] = known{}
		if n, ok := f.constants.load(from, int64(ins.Offset), op.Size()); ok && op.Mode() == asm.MemMode && !relocated {
			regs[ins.Dst] = known{kind: number, n: n}
		}
	case asm.ALUClass, asm.ALU64Class:
		if regs[ins.Dst] = alu(ins, regs); relocated {
			regs[ins.Dst] = known{}
		}
	case asm.StXClass:
		if op.Mode() != asm.MemMode { // atomic: it may give the old value back
			regs[asm.R0], regs[ins.Src], regs[ins.Dst] = known{}, known{}, known{}
		}
	}
	return goesOn
}

// jump returns where a jump, a call or an exit goes on.
func (f *flow) jump(ins *asm.Instruction, regs *registers) outcome {
	op := ins.OpCode
	switch op.JumpOp() {
	case asm.Exit:
		return ends
	case asm.Call:
		for r := asm.R0; r <= asm.R5; r++ {
			regs[r] = known{}
		}
		return goesOn
	}
	if op == jumpAlways {
		return jumps
	}
	x, y := regs[ins.Dst], known{kind: number, n: uint64(ins.Constant)}
	if op.Source() == asm.RegSource {
		y = regs[ins.Src]
	}
	if x.kind != number || y.kind != number {
		return either
	}
	a, b := x.n, y.n
	if op.Class() == asm.Jump32Class { // as signed numbers, which have the same order as unsigned ones
		a, b = uint64(int64(int32(a))), uint64(int64(int32(b)))
	}
	if taken, _ := compare(op.JumpOp(), a, b); taken {
		return jumps
	}
	return goesOn
}

// compare reports whether a jump is taken, and whether its condition is known here.
func compare(op asm.JumpOp, a, b uint64) (taken, ok bool) {
	switch op {
	case asm.JEq:
		return a == b, true
	case asm.JNE:
		return a != b, true
	case asm.JGT:
		return a > b, true
	case asm.JGE:
		return a >= b, true
	case asm.JLT:
		return a < b, true
	case asm.JLE:
		return a <= b, true
	case asm.JSGT:
		return int64(a) > int64(b), true
	case asm.JSGE:
		return int64(a) >= int64(b), true
	case asm.JSLT:
		return int64(a) < int64(b), true
	case asm.JSLE:
		return int64(a) <= int64(b), true
	case asm.JSet:
		return a&b != 0, true
	}
	return false, false
}

// load loads from an address among the constants.
func (c Constants) load(from known, offset int64, size asm.Size) (n uint64, ok bool) {
	at, bytes := int64(from.n)+offset, int64(size.Sizeof())
	data := c[from.section]
	if from.kind != address || at < 0 || bytes < 1 || at+bytes > int64(len(data)) {
		return 0, false
	}
	for i := range bytes {
		n |= uint64(data[at+i]) << (8 * i)
	}
	return n, true
}

// alu returns what an instruction computes.
func alu(ins *asm.Instruction, regs *registers) known {
	op := ins.OpCode
	x, y := regs[ins.Dst], known{kind: number, n: uint64(ins.Constant)}
	if op.Source() == asm.RegSource {
		y = regs[ins.Src]
	}
	wide := op.Class() == asm.ALU64Class
	switch {
	case ins.Offset != 0: // a cast between address spaces, a move that extends the sign
		return known{}
	case op.ALUOp() == asm.Mov && wide:
		return y
	case op.ALUOp() == asm.Add && wide && x.kind == address && y.kind == number:
		return known{address, x.section, x.n + y.n}
	case y.kind != number || x.kind != number && op.ALUOp() != asm.Mov:
		return known{}
	}
	a, b, bits := x.n, y.n, uint64(64)
	if !wide {
		a, b, bits = uint64(uint32(a)), uint64(uint32(b)), 32
	}
	switch op.ALUOp() {
	case asm.Mov:
		a = b
	case asm.Add:
		a += b
	case asm.Sub:
		a -= b
	case asm.And:
		a &= b
	case asm.Or:
		a |= b
	case asm.Xor:
		a ^= b
	case asm.LSh:
		a <<= b & (bits - 1)
	case asm.RSh:
		a >>= b & (bits - 1)
	default:
		return known{}
	}
	if !wide {
		a = uint64(uint32(a))
	}
	return known{kind: number, n: a}
}

// reached returns the instructions that are reached. Jumps whose outcome is known have no condition any more.
func (f *flow) reached() asm.Instructions {
	var out asm.Instructions
	became := make([]int, len(f.insns)+1) // the index in out of an instruction, or of what follows it
	for i := range f.insns {
		became[i] = len(out)
		ins := f.insns[i]
		if f.outcome[i] == unreached {
			continue
		}
		if branches(&ins) && f.outcome[i] != either {
			ins.OpCode, ins.Dst, ins.Src, ins.Constant = jumpAlways, 0, 0, 0
			if f.outcome[i] == goesOn {
				if ins.Symbol() == "" && i > 0 {
					continue
				}
				ins = ins.WithReference("") // to what follows: the name stays
				ins.Offset = 0
			}
		}
		out = append(out, ins)
	}
	at := make([]asm.RawInstructionOffset, len(out))
	for it := out.Iterate(); it.Next(); {
		at[it.Index] = it.Offset
	}
	for i := range f.insns {
		if o := f.outcome[i]; o != jumps && o != either || f.insns[i].Reference() != "" {
			continue
		}
		ins := &out[became[i]]
		ins.Offset = int16(at[became[f.target[i]]] - at[became[i]] - 1)
	}
	return out
}
