// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"testing"

	"github.com/cilium/ebpf/asm"
)

// TestStackDepth: the longest chain counts, each frame of it in units of 32 bytes.
func TestStackDepth(t *testing.T) {
	uses := func(down int16, callees ...string) asm.Instructions {
		insns := asm.Instructions{asm.StoreMem(asm.RFP, -down, asm.R1, asm.DWord)}
		for _, name := range callees {
			insns = append(insns, asm.Call.Label(name))
		}
		return append(insns, asm.Return())
	}
	address := asm.Instructions{asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -200), asm.Mov.Reg(asm.R3, asm.R1), asm.Add.Imm(asm.R3, -400), asm.Return()}
	for _, c := range []struct {
		what      string
		functions []Subprogram
		want      int
	}{
		{"no stack", []Subprogram{{Name: "f", Insns: asm.Instructions{asm.Return()}}}, 32},
		{"one frame", []Subprogram{{Name: "f", Insns: uses(33)}}, 64},
		{"frame of a load", []Subprogram{{Name: "f", Insns: asm.Instructions{asm.LoadMem(asm.R0, asm.RFP, -72, asm.DWord), asm.Return()}}}, 96},
		{"an address in the frame, and one elsewhere", []Subprogram{{Name: "f", Insns: address}}, 224},
		{"chain", []Subprogram{{Name: "f", Insns: uses(8, "g")}, {Name: "g", Insns: uses(100, "h")}, {Name: "h", Insns: uses(20)}}, 32 + 128 + 32},
		{"two chains", []Subprogram{{Name: "f", Insns: uses(8, "g", "h")}, {Name: "g", Insns: uses(100)}, {Name: "h", Insns: uses(256)}}, 32 + 256},
	} {
		insns, err := Link(c.functions...)
		if err != nil {
			t.Fatal(err)
		}
		if got := StackDepth(insns); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.what, got, c.want)
		}
	}
	ends, err := LinkEnds(Subprogram{Name: "either", Insns: uses(8, "f", "g")}, []Subprogram{{Name: "f", Insns: uses(8, "h")}, {Name: "h", Insns: uses(64)}},
		[]Subprogram{{Name: "g", Insns: uses(8, "h")}, {Name: "h", Insns: uses(128)}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := StackDepth(ends), 32+32+128; got != want {
		t.Errorf("both ends: %d bytes, want %d", got, want)
	}
}
