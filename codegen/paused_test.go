// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"testing"

	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/layout"
)

// goesOn executes the beginning of a program, up to the first instruction that has to do with
// anything but the switch and the end of the call that it runs at. It reports whether there is one.
func goesOn(t *testing.T, insns asm.Instructions, position bpf.Switch, atReturn bool) bool {
	t.Helper()
	labels := map[string]int{}
	for i := range insns {
		if s := insns[i].Symbol(); s != "" {
			labels[s] = i
		}
	}
	var r0 int64
	for i := 0; i < len(insns); i++ {
		ins := &insns[i]
		jump := false
		switch op := ins.OpCode; {
		case ins.IsLoadFromMap() && ins.Reference() == ".data.switch":
		case op == asm.LoadMemOp(asm.Word) && ins.Dst == asm.R0 && ins.Src == asm.R0:
			r0 = int64(position)
		case op == asm.Mov.Op(asm.ImmSource) && ins.Dst == asm.R0:
			r0 = ins.Constant
		case op == asm.Mov.Op(asm.RegSource):
		case ins.IsKfuncCall():
			if r0 = 0; atReturn {
				r0 = 1
			}
		case op.JumpOp() == asm.Exit:
			return false
		case op.JumpOp() == asm.Ja:
			jump = true
		case op == asm.JEq.Op(asm.ImmSource) && ins.Dst == asm.R0:
			jump = r0 == ins.Constant
		case op == asm.JNE.Op(asm.ImmSource) && ins.Dst == asm.R0:
			jump = r0 != ins.Constant
		default:
			return true
		}
		if jump {
			at, ok := labels[ins.Reference()]
			if !ok {
				return true // another function
			}
			i = at - 1
		}
	}
	t.Fatal("a program without an end")
	return false
}

// TestPausedPrograms: what runs at return does so in a pause if it can tell that the call was begun
// with before the pause, and else not: nothing else bounds what it costs.
func TestPausedPrograms(t *testing.T) {
	for _, spec := range []string{"f", "f(n, return)", "f(file->pos, return)", "f(n == 1, return == 2)", "f(file->flags, return < 0)", "f($duration > 1)", "f(return)"} {
		for _, m := range []layout.Method{layout.MethodFentry, layout.MethodKprobe, layout.MethodKprobeMulti, layout.MethodKprobeSession, layout.MethodFsession, layout.MethodTracingMulti} {
			p := planned(t, spec, m)
			programs := compiled(t, spec, m, ofKernel(false))
			ends := []asm.Instructions{}
			switch {
			case programs.Joined:
				insns, err := bpf.LinkJoined(*programs.Either, programs.Entry, programs.Return)
				if err != nil {
					t.Fatal(err)
				}
				ends = append(ends, insns)
			case programs.Either != nil:
				ends = append(ends, programs.Either.Insns)
			case programs.Return != nil:
				ends = append(ends, programs.Return[0].Insns)
			}
			knows := p.Stashed || programs.Either != nil && !programs.Joined // the kernel runs it only if entry wants it
			for _, insns := range ends {
				for position, want := range map[bpf.Switch]bool{bpf.Off: false, bpf.On: true, bpf.Paused: knows} {
					if got := goesOn(t, insns, position, true); got != want {
						t.Errorf("%s by %s, switch %d: at return the program goes on: %t, want %t", spec, m, position, got, want)
					}
				}
				if programs.Either != nil && goesOn(t, insns, bpf.Paused, false) {
					t.Errorf("%s by %s: begins with a call in a pause", spec, m)
				}
			}
		}
	}
}
