// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"testing"

	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/layout"
)

// TestGroupsAreAligned: the verifier refuses loads from the stack that are not
// aligned, so members that are read together must keep their alignment there.
func TestGroupsAreAligned(t *testing.T) {
	for _, spec := range []string{"f(file->mode, file->next)", "f(file->next, file->mode)", "f(file->mode, file->pos, file->flags)",
		"f(*(char *)&file->mode, (long)file->next, file->pos)"} {
		programs := compiled(t, spec, layout.MethodKprobe, Options{Arch: "amd64"})
		loads := 0
		for _, f := range programs.Entry {
			for _, ins := range f.Insns {
				if ins.OpCode.Class() == asm.LdXClass && ins.Src == asm.RFP {
					loads++
					if size := ins.OpCode.Size().Sizeof(); int(ins.Offset)%size != 0 {
						t.Errorf("%s: %d bytes at offset %d of the stack", spec, size, ins.Offset)
					}
				}
			}
		}
		if loads == 0 {
			t.Errorf("%s loads nothing from the stack", spec)
		}
	}
}
