// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

const constSection = ".rodata"

// loadConstant loads a constant by its offset.
func loadConstant(dst asm.Register, offset int, size asm.Size) asm.Instructions {
	at := asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: dst, Src: asm.PseudoMapValue, Constant: int64(offset) << 32}
	return asm.Instructions{at.WithReference(constSection), asm.LoadMem(dst, dst, 0, size)}
}

func function(name string, insns ...asm.Instructions) Subprogram {
	return Subprogram{Name: name, Args: 2, Insns: slices.Concat(insns...)}
}

// TestPrune: what constants decide goes, with functions that only it has called; what may happen stays.
func TestPrune(t *testing.T) {
	constants := Constants{constSection: []byte{1, 0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0xff, 0xff}}
	dead, live := asm.Mov.Imm(asm.R0, 2), asm.Mov.Imm(asm.R0, 1)
	one, zero, minus := loadConstant(asm.R1, 0, asm.Word), loadConstant(asm.R1, 4, asm.Word), loadConstant(asm.R1, 8, asm.Word)
	as := func(insns ...asm.Instruction) asm.Instructions { return insns }
	ret := as(asm.Return())
	relocated := btf.WithCORERelocationMetadata(asm.Mov.Imm(asm.R1, 0), &btf.CORERelocation{})
	for name, tt := range map[string]struct {
		insns asm.Instructions
		dead  bool // is kept
	}{
		"equal":                {slices.Concat(one, as(asm.JEq.Imm(asm.R1, 1, "end"), dead, live.WithSymbol("end")), ret), false},
		"not equal":            {slices.Concat(zero, as(asm.JEq.Imm(asm.R1, 1, "dead"), live), ret, as(dead.WithSymbol("dead")), ret), false},
		"bit":                  {slices.Concat(one, as(asm.And.Imm(asm.R1, 2), asm.JNE.Imm(asm.R1, 0, "dead"), live), ret, as(dead.WithSymbol("dead")), ret), false},
		"bit of it":            {slices.Concat(one, as(asm.JSet.Imm(asm.R1, 1, "end"), dead, live.WithSymbol("end")), ret), false},
		"signed, 32 bits":      {slices.Concat(minus, as(asm.JSLT.Imm32(asm.R1, 0, "end"), dead, live.WithSymbol("end")), ret), false},
		"unsigned, 64 bits":    {slices.Concat(minus, as(asm.JSGT.Imm(asm.R1, 0, "end"), dead, live.WithSymbol("end")), ret), false},
		"of an argument":       {slices.Concat(as(asm.JEq.Imm(asm.R1, 1, "end"), dead, live.WithSymbol("end")), ret), true},
		"after a call":         {slices.Concat(one, as(asm.FnKtimeGetNs.Call(), asm.JEq.Imm(asm.R1, 1, "end"), dead, live.WithSymbol("end")), ret), true},
		"kept over a call":     {slices.Concat(one, as(asm.Mov.Reg(asm.R6, asm.R1), asm.FnKtimeGetNs.Call(), asm.JEq.Imm(asm.R6, 1, "end"), dead, live.WithSymbol("end")), ret), false},
		"beyond the constants": {slices.Concat(loadConstant(asm.R1, 9, asm.Word), as(asm.JEq.Imm(asm.R1, 1, "end"), dead, live.WithSymbol("end")), ret), true},
		"of this kernel":       {slices.Concat(as(relocated, asm.JEq.Imm(asm.R1, 0, "end"), dead, live.WithSymbol("end")), ret), true},
		"two ways": {slices.Concat(as(asm.JEq.Imm(asm.R2, 7, "other")), one, as(asm.Ja.Label("both")), as(asm.Mov.Imm(asm.R1, 2).WithSymbol("other")),
			as(asm.JEq.Imm(asm.R1, 1, "end").WithSymbol("both"), dead, live.WithSymbol("end")), ret), true},
		"two ways, one value": {slices.Concat(as(asm.JEq.Imm(asm.R2, 7, "other")), one, as(asm.Ja.Label("both")), as(asm.Mov.Imm(asm.R1, 1).WithSymbol("other")),
			as(asm.JEq.Imm(asm.R1, 1, "end").WithSymbol("both"), dead, live.WithSymbol("end")), ret), false},
		"a loop changes it": {slices.Concat(one, as(asm.JNE.Imm(asm.R1, 1, "dead").WithSymbol("again"), asm.Add.Imm(asm.R1, 1), asm.JLT.Reg(asm.R2, asm.R3, "again"), live), ret,
			as(dead.WithSymbol("dead")), ret), true},
		"a function": {slices.Concat(one, as(asm.JEq.Imm(asm.R1, 1, "end"), asm.Call.Label("two"), live.WithSymbol("end")), ret), false},
		"a callback": {slices.Concat(zero, as(asm.JEq.Imm(asm.R1, 1, "end"), asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: asm.R2, Src: asm.PseudoFunc, Constant: -1}.WithReference("two"), live.WithSymbol("end")), ret), true},
	} {
		program := slices.Concat(function("main", tt.insns).Instructions(), function("two", as(dead), ret).Instructions())
		kept := slices.ContainsFunc(constants.Prune(program), func(ins asm.Instruction) bool {
			return ins.OpCode == dead.OpCode && ins.Dst == dead.Dst && ins.Constant == dead.Constant
		})
		if kept != tt.dead {
			t.Errorf("%s: kept %v, want %v:\n%v", name, kept, tt.dead, constants.Prune(program))
		}
	}
	whole := function("main", one, as(asm.JEq.Imm(asm.R1, 1, "end"), dead, live.WithSymbol("end")), ret).Instructions()
	if got := (Constants)(nil).Prune(whole); len(got) != len(whole) {
		t.Errorf("without constants %d of %d instructions are left", len(got), len(whole))
	}
}

// TestConstants: settings are seen, and what programs change is no constant.
func TestConstants(t *testing.T) {
	spec, err := Engine(Settings{Sessions: &SessionSettings{Count: 4, Success: true}, RingSize: 4096, Self: 0x12345})
	if err != nil {
		t.Fatal(err)
	}
	constants := ConstantsOf(spec)
	settings := spec.Variables[engineVarSettings]
	data := constants[settings.SectionName]
	if len(data) == 0 || !slices.Equal(data[settings.Offset:][:len(settings.Value)], settings.Value) || binary.LittleEndian.Uint32(settings.Value[unsafe.Offsetof(engineConfig{}.Self):]) != 0x12345 {
		t.Errorf("settings %v among the constants %v", settings.Value, data)
	}
	for section := range constants {
		if !strings.HasPrefix(section, ".rodata") {
			t.Errorf("%s is no section of constants", section)
		}
	}
}

// TestPruneEngine: sessions with few settings need less than half of the instructions, and every call has its function.
func TestPruneEngine(t *testing.T) {
	spec, err := Engine(Settings{Sessions: &SessionSettings{Count: 4}, RingSize: 4096})
	if err != nil {
		t.Fatal(err)
	}
	constants := ConstantsOf(spec)
	for name, p := range spec.Programs {
		got := constants.Prune(p.Instructions)
		have := map[string]bool{}
		for _, f := range split(got) {
			if have[f.Name()] {
				t.Errorf("%s has %s twice", name, f.Name())
			}
			have[f.Name()] = true
		}
		for _, ref := range got.FunctionReferences() {
			if !have[ref] {
				t.Errorf("%s calls %s, which it does not have", name, ref)
			}
		}
		if name == ProgSessionExit && len(got) > len(p.Instructions)/2 {
			t.Errorf("%s: %d of %d instructions", name, len(got), len(p.Instructions))
		}
	}
}

// FuzzPrune: a pruned program returns what the whole one does.
func FuzzPrune(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed, uint64(0), uint64(7))
	}
	f.Fuzz(func(t *testing.T, seed, a, b uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		constants := Constants{constSection: make([]byte, 16)}
		for i := range constants[constSection] {
			constants[constSection][i] = byte(r.Uint32N(3))
		}
		program := randomProgram(r).Instructions()
		if seed%2 == 0 { // as the compiler has them
			program = numbered(program)
		}
		pruned := constants.Prune(program)
		for range 8 {
			want, steps := execute(program, constants, a, b)
			got, fewer := execute(pruned, constants, a, b)
			if got != want || fewer > steps {
				t.Fatalf("f(%#x, %#x) = %#x in %d steps, pruned %#x in %d:\n%v\npruned:\n%v", a, b, want, steps, got, fewer, program, pruned)
			}
			a, b = r.Uint64()>>r.Uint32N(64), uint64(r.Uint32N(3))
		}
	})
}

// randomProgram makes a function of conditions on constants and arguments. It jumps forward only.
func randomProgram(r *rand.Rand) Subprogram {
	var insns asm.Instructions
	insns = append(insns, asm.Mov.Reg(asm.R3, asm.R1), asm.Mov.Reg(asm.R4, asm.R2), asm.Mov.Imm(asm.R0, 0), asm.Mov.Imm(asm.R5, 0))
	reg := func() asm.Register { return asm.Register(r.UintN(6)) }
	const labels = 24
	ops := []asm.ALUOp{asm.Add, asm.Sub, asm.And, asm.Or, asm.Xor, asm.LSh, asm.RSh, asm.Mov, asm.Mul}
	conditions := []asm.JumpOp{asm.JEq, asm.JNE, asm.JGT, asm.JGE, asm.JLT, asm.JLE, asm.JSGT, asm.JSGE, asm.JSLT, asm.JSLE, asm.JSet}
	imm := func() int32 { return int32(r.UintN(5)) - 2 }
	for n := range labels {
		from := len(insns)
		for range r.UintN(3) + 1 {
			op, to := ops[r.IntN(len(ops))], fmt.Sprint("l", n+1+r.IntN(labels-n))
			condition := conditions[r.IntN(len(conditions))]
			if op == asm.LSh || op == asm.RSh {
				insns = append(insns, op.Imm(reg(), int32(r.UintN(32))))
				continue
			}
			switch r.UintN(8) {
			case 0:
				insns = append(insns, op.Reg(reg(), reg()))
			case 1:
				insns = append(insns, op.Imm32(reg(), imm()))
			case 2:
				insns = append(insns, op.Reg32(reg(), reg()))
			case 3:
				insns = append(insns, condition.Imm32(reg(), imm(), to))
			case 4:
				insns = append(insns, condition.Reg(reg(), reg(), to))
			case 5:
				insns = append(insns, condition.Imm(reg(), imm(), to))
			default:
				sizes := []asm.Size{asm.Byte, asm.Half, asm.Word, asm.DWord}
				insns = append(insns, loadConstant(reg(), r.IntN(9), sizes[r.IntN(len(sizes))])...)
			}
		}
		insns[from] = insns[from].WithSymbol(fmt.Sprint("l", n))
	}
	return function("f", insns, asm.Instructions{asm.Xor.Reg(asm.R0, asm.R3).WithSymbol(fmt.Sprint("l", labels)), asm.Add.Reg(asm.R0, asm.R1), asm.Return()})
}

// numbered has jumps go to offsets in place of labels.
func numbered(insns asm.Instructions) asm.Instructions {
	labels := map[string]asm.RawInstructionOffset{}
	for it := insns.Iterate(); it.Next(); {
		if s := it.Ins.Symbol(); s != "" {
			labels[s] = it.Offset
		}
	}
	out := slices.Clone(insns)
	for it := insns.Iterate(); it.Next(); {
		ins := &out[it.Index]
		if branches(ins) {
			*ins = ins.WithReference("")
			ins.Offset = int16(labels[it.Ins.Reference()] - it.Offset - 1)
		}
		if it.Index > 0 {
			*ins = ins.WithSymbol("")
		}
	}
	return out
}

// execute runs a function of the instructions that randomProgram makes, as the kernel's instruction-set.rst has them, and
// returns its result and how many it has run.
func execute(insns asm.Instructions, constants Constants, a, b uint64) (result uint64, steps int) {
	at := map[asm.RawInstructionOffset]int{}
	labels := map[string]int{}
	offsets := make([]asm.RawInstructionOffset, len(insns))
	for it := insns.Iterate(); it.Next(); {
		at[it.Offset], offsets[it.Index] = it.Index, it.Offset
		labels[it.Ins.Symbol()] = it.Index
	}
	var regs [11]uint64
	regs[1], regs[2] = a, b
	for i := 0; steps < 10*len(insns); i++ {
		steps++
		ins := &insns[i]
		op, src := ins.OpCode, uint64(ins.Constant)
		if op.Class().IsALU() || op.Class().IsJump() {
			if op.Source() == asm.RegSource {
				src = regs[ins.Src]
			}
		}
		dst := regs[ins.Dst]
		switch op.Class() {
		case asm.LdClass:
			regs[ins.Dst] = uint64(ins.Constant) >> 32
		case asm.LdXClass:
			var word [8]byte
			copy(word[:], constants[constSection][dst:][:op.Size().Sizeof()])
			regs[ins.Dst] = binary.LittleEndian.Uint64(word[:])
		case asm.ALU64Class, asm.ALUClass:
			shift := src & 63
			if op.Class() == asm.ALUClass {
				dst, src, shift = dst&0xffffffff, src&0xffffffff, src&31
			}
			dst = map[asm.ALUOp]uint64{asm.Add: dst + src, asm.Sub: dst - src, asm.And: dst & src, asm.Or: dst | src, asm.Xor: dst ^ src, asm.Mul: dst * src,
				asm.Mov: src, asm.LSh: dst << shift, asm.RSh: dst >> shift}[op.ALUOp()]
			if op.Class() == asm.ALUClass {
				dst &= 0xffffffff
			}
			regs[ins.Dst] = dst
		case asm.JumpClass, asm.Jump32Class:
			if op.JumpOp() == asm.Exit {
				return regs[0], steps
			}
			s, signed := int64(dst), int64(src)
			if op.Class() == asm.Jump32Class {
				dst, src, s, signed = dst&0xffffffff, src&0xffffffff, int64(int32(dst)), int64(int32(src))
			}
			taken := map[asm.JumpOp]bool{asm.Ja: true, asm.JEq: dst == src, asm.JNE: dst != src, asm.JGT: dst > src, asm.JGE: dst >= src, asm.JLT: dst < src,
				asm.JLE: dst <= src, asm.JSGT: s > signed, asm.JSGE: s >= signed, asm.JSLT: s < signed, asm.JSLE: s <= signed, asm.JSet: dst&src != 0}
			if !taken[op.JumpOp()] {
				continue
			}
			if to, ok := labels[ins.Reference()]; ok && ins.Reference() != "" {
				i = to - 1
			} else {
				i = at[offsets[i]+1+asm.RawInstructionOffset(ins.Offset)] - 1
			}
		}
	}
	panic("it does not end")
}

// TestPruneTailCall: a tail call stays, though it is never made.
func TestPruneTailCall(t *testing.T) {
	program := asm.Instructions{
		btf.WithFuncMetadata(asm.Mov.Imm(asm.R0, 0).WithSymbol("main"), &btf.Func{Name: "main", Type: &btf.FuncProto{Return: &btf.Int{Size: 4}}, Linkage: btf.GlobalFunc}),
		asm.JEq.Imm(asm.R0, 0, "on"),
		asm.FnTailCall.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("on"),
		asm.Return(),
	}
	if got := (Constants{}).Prune(program); len(got) != len(program) {
		t.Errorf("%v", got)
	}
}
