// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// A jump holds the jump instructions of a comparison, for unsigned and signed operands.
type jump struct{ unsigned, signed asm.JumpOp }

var jumps = map[expr.Op]jump{
	expr.OpEq: {asm.JEq, asm.JEq}, expr.OpNe: {asm.JNE, asm.JNE},
	expr.OpLt: {asm.JLT, asm.JSLT}, expr.OpLe: {asm.JLE, asm.JSLE},
	expr.OpGt: {asm.JGT, asm.JSGT}, expr.OpGe: {asm.JGE, asm.JSGE},
}

// negations maps each comparison to its opposite.
var negations = map[expr.Op]expr.Op{
	expr.OpEq: expr.OpNe, expr.OpNe: expr.OpEq, expr.OpLt: expr.OpGe,
	expr.OpGe: expr.OpLt, expr.OpGt: expr.OpLe, expr.OpLe: expr.OpGt,
}

// condition continues if p holds, and jumps to otherwise if not.
func (a *assembler) condition(p layout.Predicate, otherwise string) {
	a.say(a.probe.ItemText(p.Item))
	a.branch(p.Term, otherwise, false)
}

// branch jumps to label if the truth of t equals sense, and continues if not.
func (a *assembler) branch(t expr.Term, label string, sense bool) {
	switch t := t.(type) {
	case *expr.Const:
		if (t.V != 0) == sense {
			a.emit(asm.Ja.Label(label))
		}
	case *expr.UnaryTerm:
		if t.Op == expr.OpNot {
			a.branch(t.X, label, !sense)
			return
		}
		a.branchValue(t, label, sense)
	case *expr.Logic:
		a.branchLogic(t, label, sense)
	case *expr.BinaryTerm:
		if t.Op.Comparison() {
			a.branchCompare(t, label, sense)
			return
		}
		a.branchValue(t, label, sense)
	case *expr.Match:
		a.branchMatch(t, label, sense)
	default:
		a.branchValue(t, label, sense)
	}
}

// branchValue is branch for any scalar: it compares with 0.
func (a *assembler) branchValue(t expr.Term, label string, sense bool) {
	a.value(t, useAny)
	op := asm.JEq
	if sense {
		op = asm.JNE
	}
	a.emit(op.Imm(asm.R0, 0, label))
}

// branchLogic evaluates x first and skips y if x decides.
func (a *assembler) branchLogic(t *expr.Logic, label string, sense bool) {
	// x decides if it is true in x || y, or false in x && y.
	decisive := t.Op == expr.OpOr
	if decisive == sense {
		a.branch(t.X, label, sense)
		a.branch(t.Y, label, sense)
		return
	}
	past := a.label("decided")
	a.branch(t.X, past, decisive)
	a.branch(t.Y, label, sense)
	a.place(past)
}

// branchCompare is branch for a comparison: one jump, after both operands.
func (a *assembler) branchCompare(t *expr.BinaryTerm, label string, sense bool) {
	op := t.Op
	if !sense {
		op = negations[op]
	}
	size, signed, _ := expr.Number(t.X.Type())
	j := jumps[op].unsigned
	if signed {
		j = jumps[op].signed
	}
	if k, ok := t.Y.(*expr.Const); ok && size == 4 && a.low32(t.X) {
		a.emit(j.Imm32(asm.R0, int32(k.V), label))
		return
	}
	imm, isImm := a.operands(t.X, t.Y, useAny)
	if isImm {
		a.emit(j.Imm(asm.R0, imm, label))
		return
	}
	a.emit(j.Reg(asm.R0, asm.R2, label))
}

// low32 loads a 4-byte number that is passed in a register into the low half of R0, if t is
// one. 32-bit jumps compare it as it is, which saves extending it.
func (a *assembler) low32(t expr.Term) bool {
	switch t := t.(type) {
	case *expr.Convert: // between int, unsigned int and their typedefs
		size, _, _ := expr.Number(t.X.Type())
		return size == 4 && a.low32(t.X)
	case *expr.Passed:
		return a.low32(t.X)
	case *expr.Arg:
		if t.Width != 4 || t.Off != 0 || t.Bits.Size != 0 {
			return false
		}
		a.arg(t, useAny)
	case *expr.Result:
		if t.Width != 4 || t.Off != 0 || t.Bits.Size != 0 {
			return false
		}
		a.result(t, useAny)
	default:
		return false
	}
	return true
}

// truth computes a condition into R0 as 0 or 1.
func (a *assembler) truth(t expr.Term) {
	no, done := a.label("no"), a.label("done")
	a.branch(t, no, false)
	a.emit(asm.Mov.Imm(asm.R0, 1), asm.Ja.Label(done))
	a.place(no)
	a.emit(asm.Mov.Imm(asm.R0, 0))
	a.place(done)
}
