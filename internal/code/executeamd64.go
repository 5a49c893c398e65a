// SPDX-License-Identifier: Apache-2.0

package code

import (
	"bytes"
	"slices"

	"golang.org/x/arch/x86/x86asm"
)

// executeAMD64 executes an instruction on what is known of values. What it does not know makes
// all that it could change unknown.
func (w *walker) executeAMD64(in *Instruction) {
	text := w.f.codeAt(in.Addr)
	if changesNothing(text) {
		return
	}
	x, err := decodeX86(text)
	if err != nil {
		w.reset()
		return
	}
	if in.flags {
		w.compare = w.comparisonAMD64(in, &x)
	}
	switch x.Op {
	case x86asm.CALL:
		w.callAMD64(in)
	case x86asm.PUSH:
		v := w.valueAMD64(in, x.Args[0], 8)
		w.escape(v)
		w.moveStack(-8)
		w.store(w.words[wordAMD64("sp")], 8, v)
	case x86asm.POP:
		v := w.loadStack(w.words[wordAMD64("sp")], 8)
		w.moveStack(8)
		w.setAMD64(x.Args[0], sizeOf(&x), v)
	case x86asm.LEAVE:
		w.words[wordAMD64("sp")] = w.words[wordAMD64("bp")].plus(8)
		w.words[wordAMD64("bp")] = w.loadStack(w.words[wordAMD64("sp")].plus(-8), 8)
	case x86asm.MOV, x86asm.MOVZX, x86asm.MOVSX, x86asm.MOVSXD:
		w.moveAMD64(in, &x)
	case x86asm.CMP, x86asm.TEST, x86asm.BT, x86asm.NOP, x86asm.UD1, x86asm.UD2, x86asm.LFENCE, x86asm.MFENCE, x86asm.SFENCE, x86asm.PAUSE:
	case x86asm.CDQE: // the same number, longer
	case x86asm.CBW, x86asm.CWDE:
		w.words[wordAMD64("ax")] = w.fresh(in, Value{Kind: Opaque})
	case x86asm.CWD, x86asm.CDQ, x86asm.CQO:
		w.words[wordAMD64("dx")] = nil
	case x86asm.STOSB, x86asm.STOSW, x86asm.STOSD, x86asm.STOSQ, x86asm.MOVSB, x86asm.MOVSW, x86asm.MOVSD, x86asm.MOVSQ:
		w.disturb()
		for _, name := range usedByStrings {
			w.words[wordAMD64(name)] = nil
		}
	case x86asm.MUL, x86asm.DIV, x86asm.IDIV:
		w.words[wordAMD64("ax")], w.words[wordAMD64("dx")] = w.fresh(in, Value{Kind: Opaque}), nil
	case x86asm.XCHG, x86asm.XADD:
		w.escape(w.valueAMD64(in, x.Args[0], 8))
		w.escape(w.valueAMD64(in, x.Args[1], 8))
		w.setAMD64(x.Args[0], sizeOf(&x), nil)
		w.setAMD64(x.Args[1], sizeOf(&x), nil)
	default:
		w.computeAMD64(in, &x)
	}
}

// usedByStrings are the registers that instructions for areas of memory use up.
var usedByStrings = []string{"cx", "si", "di"}

// changesNothing reports whether code begins with an instruction that the decoder does not know
// and that changes no value: ENDBR64, and STAC and CLAC, which are around accesses to user space.
func changesNothing(text []byte) bool {
	return bytes.HasPrefix(text, endbr64) || bytes.HasPrefix(text, []byte{0x0f, 0x01, 0xca}) || bytes.HasPrefix(text, []byte{0x0f, 0x01, 0xcb})
}

// computeAMD64 executes what makes its first operand of others.
func (w *walker) computeAMD64(in *Instruction, x *x86asm.Inst) {
	if in.flow != Next {
		return
	}
	if x.Args[0] == nil || x.Args[1] == nil && !slices.Contains(oneResult, x.Op) && !isChoice(x.Op) {
		w.forget()
		return
	}
	n, constant := x.Args[1].(x86asm.Imm)
	before := w.valueAMD64(in, x.Args[0], x.DataSize/8)
	var v *Value
	switch {
	case x.Op == x86asm.LEA:
		v = w.addressAMD64(x.Args[1].(x86asm.Mem))
	case x.Op == x86asm.XOR && x.Args[0] == x.Args[1], x.Op == x86asm.SUB && x.Args[0] == x.Args[1]:
		v = w.fresh(in, Value{Kind: Constant})
	case before != nil && before.Kind == Chosen && (constant || x.Args[1] == nil) && slices.Contains(oneResult, x.Op):
		v = before // which of two it is, has been decided
	case x.Op == x86asm.ADD && constant:
		v = before.plus(int64(n))
	case x.Op == x86asm.SUB && constant:
		v = before.plus(-int64(n))
	case x.Op == x86asm.OR && constant && n == -1:
		v = w.fresh(in, Value{Kind: Constant, N: -1})
	case x.Op == x86asm.AND && constant && before != nil && before.Kind != Masked && before.Kind != Frame:
		v = w.fresh(in, Value{Kind: Masked, Base: before, N: int64(n)})
	case isChoice(x.Op):
		v = w.fresh(in, Value{Kind: Chosen})
	case slices.Contains(oneResult, x.Op), x.Op == x86asm.IMUL && x.Args[1] != nil:
		v = w.fresh(in, Value{Kind: Opaque})
	default:
		w.forget()
		return
	}
	if v != nil && v.Kind != Frame && v.Kind != Constant && x.DataSize == 16 {
		v = nil
	}
	if x.Args[0] != x86asm.RSP && x.Args[0] != x86asm.RBP {
		w.escape(v)
	}
	w.setAMD64(x.Args[0], sizeOf(x), v)
}

// oneResult are instructions that change nothing but their first operand and the flags.
var oneResult = []x86asm.Op{x86asm.ADD, x86asm.SUB, x86asm.AND, x86asm.OR, x86asm.XOR, x86asm.NOT, x86asm.NEG, x86asm.INC, x86asm.DEC, x86asm.SHL, x86asm.SHR,
	x86asm.SAR, x86asm.ROL, x86asm.ROR, x86asm.BSWAP, x86asm.BSF, x86asm.BSR, x86asm.LZCNT, x86asm.TZCNT, x86asm.POPCNT, x86asm.BTS, x86asm.BTR, x86asm.BTC, x86asm.SHLD, x86asm.SHRD, x86asm.ADC}

// isChoice reports whether an instruction makes its result by the flags.
func isChoice(op x86asm.Op) bool {
	return op == x86asm.SBB || keepsFlags(op) && op != x86asm.MOV && slices.Contains(choices, op)
}

var choices = []x86asm.Op{x86asm.SETA, x86asm.SETAE, x86asm.SETB, x86asm.SETBE, x86asm.SETE, x86asm.SETG, x86asm.SETGE, x86asm.SETL, x86asm.SETLE, x86asm.SETNE,
	x86asm.SETNO, x86asm.SETNP, x86asm.SETNS, x86asm.SETO, x86asm.SETP, x86asm.SETS,
	x86asm.CMOVA, x86asm.CMOVAE, x86asm.CMOVB, x86asm.CMOVBE, x86asm.CMOVE, x86asm.CMOVG, x86asm.CMOVGE, x86asm.CMOVL, x86asm.CMOVLE, x86asm.CMOVNE,
	x86asm.CMOVNO, x86asm.CMOVNP, x86asm.CMOVNS, x86asm.CMOVO, x86asm.CMOVP, x86asm.CMOVS}

func (w *walker) moveStack(n int64) {
	w.words[wordAMD64("sp")] = w.words[wordAMD64("sp")].plus(n)
}

// callAMD64 executes a call: what the called function may change is unknown then.
func (w *walker) callAMD64(in *Instruction) {
	if in.Addr-w.f.Parts[0].Addr <= uint64(len(endbr64)) {
		return // of the tracer of functions, which changes nothing
	}
	w.call(in)
}

// moveAMD64 executes a move.
func (w *walker) moveAMD64(in *Instruction, x *x86asm.Inst) {
	size := x.MemBytes
	if size == 0 {
		size = 8
	}
	v := w.valueAMD64(in, x.Args[1], size)
	if x.Op != x86asm.MOV {
		v = w.extended(in, x, v)
	}
	if v == nil {
		v = w.fresh(in, Value{Kind: Opaque})
	}
	if x.Args[0] != x86asm.RSP && x.Args[0] != x86asm.RBP {
		w.escape(v)
	}
	if v.Kind == Constant || v.Kind == Opaque {
		made := *v
		made.From, made.Step = in.Addr, w.step
		if x.DataSize == 32 {
			made.N = int64(int32(made.N))
		}
		if _, immediate := x.Args[1].(x86asm.Imm); immediate || v.Kind == Opaque {
			v = &made
		}
	}
	w.setAMD64(x.Args[0], sizeOf(x), v)
}

// extended returns a value of which a part was made longer.
func (w *walker) extended(in *Instruction, x *x86asm.Inst, v *Value) *Value {
	r, ok := x.Args[1].(x86asm.Reg)
	if !ok || v == nil || v.Kind == Chosen {
		return v
	}
	_, n, _ := registerAMD64(r)
	switch {
	case n >= 4, v.Kind == Memory && v.Size <= n:
		return v
	case x.Op == x86asm.MOVZX:
		return w.fresh(in, Value{Kind: Masked, Base: v, N: 1<<(8*n) - 1})
	}
	return nil
}

// sizeOf returns how many bytes of memory an instruction accesses.
func sizeOf(x *x86asm.Inst) int {
	if x.MemBytes != 0 {
		return x.MemBytes
	}
	return max(x.DataSize/8, 1)
}

// setAMD64 sets an operand. A part of a register makes all of it unknown, other than the lower
// half, which clears the upper one.
func (w *walker) setAMD64(arg x86asm.Arg, size int, v *Value) {
	switch arg := arg.(type) {
	case x86asm.Reg:
		word, n, _ := registerAMD64(arg)
		if word < 0 {
			return
		}
		if n < 4 && (v == nil || v.Kind != Chosen) {
			v = nil
		}
		w.words[word] = v
	case x86asm.Mem:
		if arg.Segment != 0 || arg.Base == x86asm.RIP && arg.Index == 0 {
			return // none of these is the stack
		}
		w.store(w.addressAMD64(arg), size, v)
	}
}

// valueAMD64 returns what an operand holds.
func (w *walker) valueAMD64(in *Instruction, arg x86asm.Arg, size int) *Value {
	switch arg := arg.(type) {
	case x86asm.Imm:
		return w.fresh(in, Value{Kind: Constant, N: int64(arg)})
	case x86asm.Reg:
		word, n, shift := registerAMD64(arg)
		if word < 0 || w.words[word] == nil || shift != 0 {
			return nil
		}
		if v := w.words[word]; n >= 4 || v.Kind == Memory && v.Size <= n || v.Kind == Argument || v.Kind == Chosen || v.Kind == Result {
			return v
		}
	case x86asm.Mem:
		return w.loadAMD64(in, arg, size)
	}
	return nil
}

// lowest returns the lowest bytes of a register, of which more is known.
func (w *walker) lowest(in *Instruction, arg x86asm.Arg) *Value {
	r, ok := arg.(x86asm.Reg)
	if !ok {
		return nil
	}
	word, n, shift := registerAMD64(r)
	if word < 0 || w.words[word] == nil || shift != 0 || n >= 4 {
		return nil
	}
	return w.fresh(in, Value{Kind: Masked, Base: w.words[word], N: 1<<(8*n) - 1})
}

func (w *walker) loadAMD64(in *Instruction, m x86asm.Mem, size int) *Value {
	if m.Segment != 0 || m.Index != 0 {
		return nil
	}
	base := w.addressAMD64(x86asm.Mem{Base: m.Base})
	if base == nil {
		return nil
	}
	if base.Kind == Frame {
		return w.loadStack(base.plus(m.Disp), size)
	}
	v := base.load(m.Disp, size)
	if v != nil {
		v.From, v.Step = in.Addr, w.step
	}
	return v
}

// addressAMD64 returns the address that an operand in memory has.
func (w *walker) addressAMD64(m x86asm.Mem) *Value {
	if m.Segment != 0 || m.Index != 0 || m.Base == 0 || m.Base == x86asm.RIP {
		return nil
	}
	word, n, _ := registerAMD64(m.Base)
	if word < 0 || n != 8 {
		return nil
	}
	return w.words[word].plus(m.Disp)
}

// comparisonAMD64 says what the flags are about.
func (w *walker) comparisonAMD64(in *Instruction, x *x86asm.Inst) *Comparison {
	c := &Comparison{Addr: in.Addr, Size: x.DataSize / 8, Left: Side{Operand: None}, Right: Side{Operand: None}}
	if x.MemBytes != 0 {
		c.Size = x.MemBytes
	}
	if r, ok := x.Args[0].(x86asm.Reg); ok {
		_, c.Size, _ = registerAMD64(r)
	}
	sides := [...]*Side{&c.Left, &c.Right}
	n := 0
	for i, side := range sides {
		arg := x.Args[i]
		if side.Value = w.valueAMD64(in, arg, c.Size); side.Value == nil {
			side.Value = w.lowest(in, arg)
		}
		if n < len(in.operands) && operandText(arg) == in.operands[n].Text {
			side.Operand, side.text = n, in.operands[n].Text
			n++
		}
	}
	switch x.Op {
	case x86asm.CMP:
	case x86asm.TEST:
		if x.Args[0] == x.Args[1] {
			c.Right = Side{Operand: None, Value: &Value{Kind: Constant}}
		} else {
			c.Common = true
		}
	case x86asm.AND, x86asm.OR, x86asm.SUB, x86asm.ADD, x86asm.DEC, x86asm.INC, x86asm.XOR, x86asm.SHR, x86asm.SHL, x86asm.SAR, x86asm.NEG:
		c.Computed = true
		c.Left, c.Right = Side{Operand: c.Left.Operand}, Side{Operand: None, Value: &Value{Kind: Constant}}
		if m, ok := x.Args[1].(x86asm.Imm); ok && x.Op == x86asm.AND {
			if v := w.valueAMD64(in, x.Args[0], c.Size); v != nil && v.Kind != Masked {
				c.Left.Value = &Value{Kind: Masked, Base: v, N: int64(m)}
			}
		}
	default:
		return nil
	}
	return c
}

// operandText writes an operand as operandsAMD64 does.
func operandText(arg x86asm.Arg) string {
	switch arg := arg.(type) {
	case x86asm.Reg:
		return registerText(arg)
	case x86asm.Mem:
		return memoryText(arg)
	}
	return ""
}
