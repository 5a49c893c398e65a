// SPDX-License-Identifier: Apache-2.0

package progs

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/cilium/ebpf/asm"
)

// assembled returns instructions as the kernel shows those of a program that has become machine
// code, and where its functions begin: those whose first instruction has a name.
func assembled(t *testing.T, insns asm.Instructions) (code []instruction, starts []int) {
	t.Helper()
	places, at := map[string]int{}, 0
	for i := range insns {
		if name := insns[i].Symbol(); name != "" {
			places[name] = at
			if name[0] != '.' {
				starts = append(starts, at)
			}
		}
		at += int(insns[i].Size()) / asm.InstructionSize
	}
	var out bytes.Buffer
	if err := insns.Marshal(&out, binary.LittleEndian); err != nil {
		t.Fatal(err)
	}
	code = decode(out.Bytes())
	for i := range code {
		if code[i].within() {
			code[i].off, code[i].imm = int16(code[i].imm), 99
		}
	}
	return code, starts
}

// callOf is a call within the program.
func callOf(name string) asm.Instruction { return asm.Call.Label(name) }

// TestPassing: what each function takes, of programs whose calls are written down here.
func TestPassing(t *testing.T) {
	helper := asm.FnKtimeGetNs.Call()
	for _, c := range []struct {
		name string
		main asm.Instructions // before its exit
		fn   asm.Instructions
		want Passing
	}{
		{"all are passed, and the result is read",
			asm.Instructions{asm.Mov.Imm(asm.R2, 1), callOf("f"), asm.Mov.Reg(asm.R6, asm.R0), asm.Mov.Reg(asm.R0, asm.R6)},
			asm.Instructions{asm.Mov.Reg(asm.R0, asm.R1), asm.Add.Reg(asm.R0, asm.R2), asm.Return()}, Passing{2, false, true}},
		{"the second is not read",
			asm.Instructions{asm.Mov.Imm(asm.R2, 1), callOf("f")},
			asm.Instructions{asm.Mov.Reg(asm.R0, asm.R1), asm.Return()}, Passing{1, false, true}},
		{"a helper may read what it is given, and the caller has given one only",
			asm.Instructions{callOf("f")},
			asm.Instructions{helper, asm.Return()}, Passing{1, false, true}},
		{"what a call before has destroyed is not passed",
			asm.Instructions{asm.Mov.Imm(asm.R2, 1), asm.Mov.Imm(asm.R3, 1), helper, asm.Mov.Imm(asm.R1, 1), callOf("f")},
			asm.Instructions{helper, asm.Return()}, Passing{1, false, true}},
		{"only on one of two ways is the second passed",
			asm.Instructions{asm.JEq.Imm(asm.R1, 0, ".over"), asm.Mov.Imm(asm.R2, 1), callOf("f").WithSymbol(".over")},
			asm.Instructions{helper, asm.Return()}, Passing{1, false, true}},
		{"of two calls, one passes less",
			asm.Instructions{asm.Mov.Imm(asm.R2, 1), asm.Mov.Reg(asm.R6, asm.R1), callOf("f"), asm.Mov.Reg(asm.R1, asm.R6), callOf("f")},
			asm.Instructions{helper, asm.Return()}, Passing{1, false, true}},
		{"the result is overwritten",
			asm.Instructions{callOf("f"), asm.Mov.Imm(asm.R0, 0)},
			asm.Instructions{asm.Mov.Reg(asm.R0, asm.R1), asm.Return()}, Passing{1, true, true}},
		{"the result of one of two calls is read",
			asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1), callOf("f"), asm.Mov.Reg(asm.R1, asm.R6), callOf("f"), asm.JEq.Imm(asm.R0, 3, ".over"), asm.Mov.Imm(asm.R0, 0).WithSymbol(".over")},
			asm.Instructions{asm.Mov.Reg(asm.R0, asm.R1), asm.Return()}, Passing{1, false, true}},
		{"a register that is cleared by itself is not read",
			asm.Instructions{asm.Mov.Imm(asm.R2, 1), callOf("f")},
			asm.Instructions{asm.Xor.Reg(asm.R2, asm.R2), asm.Mov.Reg(asm.R0, asm.R1), asm.Return()}, Passing{1, false, true}},
		{"an atomic operation reads its operand and the one that it exchanges reads the result",
			asm.Instructions{asm.Mov.Imm(asm.R2, 1), callOf("f"), asm.StoreMem(asm.RFP, -8, asm.R6, asm.DWord), asm.CmpXchg.Mem(asm.RFP, asm.R6, asm.DWord, -8)},
			asm.Instructions{asm.StoreMem(asm.RFP, -8, asm.R1, asm.DWord), asm.AddAtomic.Mem(asm.RFP, asm.R2, asm.DWord, -8), asm.Mov.Imm(asm.R0, 0), asm.Return()}, Passing{2, false, true}},
		{"nobody calls it", asm.Instructions{asm.Mov.Imm(asm.R0, 0)}, asm.Instructions{asm.Mov.Reg(asm.R0, asm.R1), asm.Return()}, Passing{5, true, false}},
		{"a loop", asm.Instructions{asm.LoadImm(asm.R2, 1<<40, asm.DWord), callOf("f")},
			asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Add.Reg(asm.R0, asm.R2).WithSymbol(".again"), asm.JLT.Imm(asm.R0, 9, ".again"), asm.Return()}, Passing{2, false, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := append(append(c.main, asm.Return()), c.fn...)
			all[0], all[len(c.main)+1] = all[0].WithSymbol("main"), all[len(c.main)+1].WithSymbol("f")
			found := passing(assembled(t, all))
			if len(found) != 2 || found[1] != c.want || found[0].Known {
				t.Errorf("%+v, want %+v", found, c.want)
			}
		})
	}
}

// TestPassingChain: what f returns is what g returned, and nobody reads that of f.
func TestPassingChain(t *testing.T) {
	insns := func(read bool) asm.Instructions {
		main := asm.Instructions{callOf("f").WithSymbol("main"), asm.Mov.Imm(asm.R0, 0), asm.Return()}
		if read {
			main[1] = asm.Add.Imm(asm.R0, 1)
		}
		return append(main, callOf("g").WithSymbol("f"), asm.Return(), asm.Mov.Reg(asm.R0, asm.R1).WithSymbol("g"), asm.Return())
	}
	for _, read := range []bool{true, false} {
		found := passing(assembled(t, insns(read)))
		if len(found) != 3 || found[1].Unused == read || found[2].Unused == read {
			t.Errorf("read %t: %+v", read, found)
		}
	}
}

// FuzzPassing: any instructions end the search, as the kernel of tomorrow may show others.
func FuzzPassing(f *testing.F) {
	f.Add([]byte{0x85, 0x10, 1, 0, 99, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0, 0xb7, 0, 0, 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0}, uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, second uint8) {
		for _, p := range passing(decode(data), []int{0, int(second)}) {
			if p.Most < 0 || p.Most > 5 {
				t.Errorf("%+v", p)
			}
		}
	})
}

// TestPassingUnsure: of code that goes where a table says nothing is told, and nothing of a function that the kernel calls
// back as well. An atomic load is a load.
func TestPassingUnsure(t *testing.T) {
	exit := instruction{code: classJMP | opExit}
	call := func(to, at int) instruction {
		return instruction{code: classJMP | opCall, src: pseudoCall, off: int16(to - at - 1)}
	}
	clear := instruction{code: classALU | opMov, dst: 0}
	if found := passing([]instruction{{code: classJMP | opJA | sourceReg}, call(3, 1), exit, clear, exit}, []int{0, 3}); found != nil {
		t.Errorf("gotox: %+v", found)
	}
	back := []instruction{{code: classLD | 0x18, dst: 2, src: pseudoFunc, imm: 4}, {}, call(5, 2), clear, exit, clear, exit}
	if found := passing(back, []int{0, 5}); len(found) != 2 || found[1].Known {
		t.Errorf("called back: %+v", found)
	}
	load := []instruction{{code: classSTX | modeATOMIC | 0x18, dst: 2, src: 1, imm: loadAcquire}, call(3, 1), exit, {code: classJMP | opCall, imm: 5}, exit}
	if found := passing(load, []int{0, 3}); len(found) != 2 || found[1].Most != 2 {
		t.Errorf("load_acquire: %+v", found)
	}
}

// TestPassingBackwards: blocks of which each jumps back to the one before it take no time that grows with their square.
func TestPassingBackwards(t *testing.T) {
	const blocks = 30_000
	jump := func(from, to int) instruction { return instruction{code: classJMP32 | opJA, imm: int32(to - from - 1)} }
	code := []instruction{jump(0, 2*blocks+1), {code: classJMP | opExit}}
	for b := range blocks {
		at := len(code)
		code = append(code, instruction{code: classALU | sourceReg, dst: uint8(b % 6), src: uint8(b % 5)}, jump(at+1, max(at-2, 1)))
	}
	if found := passing(code, []int{0}); len(found) != 1 {
		t.Errorf("%+v", found)
	}
}
