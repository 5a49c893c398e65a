// SPDX-License-Identifier: Apache-2.0

package code

import (
	"bytes"
	"fmt"
	"strings"

	"golang.org/x/arch/x86/x86asm"

	"github.com/ksnoop/ksnoop/internal/ptregs"
)

// endbr64 begins functions that may be called through pointers. The decoder refuses it.
var endbr64 = []byte{0xf3, 0x0f, 0x1e, 0xfa}

// conditionAMD64 tells whether a condition holds: the low four bits of jCC's opcode.
func conditionAMD64(code uint8, flags uint64) bool {
	carry, parity, zero, sign, overflow := flags&1 != 0, flags>>2&1 != 0, flags>>6&1 != 0, flags>>7&1 != 0, flags>>11&1 != 0
	var holds bool
	switch code >> 1 & 7 {
	case 0:
		holds = overflow
	case 1:
		holds = carry
	case 2:
		holds = zero
	case 3:
		holds = carry || zero
	case 4:
		holds = sign
	case 5:
		holds = parity
	case 6:
		holds = sign != overflow
	case 7:
		holds = zero || sign != overflow
	}
	return holds != (code&1 != 0)
}

func decodeAMD64(code []byte, addr uint64) (Instruction, error) {
	in := Instruction{Addr: addr, writes: anyWord}
	if bytes.HasPrefix(code, endbr64) {
		in.Len, in.writes = len(endbr64), noWord
		return in, nil
	}
	x, err := decodeX86(code)
	if err != nil {
		in.Len, in.flow = 1, Unknown
		return in, err
	}
	in.Len = x.Len
	in.writes, in.stores = writesAMD64(&x)
	in.flowAMD64(&x)
	in.flags = !keepsFlags(x.Op)
	if in.flags {
		in.operands = operandsAMD64(&x, in.End())
	}
	return in, nil
}

// flowAMD64 sets where an instruction leads.
func (in *Instruction) flowAMD64(x *x86asm.Inst) {
	rel, direct := x.Args[0].(x86asm.Rel)
	if direct {
		in.Target = in.End() + uint64(int64(rel))
	}
	switch op := x.Op; {
	case op == x86asm.RET || op == x86asm.IRET || op == x86asm.IRETD || op == x86asm.IRETQ || op == x86asm.SYSRET || op == x86asm.LRET:
		in.flow = Leave
	case op == x86asm.JMP && direct:
		in.flow = Jump
	case op == x86asm.JMP || op == x86asm.LJMP:
		in.flow = Indirect
	case op == x86asm.JRCXZ || op == x86asm.JECXZ:
		in.flow = Branch
		in.Test = Test{Kind: Zero, Word: wordAMD64("cx"), Bits: 64}
		if op == x86asm.JECXZ {
			in.Test.Bits = 32
		}
	case op == x86asm.LOOP || op == x86asm.LOOPE || op == x86asm.LOOPNE || op == x86asm.XBEGIN || op == x86asm.JCXZ:
		in.flow = Unknown // no compiler makes them
	case direct && op != x86asm.CALL:
		in.flow = Branch
		in.Test = Test{Kind: FlagsAMD64, Code: uint8(x.Opcode >> 24 & 15), Word: wordAMD64("flags")}
		if x.Opcode>>24 == 0x0f {
			in.Test.Code = uint8(x.Opcode >> 16 & 15)
		}
	case op == x86asm.NOP || op == x86asm.INT && x.Args[0] == x86asm.Imm(3) || op == x86asm.UD2 || op == x86asm.UD1:
		in.padding = true
	}
}

func wordAMD64(name string) int { return ptregs.Words("amd64", name)[0] }

// keepsFlags reports whether an instruction is known to leave the flags alone.
func keepsFlags(op x86asm.Op) bool {
	switch op {
	case x86asm.MOV, x86asm.MOVZX, x86asm.MOVSX, x86asm.MOVSXD, x86asm.LEA, x86asm.NOP, x86asm.PUSH, x86asm.POP, x86asm.BSWAP, x86asm.NOT, x86asm.XCHG,
		x86asm.JMP, x86asm.CBW, x86asm.CWDE, x86asm.CDQE, x86asm.CWD, x86asm.CDQ, x86asm.CQO,
		x86asm.SETA, x86asm.SETAE, x86asm.SETB, x86asm.SETBE, x86asm.SETE, x86asm.SETG, x86asm.SETGE, x86asm.SETL, x86asm.SETLE, x86asm.SETNE,
		x86asm.SETNO, x86asm.SETNP, x86asm.SETNS, x86asm.SETO, x86asm.SETP, x86asm.SETS,
		x86asm.CMOVA, x86asm.CMOVAE, x86asm.CMOVB, x86asm.CMOVBE, x86asm.CMOVE, x86asm.CMOVG, x86asm.CMOVGE, x86asm.CMOVL, x86asm.CMOVLE, x86asm.CMOVNE,
		x86asm.CMOVNO, x86asm.CMOVNP, x86asm.CMOVNS, x86asm.CMOVO, x86asm.CMOVP, x86asm.CMOVS,
		x86asm.JA, x86asm.JAE, x86asm.JB, x86asm.JBE, x86asm.JE, x86asm.JG, x86asm.JGE, x86asm.JL, x86asm.JLE, x86asm.JNE,
		x86asm.JNO, x86asm.JNP, x86asm.JNS, x86asm.JO, x86asm.JP, x86asm.JS, x86asm.JRCXZ, x86asm.JECXZ:
		return true
	}
	return false
}

// writesAMD64 returns which register an instruction writes, and whether it writes memory. It
// is asked of instructions between a compare and its jump, which are moves.
func writesAMD64(x *x86asm.Inst) (word int, stores bool) {
	switch x.Op {
	case x86asm.NOP, x86asm.CMP, x86asm.TEST, x86asm.BT:
		return noWord, false
	case x86asm.PUSH, x86asm.POP, x86asm.XCHG, x86asm.CALL:
		return anyWord, true
	}
	if conditional(x) {
		return noWord, false
	}
	switch dst := x.Args[0].(type) {
	case x86asm.Reg:
		if w, _, _ := registerAMD64(dst); w >= 0 {
			return w, false
		}
	case x86asm.Mem:
		return noWord, true
	}
	return anyWord, true
}

// conditional reports whether x jumps by the flags.
func conditional(x *x86asm.Inst) bool {
	_, direct := x.Args[0].(x86asm.Rel)
	return direct && x.Op != x86asm.CALL && x.Op != x86asm.JMP
}

// operandsAMD64 returns what an instruction has compared: both operands where it keeps them,
// else the result. end is the address behind it.
func operandsAMD64(x *x86asm.Inst, end uint64) []Operand {
	args := x.Args[:2]
	switch x.Op {
	case x86asm.CMP, x86asm.TEST, x86asm.BT:
	case x86asm.ADD, x86asm.SUB, x86asm.AND, x86asm.OR, x86asm.XOR, x86asm.INC, x86asm.DEC, x86asm.NEG, x86asm.SHL, x86asm.SHR, x86asm.SAR, x86asm.ADC, x86asm.SBB:
		args = args[:1]
	default:
		return nil
	}
	var out []Operand
	for i, arg := range args {
		if arg == nil || i == 1 && arg == args[0] {
			continue
		}
		switch arg := arg.(type) {
		case x86asm.Reg:
			if w, size, shift := registerAMD64(arg); w >= 0 {
				out = append(out, Operand{Text: registerText(arg), Size: size, Shift: shift, Base: w, Index: -1})
			}
		case x86asm.Mem:
			if o, ok := memoryAMD64(arg, x.MemBytes, end); ok {
				out = append(out, o)
			}
		}
	}
	return out
}

// registerAMD64 finds a register: its word, its size in bytes, and the bits below it. word is
// negative for those that are not in pt_regs.
func registerAMD64(r x86asm.Reg) (word, size, shift int) {
	names := [...]string{"ax", "cx", "dx", "bx", "sp", "bp", "si", "di", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"}
	n := 0
	switch {
	case r >= x86asm.AH && r <= x86asm.BH:
		return wordAMD64(names[r-x86asm.AH]), 1, 8
	case r >= x86asm.AL && r <= x86asm.BL:
		n, size = int(r-x86asm.AL), 1
	case r >= x86asm.SPB && r <= x86asm.R15B:
		n, size = int(r-x86asm.SPB)+4, 1
	case r >= x86asm.AX && r <= x86asm.R15W:
		n, size = int(r-x86asm.AX), 2
	case r >= x86asm.EAX && r <= x86asm.R15L:
		n, size = int(r-x86asm.EAX), 4
	case r >= x86asm.RAX && r <= x86asm.R15:
		n, size = int(r-x86asm.RAX), 8
	default:
		return noWord, 0, 0
	}
	return wordAMD64(names[n]), size, 0
}

// memoryAMD64 makes an operand of an address. It makes none of memory in a segment: where that
// begins is not known.
func memoryAMD64(m x86asm.Mem, size int, end uint64) (Operand, bool) {
	// The decoder does not extend the sign if there is no base.
	o := Operand{Memory: true, Size: size, Base: noWord, Index: noWord, Scale: int(m.Scale), Disp: int64(int32(m.Disp))}
	if m.Segment == x86asm.FS || m.Segment == x86asm.GS || size != 1 && size != 2 && size != 4 && size != 8 {
		return o, false
	}
	o.Text = memoryText(m)
	switch {
	case m.Base == x86asm.RIP:
		o.Disp += int64(end)
	case m.Base != 0:
		w, n, _ := registerAMD64(m.Base)
		if w < 0 || n != 8 {
			return o, false
		}
		o.Base = w
	}
	if m.Index != 0 {
		w, n, _ := registerAMD64(m.Index)
		if w < 0 || n != 8 {
			return o, false
		}
		o.Index = w
	}
	return o, true
}

// registerText writes a register as the GNU assembler does.
func registerText(r x86asm.Reg) string {
	text := x86asm.GNUSyntax(x86asm.Inst{Op: x86asm.PUSH, Mode: 64, DataSize: 64, Args: x86asm.Args{r}}, 0, nil)
	return text[strings.IndexByte(text, ' ')+1:]
}

// memoryText writes a place in memory as the GNU assembler does.
func memoryText(m x86asm.Mem) string {
	text := ""
	if m.Disp < 0 {
		text = fmt.Sprintf("-%#x", -m.Disp)
	} else if m.Disp > 0 || m.Base == 0 && m.Index == 0 {
		text = fmt.Sprintf("%#x", m.Disp)
	}
	if m.Base == 0 && m.Index == 0 {
		return text
	}
	text += "("
	if m.Base != 0 {
		text += registerText(m.Base)
	}
	if m.Index != 0 {
		text += fmt.Sprintf(",%s,%d", registerText(m.Index), m.Scale)
	}
	return text + ")"
}
