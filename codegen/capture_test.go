// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// TestStringSlot: bpf_probe_read_kernel_str(dst, n) returns n for a string of n-1
// characters as well as for longer ones. It gets a byte more than is shown, so
// that what is counted as cut is longer.
func TestStringSlot(t *testing.T) {
	programs := compiled(t, "f(str(file))", layout.MethodKprobe, Options{Arch: "amd64"})
	var size int64 // what R2 was set to
	var asked, counted []int64
	for _, f := range programs.Entry {
		for i, ins := range f.Insns {
			switch {
			case ins.OpCode.Class().IsALU() && ins.OpCode.ALUOp() == asm.Mov && ins.Dst == asm.R2:
				size = ins.Constant
			case ins.IsBuiltinCall() && asm.BuiltinFunc(ins.Constant) == asm.FnProbeReadKernelStr:
				asked = append(asked, size)
			case ins.OpCode.JumpOp() == asm.JNE && ins.Dst == asm.R0 && slices.Contains(calls(f.Insns[i:]), bpf.FuncCount):
				counted = append(counted, ins.Constant)
			}
		}
	}
	if want := []int64{expr.MaxText + 1}; !slices.Equal(asked, want) || !slices.Equal(counted, want) {
		t.Errorf("%d bytes asked for, a result of %d counted, want %d", asked, counted, want)
	}
}
