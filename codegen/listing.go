// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/cilium/ebpf/asm"
)

var aluOps = map[asm.ALUOp]string{asm.Add: "+=", asm.Sub: "-=", asm.Mul: "*=", asm.Div: "/=", asm.Mod: "%=", asm.Or: "|=", asm.And: "&=",
	asm.Xor: "^=", asm.LSh: "<<=", asm.RSh: ">>=", asm.ArSh: "s>>=", asm.Mov: "=", asm.SDiv: "s/=", asm.SMod: "s%="}

var jumpOps = map[asm.JumpOp]string{asm.JEq: "==", asm.JNE: "!=", asm.JGT: ">", asm.JGE: ">=", asm.JLT: "<", asm.JLE: "<=", asm.JSet: "&",
	asm.JSGT: "s>", asm.JSGE: "s>=", asm.JSLT: "s<", asm.JSLE: "s<="}

var sizes = map[asm.Size]string{asm.Byte: "u8", asm.Half: "u16", asm.Word: "u32", asm.DWord: "u64"}

// FormatInstruction returns an instruction as the verifier prints it (kernel/bpf/disasm.c), but jumps go to labels, and
// calls and maps have names. It returns false if there is something in it that Compile does not generate.
func FormatInstruction(ins asm.Instruction) (string, bool) {
	op := ins.OpCode
	dst, src := registerName(ins.Dst, true), registerName(ins.Src, true)
	memory := func(base string) string { return fmt.Sprintf("*(%s *)(%s %+d)", sizes[op.Size()], base, ins.Offset) }
	switch op.Class() {
	case asm.ALU64Class, asm.ALUClass:
		return formatArithmetic(ins)
	case asm.LdClass:
		switch {
		case ins.IsLoadFromMap():
			return fmt.Sprintf("%s = map[%s]%+d", dst, ins.Reference(), ins.Constant>>32), true
		case ins.Src == pseudoBTFID:
			return fmt.Sprintf("%s = the kernel's variable %d", dst, ins.Constant), true
		}
		return fmt.Sprintf("%s = %#x", dst, uint64(ins.Constant)), ins.Src == 0
	case asm.LdXClass:
		return fmt.Sprintf("%s = %s", dst, memory(src)), op.Mode() == asm.MemMode
	case asm.StXClass:
		switch op.AtomicOp() {
		case asm.AddAtomic:
			return fmt.Sprintf("lock %s += %s", memory(dst), src), true
		case asm.Xchg:
			return fmt.Sprintf("%s = atomic_xchg(%s, %[1]s)", src, memory(dst)), true
		case asm.CmpXchg:
			return fmt.Sprintf("r0 = atomic_cmpxchg(%s, r0, %s)", memory(dst), src), true
		}
		return fmt.Sprintf("%s = %s", memory(dst), src), op.Mode() == asm.MemMode
	case asm.StClass:
		return fmt.Sprintf("%s = %d", memory(dst), ins.Constant), op.Mode() == asm.MemMode
	case asm.JumpClass, asm.Jump32Class:
		return formatJump(ins)
	}
	return "", false
}

// registerName is a register, or its low half as 32-bit operations take it.
func registerName(r asm.Register, wide bool) string {
	if wide {
		return fmt.Sprintf("r%d", r)
	}
	return fmt.Sprintf("w%d", r)
}

// formatArithmetic formats operations on registers.
func formatArithmetic(ins asm.Instruction) (string, bool) {
	op := ins.OpCode
	wide := op.Class() == asm.ALU64Class
	dst := registerName(ins.Dst, wide)
	switch op.ALUOp() {
	case asm.Neg:
		return fmt.Sprintf("%s = -%[1]s", dst), true
	case asm.Swap:
		to := map[asm.Endianness]string{asm.LE: "le", asm.BE: "be"}[op.Endianness()]
		return fmt.Sprintf("%s = %s%d %[1]s", ins.Dst, to, ins.Constant), !wide
	}
	name, ok := aluOps[op.ALUOp()]
	if op.Source() == asm.RegSource {
		return fmt.Sprintf("%s %s %s", dst, name, registerName(ins.Src, wide)), ok
	}
	return fmt.Sprintf("%s %s %d", dst, name, int32(ins.Constant)), ok
}

// formatJump formats jumps and calls.
func formatJump(ins asm.Instruction) (string, bool) {
	op := ins.OpCode
	switch op.JumpOp() {
	case asm.Exit:
		return "exit", true
	case asm.Ja:
		return "goto " + ins.Reference(), ins.Reference() != ""
	case asm.Call:
		switch {
		case ins.IsBuiltinCall():
			return fmt.Sprintf("call %s#%d", helperName(asm.BuiltinFunc(ins.Constant).String()), ins.Constant), true
		case ins.IsFunctionCall():
			return "call " + ins.Reference(), ins.Reference() != ""
		}
		return fmt.Sprintf("call the kernel's function with BTF id %d", ins.Constant), ins.IsKfuncCall()
	}
	wide := op.Class() == asm.JumpClass
	with := fmt.Sprintf("%#x", int32(ins.Constant))
	if op.Source() == asm.RegSource {
		with = registerName(ins.Src, wide)
	}
	name, ok := jumpOps[op.JumpOp()]
	return fmt.Sprintf("if %s %s %s goto %s", registerName(ins.Dst, wide), name, with, ins.Reference()), ok && ins.Reference() != ""
}

// helperName is what the kernel calls a helper: FnProbeReadKernel is bpf_probe_read_kernel.
func helperName(name string) string {
	var b strings.Builder
	b.WriteString("bpf")
	for _, r := range strings.TrimPrefix(name, "Fn") {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
