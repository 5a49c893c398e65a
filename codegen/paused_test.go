// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/layout"
)

// goesOn follows all paths of a program that there are with the switch in that position and at
// that end of the call. It reports whether one gets to a call of a helper or a function, except for
// those that give back what was taken. It goes on in functions that follow the program.
func goesOn(t *testing.T, insns asm.Instructions, position bpf.Switch, atReturn bool) bool {
	t.Helper()
	const unknown = -1
	labels := map[string]int{}
	for i := range insns {
		if s := insns[i].Symbol(); s != "" {
			labels[s] = i
		}
	}
	type state struct {
		i        int
		r0       int64
		ofSwitch bool // R0 is its address
	}
	seen, todo := map[state]bool{}, []state{{0, unknown, false}}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[s] {
			continue
		}
		seen[s] = true
		if s.i >= len(insns) {
			t.Fatal("a program without an end")
		}
		ins := &insns[s.i]
		next := state{s.i + 1, s.r0, false}
		goes, jumps := true, false
		switch op := ins.OpCode; {
		case ins.IsLoadFromMap() && ins.Reference() == ".data.switch":
			next.ofSwitch = true
		case s.ofSwitch:
			next.r0 = int64(position)
		case ins.IsKfuncCall():
			if next.r0 = 0; atReturn {
				next.r0 = 1
			}
		case op == asm.LoadMemOp(asm.DWord) && ins.Dst == asm.R0 && ins.Src == asm.R1 && ins.Offset == resultOffset && !atReturn:
			next.r0 = 0 // so the kernel has it
		case op == asm.JNE.Op(asm.ImmSource) && ins.Dst == asm.R1 && !atReturn: // the cookie, 0 then
		case ins.IsFunctionCall() && labels[ins.Reference()] > 0: // it has no effect once it is back
			todo = append(todo, state{labels[ins.Reference()], unknown, false})
		case ins.IsFunctionCall() && slices.Contains([]string{bpf.FuncFree, bpf.FuncForget, bpf.FuncForgetUser, bpf.FuncHold, bpf.FuncLetGo}, ins.Reference()):
		case ins.IsBuiltinCall() && asm.BuiltinFunc(ins.Constant) == asm.FnKtimeGetNs: // has no effect
			next.r0 = unknown
		case op.JumpOp() == asm.Call && op.Class().IsJump():
			return true
		case op.Class().IsJump() && op.JumpOp() == asm.Exit:
			goes = false
		case op == asm.JEq.Op(asm.ImmSource) && ins.Dst == asm.R0 && s.r0 != unknown:
			jumps = s.r0 == ins.Constant
			goes = !jumps
		case op == asm.JNE.Op(asm.ImmSource) && ins.Dst == asm.R0 && s.r0 != unknown:
			jumps = s.r0 != ins.Constant
			goes = !jumps
		case op.Class().IsJump():
			jumps, goes = true, op.JumpOp() != asm.Ja
		case op == asm.Mov.Op(asm.ImmSource) && ins.Dst == asm.R0:
			next.r0 = ins.Constant
		case ins.Dst == asm.R0:
			next.r0 = unknown
		}
		if goes {
			todo = append(todo, next)
		}
		if jumps {
			at, ok := labels[ins.Reference()]
			if !ok {
				return true // another function
			}
			todo = append(todo, state{at, next.r0, false})
		}
	}
	return false
}

// resultOffset is where a program on the trampoline of f finds the result.
const resultOffset = 16

// atBothEnds returns the program that runs at both ends of a call, and behind it those of the ends if
// it calls them.
func atBothEnds(t *testing.T, programs Programs) asm.Instructions {
	t.Helper()
	if programs.Joined {
		insns, err := bpf.LinkJoined(*programs.Either, programs.Entry, programs.Return)
		if err != nil {
			t.Fatal(err)
		}
		return insns
	}
	insns := slices.Clone(programs.Either.Insns)
	for _, half := range [][]bpf.Subprogram{programs.Entry, programs.Return} {
		if len(half) > 0 {
			insns = append(insns, half[0].Instructions()...)
		}
	}
	return insns
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
			case p.AtBothEnds():
				ends = append(ends, atBothEnds(t, programs))
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
