// SPDX-License-Identifier: Apache-2.0

package codegen_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
)

// appendListing appends a function as the verifier prints instructions (kernel/bpf/disasm.c), but
// for these: jumps go to labels, calls and maps have names, and instructions no numbers, so that
// one more does not change all lines. The text that an instruction stands for is above it.
func appendListing(dst []byte, t *testing.T, f bpf.Subprogram) []byte {
	t.Helper()
	dst = fmt.Appendf(dst, "%s, %d instructions:\n", f.Name, len(f.Insns))
	source := ""
	for _, ins := range f.Insns {
		if label := ins.Symbol(); label != "" && label != f.Name {
			dst = fmt.Appendf(dst, "%s:\n", label)
		}
		if s := ins.Source(); s != nil && s.String() != source {
			source = s.String()
			dst = fmt.Appendf(dst, "  ; %s\n", source)
		}
		line, ok := disassembled(ins)
		if !ok {
			t.Errorf("%s: %v cannot be listed", f.Name, ins)
		}
		dst = fmt.Appendf(dst, "  (%02x) %s\n", uint8(ins.OpCode), line)
	}
	return dst
}

// variableByID is BPF_PSEUDO_BTF_ID.
const variableByID = asm.Register(3)

var aluOps = map[asm.ALUOp]string{asm.Add: "+=", asm.Sub: "-=", asm.Mul: "*=", asm.Div: "/=", asm.Mod: "%=", asm.Or: "|=", asm.And: "&=",
	asm.Xor: "^=", asm.LSh: "<<=", asm.RSh: ">>=", asm.ArSh: "s>>=", asm.Mov: "=", asm.SDiv: "s/=", asm.SMod: "s%="}

var jumpOps = map[asm.JumpOp]string{asm.JEq: "==", asm.JNE: "!=", asm.JGT: ">", asm.JGE: ">=", asm.JLT: "<", asm.JLE: "<=", asm.JSet: "&",
	asm.JSGT: "s>", asm.JSGE: "s>=", asm.JSLT: "s<", asm.JSLE: "s<="}

var sizes = map[asm.Size]string{asm.Byte: "u8", asm.Half: "u16", asm.Word: "u32", asm.DWord: "u64"}

// disassembled is one instruction; false if there is something in it that is not known here.
func disassembled(ins asm.Instruction) (string, bool) {
	op := ins.OpCode
	dst, src := register(ins.Dst, true), register(ins.Src, true)
	memory := func(base string) string { return fmt.Sprintf("*(%s *)(%s %+d)", sizes[op.Size()], base, ins.Offset) }
	switch op.Class() {
	case asm.ALU64Class, asm.ALUClass:
		return arithmetic(ins)
	case asm.LdClass:
		switch {
		case ins.IsLoadFromMap():
			return fmt.Sprintf("%s = map[%s]%+d", dst, ins.Reference(), ins.Constant>>32), true
		case ins.Src == variableByID:
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
		return jump(ins)
	}
	return "", false
}

// register is a register, or its low half as 32-bit operations take it.
func register(r asm.Register, wide bool) string {
	if wide {
		return fmt.Sprintf("r%d", r)
	}
	return fmt.Sprintf("w%d", r)
}

func arithmetic(ins asm.Instruction) (string, bool) {
	op := ins.OpCode
	wide := op.Class() == asm.ALU64Class
	dst := register(ins.Dst, wide)
	switch op.ALUOp() {
	case asm.Neg:
		return fmt.Sprintf("%s = -%[1]s", dst), true
	case asm.Swap:
		to := map[asm.Endianness]string{asm.LE: "le", asm.BE: "be"}[op.Endianness()]
		return fmt.Sprintf("%s = %s%d %[1]s", ins.Dst, to, ins.Constant), !wide
	}
	name, ok := aluOps[op.ALUOp()]
	if op.Source() == asm.RegSource {
		return fmt.Sprintf("%s %s %s", dst, name, register(ins.Src, wide)), ok
	}
	return fmt.Sprintf("%s %s %d", dst, name, int32(ins.Constant)), ok
}

func jump(ins asm.Instruction) (string, bool) {
	op := ins.OpCode
	switch op.JumpOp() {
	case asm.Exit:
		return "exit", true
	case asm.Ja:
		return "goto " + ins.Reference(), ins.Reference() != ""
	case asm.Call:
		switch {
		case ins.IsBuiltinCall():
			return fmt.Sprintf("call %s#%d", helper(asm.BuiltinFunc(ins.Constant).String()), ins.Constant), true
		case ins.IsFunctionCall():
			return "call " + ins.Reference(), ins.Reference() != ""
		}
		return fmt.Sprintf("call the kernel's function %d", ins.Constant), ins.IsKfuncCall()
	}
	wide := op.Class() == asm.JumpClass
	with := fmt.Sprintf("%#x", int32(ins.Constant))
	if op.Source() == asm.RegSource {
		with = register(ins.Src, wide)
	}
	name, ok := jumpOps[op.JumpOp()]
	return fmt.Sprintf("if %s %s %s goto %s", register(ins.Dst, wide), name, with, ins.Reference()), ok && ins.Reference() != ""
}

// helper is what the kernel calls a helper: FnProbeReadKernel is bpf_probe_read_kernel.
func helper(name string) string {
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
