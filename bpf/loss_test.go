// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"testing"

	"github.com/cilium/ebpf/asm"
)

// TestCountsAtOnce: a counter is changed by one instruction. Between a load and a store an interrupt, or another task if the program is
// preempted, could count, and that would be lost.
func TestCountsAtOnce(t *testing.T) {
	lib, err := library()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{FuncCount: 1, "ks_lost": 2} { // in the counter, and in what is not marked yet
		adds, stores := 0, 0
		for _, ins := range lib[name] {
			switch {
			case ins.OpCode.Class() != asm.StXClass || ins.Dst == asm.RFP:
			case ins.OpCode.Mode() == asm.AtomicMode:
				adds++
			case ins.OpCode.Size() == asm.DWord:
				stores++
			}
		}
		if adds != want || stores != 0 {
			t.Errorf("%s: %d atomic additions, want %d; %d stores of a counter", name, adds, want, stores)
		}
	}
}
