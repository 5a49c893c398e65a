// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"encoding/binary"
	"testing"

	"github.com/cilium/ebpf/asm"
)

// A runner runs the instructions of one function, as far as tests need them. Its memory begins at address 0.
type runner struct {
	memory []byte
	regs   [11]uint64
}

// run executes a function that calls nothing but bpf_probe_read_kernel().
func (r *runner) run(t *testing.T, insns asm.Instructions) {
	t.Helper()
	labels := map[string]int{}
	for i := range insns {
		if name := insns[i].Symbol(); name != "" {
			labels[name] = i
		}
	}
	for i := 0; i < len(insns); i++ {
		ins := &insns[i]
		switch class := ins.OpCode.Class(); {
		case class.IsALU():
			r.alu(t, ins)
		case class.IsLoad():
			word := make([]byte, 8)
			copy(word[:ins.OpCode.Size().Sizeof()], r.memory[r.regs[ins.Src]+uint64(ins.Offset):])
			r.regs[ins.Dst] = binary.LittleEndian.Uint64(word)
		case class.IsStore():
			word := binary.LittleEndian.AppendUint64(nil, r.regs[ins.Src])
			copy(r.memory[r.regs[ins.Dst]+uint64(ins.Offset):], word[:ins.OpCode.Size().Sizeof()])
		case ins.IsBuiltinCall() && asm.BuiltinFunc(ins.Constant) == asm.FnProbeReadKernel:
			to, size, from := r.regs[1], r.regs[2], r.regs[3]
			copy(r.memory[to:to+size], r.memory[from:])
			r.regs[0] = 0
		case ins.OpCode.JumpOp() == asm.Exit:
			return
		case r.jumps(t, ins):
			i = labels[ins.Reference()] - 1
		}
	}
}

// jumps reports whether a jump is taken.
func (r *runner) jumps(t *testing.T, ins *asm.Instruction) bool {
	t.Helper()
	x, y := r.regs[ins.Dst], uint64(ins.Constant)
	if ins.OpCode.Source() == asm.RegSource {
		y = r.regs[ins.Src]
	}
	if ins.OpCode.Class() == asm.Jump32Class {
		x, y = uint64(uint32(x)), uint64(uint32(y))
	}
	switch ins.OpCode.JumpOp() {
	case asm.Ja:
		return true
	case asm.JEq:
		return x == y
	case asm.JNE:
		return x != y
	case asm.JLT:
		return x < y
	case asm.JLE:
		return x <= y
	case asm.JGE:
		return x >= y
	case asm.JSGE:
		return int64(x) >= int64(y)
	case asm.JSGT:
		return int64(x) > int64(y)
	}
	t.Fatalf("no such jump here: %v", ins)
	return false
}

func (r *runner) alu(t *testing.T, ins *asm.Instruction) {
	t.Helper()
	y := uint64(ins.Constant)
	if ins.OpCode.Source() == asm.RegSource {
		y = r.regs[ins.Src]
	}
	dst := &r.regs[ins.Dst]
	switch ins.OpCode.ALUOp() {
	case asm.Mov:
		*dst = y
	case asm.Add:
		*dst += y
	case asm.Sub:
		*dst -= y
	case asm.Or:
		*dst |= y
	case asm.And:
		*dst &= y
	case asm.Xor:
		*dst ^= y
	case asm.LSh:
		*dst <<= y
	case asm.RSh:
		*dst >>= y
	default:
		t.Fatalf("no such operator here: %v", ins)
	}
	if ins.OpCode.Class() == asm.ALUClass {
		*dst = uint64(uint32(*dst))
	}
}
