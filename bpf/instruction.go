// SPDX-License-Identifier: Apache-2.0

package bpf

import "github.com/cilium/ebpf/asm"

// appendLoad loads the 4 bytes at the beginning of a data section.
func appendLoad(dst asm.Instructions, reg asm.Register, section string) asm.Instructions {
	return append(dst,
		asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: reg, Src: asm.PseudoMapValue}.WithReference(section),
		asm.LoadMem(reg, reg, 0, asm.Word))
}

// atomically is op.Mem with the constant that the encoder of github.com/cilium/ebpf v0.22 needs. Mem
// leaves it 0, which is an addition.
func atomically(op asm.AtomicOp, dst, src asm.Register, offset int16) asm.Instruction {
	ins := op.Mem(dst, src, asm.DWord, offset)
	ins.Constant = int64(op >> 8)
	return ins
}
