// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"runtime"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/arch/x86/x86asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// Every branch that a return program takes before the snapshot costs one of
// those that led to it. In the code that the kernel has made of it, none is
// before the call that takes the snapshot: neither a call nor a jump that can
// be taken. (Where the kernel inlines the helper, Linux 6.10, it tests the
// flags first with a jump that is not taken when they are 0.)
func TestLiveSnapshotCode(t *testing.T) {
	guest.Require(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("there is a disassembler for amd64 only")
	}
	spec, err := bpf.Engine(bpf.Settings{RingSize: 4096, Tail: bpf.Tail{Branches: true}})
	if err != nil {
		t.Fatal(err)
	}
	spec.Programs = nil
	engine, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	insns := bpf.AppendSnapshot(nil, asm.R6, asm.R9)
	insns = append(insns, asm.Mov.Imm(asm.R0, 0), asm.Return())
	if err := insns.AssociateMap("branches", engine.Maps["branches"]); err != nil {
		t.Fatal(err)
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFExit,
		AttachTo: "vfs_read", License: "GPL", Instructions: insns})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	defer prog.Close()
	info, err := prog.Info()
	if err != nil {
		t.Fatal(err)
	}
	code, ok := info.JitedInsns()
	if !ok {
		t.Skip("the kernel does not show its code")
	}
	before, jumps := 0, 0
	for len(code) > 0 {
		const endbr64 = "\xf3\x0f\x1e\xfa" // which the disassembler does not know
		if strings.HasPrefix(string(code[:min(len(code), 4)]), endbr64) {
			code = code[len(endbr64):]
			continue
		}
		inst, err := x86asm.Decode(code, 64)
		if err != nil {
			t.Fatalf("% x: %v", code[:min(len(code), 8)], err)
		}
		code = code[inst.Len:]
		before++
		switch inst.Op {
		case x86asm.CALL:
			t.Logf("%d instructions and %d jumps that are not taken before the snapshot's call", before-1, jumps)
			if jumps > 1 {
				t.Errorf("%d conditional jumps", jumps)
			}
			return
		case x86asm.JNE:
			jumps++
		case x86asm.JMP, x86asm.RET, x86asm.JE, x86asm.JA, x86asm.JAE, x86asm.JB, x86asm.JBE, x86asm.JL, x86asm.JLE, x86asm.JG, x86asm.JGE:
			t.Errorf("%v before the snapshot", inst)
		}
	}
	t.Error("no snapshot is taken")
}
