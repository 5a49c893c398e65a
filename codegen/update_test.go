// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// TestSearchPower: for the numbers at all bounds the code adds 1 to the word that Bucket says, and it finds the
// bucket of a short call with few tests.
func TestSearchPower(t *testing.T) {
	duration := &expr.ContextTerm{Var: expr.ContextDuration, T: &btf.Int{Name: "u64", Size: 8}}
	for name, c := range map[string]struct {
		value expr.Term
		most  int // tests for a number of 300
	}{
		"duration": {duration, 2},
		"long":     {&expr.Arg{T: long, Width: 8}, 6},
		"u64":      {&expr.Arg{T: duration.T, Width: 8}, 5},
		"u32":      {&expr.Arg{T: u32, Width: 4}, 5},
		"u8":       {&expr.Arg{T: &btf.Int{Name: "u8", Size: 1}, Width: 1}, 3},
	} {
		g := &expr.Aggregation{Fn: expr.AggHist, Value: c.value}
		a := newAssembler(&layout.Probe{Method: layout.MethodFentry}, Options{Arch: "amd64"}, expr.AtEntry, "hist")
		a.countPower(g)
		a.emit(asm.Return())
		insns := a.done()
		size, signed, _ := expr.Number(c.value.Type())
		try := func(x uint64) {
			word, tests := added(t, insns, x)
			if want := g.Bucket(x); word != want {
				t.Errorf("%s: %#x is added to word %d, want %d", name, x, word, want)
			}
			if x == 300 && tests > c.most {
				t.Errorf("%s: %d tests for %d, want %d", name, tests, x, c.most)
			}
		}
		for bucket := range g.Buckets() {
			if bucket == 0 && !signed {
				continue // of numbers below 0
			}
			low, high := g.Bounds(bucket)
			try(low)
			try(high)
		}
		if size > 1 {
			try(300)
		}
	}
}

// added follows code with a number in R0 until it returns. word is the one of the row that 1 is added to.
func added(t *testing.T, insns asm.Instructions, x uint64) (word, tests int) {
	t.Helper()
	word = -1
	reg := map[asm.Register]uint64{asm.R0: x}
	to := func(label string) int {
		return slices.IndexFunc(insns, func(ins asm.Instruction) bool { return ins.Symbol() == label })
	}
	for i := 0; i >= 0 && i < len(insns); i++ {
		ins := insns[i]
		operand := uint64(ins.Constant)
		if ins.OpCode.Class().IsJump() && ins.OpCode.Source() == asm.RegSource {
			operand = reg[ins.Src]
		}
		taken := false
		switch {
		case ins.OpCode == asm.Return().OpCode:
			return word, tests
		case ins.OpCode.Class().IsLoad(), ins.OpCode.Class().IsALU() && ins.OpCode.ALUOp() == asm.Mov:
			reg[ins.Dst] = operand
			continue
		case ins.OpCode.Class().IsStore():
			if word >= 0 || reg[ins.Src] != 1 || ins.Dst != rowReg {
				t.Fatalf("%v adds %d, and another before to word %d", ins, reg[ins.Src], word)
			}
			word = int(ins.Offset) / 8
			continue
		}
		switch ins.OpCode.JumpOp() {
		case asm.Ja:
			taken = true
		case asm.JGT:
			taken = reg[ins.Dst] > operand
			tests++
		case asm.JGE:
			taken = reg[ins.Dst] >= operand
			tests++
		case asm.JSLT:
			taken = int64(reg[ins.Dst]) < int64(operand)
			tests++
		default:
			t.Fatalf("%v is not known here", ins)
		}
		if taken {
			if i = to(ins.Reference()) - 1; i < -1 {
				t.Fatalf("%v goes nowhere", ins)
			}
		}
	}
	t.Fatal("the code does not return")
	return 0, 0
}

// TestUpdateOnce: a program that adds the duration up itself tests the switch at entry only, where it decides
// about the call; what is kept tells the return.
func TestUpdateOnce(t *testing.T) {
	target := ofKernel(false)
	target.Tables, _ = bpf.NewTables([]bpf.Table{{RowWords: 65, Single: true}}, 1, 1, 1<<20)
	loads := map[string]int{}
	for _, ins := range compiled(t, "f(hist($duration))", layout.MethodFsession, target).Either.Insns {
		if ins.IsLoadFromMap() {
			loads[ins.Reference()]++
		}
	}
	if loads[".data.switch"] != 1 || loads[bpf.MapRows] != 1 || len(loads) != 2 {
		t.Errorf("addresses of maps: %v, want the switch and the row once each", loads)
	}
}
