// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"testing"

	"github.com/cilium/ebpf/asm"
)

// Each program's constants say which of its instructions can be reached.
func TestReachable(t *testing.T) {
	live, dead := asm.Mov.Imm(asm.R0, 1), asm.Mov.Imm(asm.R0, 2)
	ret := asm.Return()
	for name, insns := range map[string]asm.Instructions{
		"straight":    {live, live, ret},
		"jump over":   {asm.Ja.Label("end"), dead, dead, live.WithSymbol("end"), ret},
		"both ways":   {asm.JEq.Imm(asm.R1, 0, "end"), live, live.WithSymbol("end"), ret},
		"behind exit": {live, ret, dead, asm.Ja.Label("nowhere"), dead.WithSymbol("nowhere")},
		"back":        {live.WithSymbol("again"), asm.JNE.Imm(asm.R1, 0, "again"), live, ret, dead},
		"from dead":   {asm.Ja.Label("end"), asm.JEq.Imm(asm.R1, 2, "only"), live.WithSymbol("end"), ret, dead.WithSymbol("only")},
		"call":        {asm.FnKtimeGetNs.Call(), live, asm.Call.Label("other"), live, ret, dead},
	} {
		want := 0
		for _, ins := range insns {
			if ins.OpCode.Class().IsALU() && ins.Constant == 1 {
				want++
			}
		}
		got := 0
		for _, ins := range reachable(insns) {
			if !ins.OpCode.Class().IsALU() {
				continue
			}
			if got++; ins.Constant == 2 {
				t.Errorf("%s: %v is kept", name, ins)
			}
		}
		if got != want {
			t.Errorf("%s: %d instructions kept, want %d", name, got, want)
		}
	}
}
