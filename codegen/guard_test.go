// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/layout"
)

// TestGuard follows every path through guarded programs: what may call functions that
// are traced is called with the stack held, it is held once at most, and nobody
// leaves holding it.
func TestGuard(t *testing.T) {
	cast := func(t btf.Type) (btf.TypeID, bool) { return 7, t == file }
	kfuncs := func() Kfuncs { return Kfuncs{IsReturn: 1, Cookie: 2, Cast: 3} }
	for i, m := range []layout.Method{layout.MethodFentry, layout.MethodKprobe, layout.MethodFsession, layout.MethodKprobeSession, layout.MethodUprobe, layout.MethodUprobe,
		layout.MethodTracepoint, layout.MethodKprobeMulti, layout.MethodKprobeSession, layout.MethodTracepoint} {
		arch := []string{"amd64", "arm64"}[i%2]
		for _, spec := range []string{
			"f", "f(n == 1)", "f(file->pos == 1)", "f(file->pos == 1, n == 2)", "f(user(file)->pos == 1)", "f(file->next->pos == 0 || n == 1)",
			"f(return < 0)", "f(return == file->pos)", "f(file->pos, return < 0)", "f(file->pos == 1, return)", "f(file->flags, file->mode, return != 0)",
			"f(n, return < 0)", "f(file->next->flags, return < 0)", "f($duration > 10ms, return)", "f($pid == 1 && n == 2, $tid)", `f($comm == "a", str(file) != "eth0", n / file->pos == 3)`, "f(diff(*file), return)",
		} {
			for _, target := range []Options{{}, {TypeID: cast}, {Filtered: true, Limited: true}, {Namespace: true}, {Branches: true, Stacks: true}} {
				target.Arch, target.Guard, target.Kfuncs = arch, bpf.NewGuard(0), kfuncs
				programs := compiled(t, spec, m, target)
				for end, functions := range [][]bpf.Subprogram{programs.Entry, programs.Return} {
					if len(functions) > 0 {
						checkLabels(t, spec, functions[0])
						checkGuard(t, spec+" by "+m.String(), functions[0].Insns)
						asks := functions[0].Insns
						switch {
						case m == layout.MethodFsession && programs.Either != nil:
							asks = atBothEnds(t, programs)
						case programs.Either != nil:
							asks = programs.Either.Insns
						}
						if goesOn(t, asks, bpf.Off, end == 1) {
							t.Errorf("%s by %s: does something while tracing is off:\n%v", spec, m, asks)
						}
					}
				}
			}
		}
	}
}

// TestGuardOfTables: the same where calls are added up, and of ksnoop's own, which are left out after all that was
// taken for them. A frame is freed on each of these paths.
func TestGuardOfTables(t *testing.T) {
	guarded, framed, free := 0, 0, "free the frame"
	for i, m := range []layout.Method{layout.MethodFentry, layout.MethodKprobe, layout.MethodFsession, layout.MethodKprobeSession} {
		for _, spec := range []string{
			"f(count())", "f(count()[$stack])", "f(count()[str(file)])", "f(count()[buf(file, 3), return])", "f(hist($duration))", "f(hist($duration)[str(file)])",
			"f(file->pos == 3, count(), sum(file->pos))", "f(return < 0, sum(n)[$ustack])", "f(top(8, n)[str(file)])",
		} {
			target := ofKernel(false)
			target.Arch, target.Guard = []string{"amd64", "arm64"}[i%2], bpf.NewGuard(0)
			target.Self, target.SelfOffset = 1234, 1304
			target.Subprograms = []bpf.Subprogram{{Name: bpf.FuncPreemptCount, Insns: asm.Instructions{asm.FnThisCpuPtr.Call(), asm.LoadMem(asm.R0, asm.R0, 0, asm.Word), asm.Return()}}}
			target.Tables, _ = bpf.NewTables([]bpf.Table{{RowWords: 2000}, {RowWords: 2000}}, 1, 2, 1<<20)
			programs := compiled(t, spec, m, target)
			for _, functions := range [][]bpf.Subprogram{programs.Entry, programs.Return} {
				if len(functions) == 0 {
					continue
				}
				insns := functions[0].Insns
				checkLabels(t, spec, functions[0])
				checkGuard(t, spec+" by "+m.String(), insns)
				if slices.ContainsFunc(insns, func(ins asm.Instruction) bool {
					return ins.OpCode.Class() == asm.StXClass && ins.Dst == asm.RFP && ins.Offset == stackGuard
				}) {
					guarded++
				}
				says := func(text string) int {
					return slices.IndexFunc(insns, func(ins asm.Instruction) bool { return ins.Source() != nil && ins.Source().String() == text })
				}
				if own, frees := says("is it an interrupt's?"), says(free); own >= 0 && frees >= 0 {
					framed++
					if !comesBy(insns, own, frees) {
						t.Errorf("%s by %s: a call of ksnoop itself keeps its frame:\n%v", spec, m, insns)
					}
				}
			}
		}
	}
	if guarded < 10 || framed < 4 {
		t.Errorf("%d programs hold the stack, %d have a frame", guarded, framed)
	}
}

// comesBy reports whether all paths from one instruction to an end of the program lead over another.
func comesBy(insns asm.Instructions, from, over int) bool {
	seen, todo := map[int]bool{over: true}, []int{from}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[i] {
			continue
		}
		seen[i] = true
		ins := insns[i]
		if ins.OpCode.Class().IsJump() && ins.OpCode.JumpOp() == asm.Exit {
			return false
		}
		jumps := ins.OpCode.Class().IsJump() && ins.OpCode.JumpOp() != asm.Call
		if jumps {
			todo = append(todo, slices.IndexFunc(insns, func(to asm.Instruction) bool { return to.Symbol() == ins.Reference() }))
		}
		if !jumps || ins.OpCode.JumpOp() != asm.Ja {
			todo = append(todo, i+1)
		}
	}
	return true
}

// risky reports whether an instruction calls what calls functions that may be traced.
func risky(ins asm.Instruction) bool {
	switch {
	case ins.IsFunctionCall():
		name := ins.Reference()
		return strings.HasPrefix(name, "ks_send") || strings.HasPrefix(name, "ks_finish") || name == bpf.FuncOpen || name == bpf.FuncOpenUser || name == bpf.FuncForgetUser || name == bpf.FuncOpenFar || name == bpf.FuncIDs || name == bpf.FuncStashList
	case ins.IsBuiltinCall():
		name := asm.BuiltinFunc(ins.Constant).String()
		return strings.Contains(name, "ProbeRead") || strings.Contains(name, "Snapshot") || strings.Contains(name, "Stack")
	}
	return false
}

// TestGuardByFrame: where the context is not on the stack, a program holds the stack that its frame is on, and the
// kernel is kept from giving it a stack of its own. Without a guard it may have one.
func TestGuardByFrame(t *testing.T) {
	kfuncs := func() Kfuncs { return Kfuncs{IsReturn: 1, Cookie: 2, Cast: 3} }
	for _, c := range []struct {
		method  layout.Method
		arch    string
		byFrame bool
	}{
		{layout.MethodTracepoint, "amd64", true}, {layout.MethodTracepoint, "arm64", true},
		{layout.MethodKprobeMulti, "amd64", false}, {layout.MethodKprobeMulti, "arm64", true},
		{layout.MethodKprobeSession, "amd64", false}, {layout.MethodKprobeSession, "arm64", true},
		{layout.MethodFentry, "arm64", false}, {layout.MethodKprobe, "arm64", false}, {layout.MethodRawTP, "amd64", false},
	} {
		for _, spec := range []string{"f(n)", "f(file->pos, return)", "f(return < 0)"} {
			if strings.Contains(spec, "return") && (c.method == layout.MethodTracepoint || c.method == layout.MethodRawTP) {
				continue
			}
			for _, guard := range []bpf.Guard{{}, bpf.NewGuard(0)} {
				programs := compiled(t, spec, c.method, Options{Arch: c.arch, Kfuncs: kfuncs, Guard: guard})
				linked, err := programs.Link()
				if err != nil {
					t.Fatal(err)
				}
				for _, insns := range []asm.Instructions{linked.Entry, linked.Return, linked.Both} {
					if len(insns) == 0 {
						continue
					}
					insns = bpf.Constants{}.Prune(insns) // as it is loaded
					inMain := insns[1:]
					if next := slices.IndexFunc(inMain, func(ins asm.Instruction) bool { return btf.FuncMetadata(&ins) != nil }); next >= 0 {
						inMain = inMain[:next]
					}
					tail := slices.ContainsFunc(inMain, func(ins asm.Instruction) bool {
						return ins.IsBuiltinCall() && asm.BuiltinFunc(ins.Constant) == asm.FnTailCall
					})
					if want := c.byFrame && guard != (bpf.Guard{}); tail != want {
						t.Errorf("%s by %s, %s, guard %v: a tail call %t, want %t:\n%v", spec, c.method, c.arch, guard, tail, want, insns)
					}
					for _, ins := range insns {
						first := ins.OpCode.Class() == asm.ALUClass && ins.OpCode.ALUOp() == asm.Mov && ins.OpCode.Source() == asm.RegSource && ins.Dst == asm.R3
						if first && ins.Source() != nil && ins.Source().String() == "does no other program run on this stack?" && (ins.Src == asm.RFP) != c.byFrame {
							t.Errorf("%s by %s, %s: the stack is that of %v:\n%v", spec, c.method, c.arch, ins.Src, insns)
						}
					}
				}
			}
		}
	}
}

func checkGuard(t *testing.T, what string, insns asm.Instructions) {
	t.Helper()
	at := map[string]int{}
	for i := range insns {
		if s := insns[i].Symbol(); s != "" {
			at[s] = i
		}
	}
	type state struct {
		i    int
		held bool
	}
	seen, todo := map[state]bool{}, []state{{}}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[s] {
			continue
		}
		seen[s] = true
		if s.i >= len(insns) {
			t.Fatalf("%s: the program runs off its end:\n%v", what, insns)
		}
		ins := insns[s.i]
		switch {
		case risky(ins) && !s.held:
			t.Fatalf("%s: instruction %d, %v, is reached without the stack held:\n%v", what, s.i, ins, insns)
		case ins.OpCode.Class() == asm.StXClass && ins.Dst == asm.RFP && ins.Offset == stackGuard:
			if s.held {
				t.Fatalf("%s: held twice at %d:\n%v", what, s.i, insns)
			}
			s.held = true
		case ins.OpCode.Class() == asm.LdXClass && ins.Src == asm.RFP && ins.Offset == stackGuard:
			if !s.held {
				t.Fatalf("%s: let go at %d of what is not held:\n%v", what, s.i, insns)
			}
			s.held = false
		}
		if !ins.OpCode.Class().IsJump() || ins.OpCode.JumpOp() == asm.Call {
			todo = append(todo, state{s.i + 1, s.held})
			continue
		}
		if ins.OpCode.JumpOp() == asm.Exit {
			if s.held {
				t.Fatalf("%s: ends at %d with the stack held:\n%v", what, s.i, insns)
			}
			continue
		}
		to, ok := at[ins.Reference()]
		if !ok { // of another part of the program
			t.Fatalf("%s: nothing is called %s:\n%v", what, ins.Reference(), insns)
		}
		todo = append(todo, state{to, s.held})
		if ins.OpCode.JumpOp() != asm.Ja {
			todo = append(todo, state{s.i + 1, s.held})
		}
	}
}

// TestLightPredicate: a predicate that the program decides by loads alone does not
// make it hold the stack.
func TestLightPredicate(t *testing.T) {
	cast := func(t btf.Type) (btf.TypeID, bool) { return 7, t == file }
	for spec, light := range map[string]bool{"f(n == 1)": true, "f(file->pos == 1)": true, "f(user(file)->pos == 1)": false} {
		p := compiled(t, spec, layout.MethodFentry, Options{Arch: "amd64", Kfuncs: someKfuncs, TypeID: cast, Guard: bpf.NewGuard(0)})
		insns := p.Entry[0].Insns
		hold, predicate := -1, -1
		for i, ins := range insns {
			if hold < 0 && strings.Contains(ins.Source().String(), "on this stack?") {
				hold = i
			}
			if predicate < 0 && strings.Contains(ins.Source().String(), "== 1") {
				predicate = i
			}
		}
		if hold < 0 || predicate < 0 || (predicate < hold) != light {
			t.Errorf("%s: the predicate is at %d, the stack is held at %d:\n%v", spec, predicate, hold, insns)
		}
	}
}

// TestLightKeep: what loads alone read is kept for the return without holding the stack.
func TestLightKeep(t *testing.T) {
	cast := func(t btf.Type) (btf.TypeID, bool) { return 7, t == file }
	for spec, light := range map[string]bool{"f(file->pos, return < 0)": true, "f($duration > 1)": true, "f(*file, return < 0)": false} {
		p := compiled(t, spec, layout.MethodFentry, Options{Arch: "amd64", Kfuncs: someKfuncs, TypeID: cast, Guard: bpf.NewGuard(0)})
		insns := p.Entry[0].Insns
		hold, frame := -1, -1
		for i, ins := range insns {
			if hold < 0 && strings.Contains(ins.Source().String(), "on this stack?") {
				hold = i
			}
			if frame < 0 && strings.Contains(ins.Source().String(), "take a frame") {
				frame = i
			}
		}
		if hold < 0 || frame < 0 || (frame < hold) != light {
			t.Errorf("%s: a frame is taken at %d, the stack is held at %d:\n%v", spec, frame, hold, insns)
		}
	}
}

// TestAddressOfZero: on amd64, where a load through a bad pointer gives 0, only what is 0 has its
// pointer tested. arm64 tests it before the load.
func TestAddressOfZero(t *testing.T) {
	for arch, first := range map[string]bool{"amd64": false, "arm64": true} {
		for _, guard := range []bpf.Guard{{}, bpf.NewGuard(0)} {
			p := compiled(t, "f(file->next->pos == 1)", layout.MethodFentry, Options{Arch: arch, Guard: guard})
			insns := p.Entry[0].Insns
			load := slices.IndexFunc(insns, func(ins asm.Instruction) bool {
				return ins.OpCode.Class() == asm.LdXClass && ins.OpCode.Size() == asm.DWord && ins.Offset == 16
			})
			tested := func(ins asm.Instruction) bool {
				if arch == "arm64" { // the lowest address with the bits from 55 on, in R5
					return ins.OpCode.JumpOp() == asm.JLT && ins.Src == asm.R5
				}
				return ins.OpCode.JumpOp() == asm.JSGE && ins.Constant == 0
			}
			helper := slices.IndexFunc(insns, func(ins asm.Instruction) bool { return ins.IsBuiltinCall() })
			if load < 0 || helper < load || slices.ContainsFunc(insns[:load], tested) != first || !slices.ContainsFunc(insns, tested) {
				t.Errorf("%s, guard %v: the load is at %d, the helper at %d:\n%v", arch, guard, load, helper, insns)
			}
		}
	}
}

// TestGuardOfUser: programs of uprobes alone need no guard, as user code does not run inside them.
func TestGuardOfUser(t *testing.T) {
	call := func(m layout.Method) *layout.Probe { return &layout.Probe{Method: m} }
	for _, tt := range []struct {
		probes []*layout.Probe
		want   bool
	}{
		{[]*layout.Probe{call(layout.MethodUprobe), call(layout.MethodUprobe)}, false},
		{[]*layout.Probe{call(layout.MethodKprobe), call(layout.MethodTracepoint)}, false},
		{[]*layout.Probe{call(layout.MethodFentry), call(layout.MethodTracepoint)}, true},
		{[]*layout.Probe{call(layout.MethodUprobe), call(layout.MethodTracepoint)}, true},
		{[]*layout.Probe{call(layout.MethodUprobe), call(layout.MethodKprobe)}, true},
		{[]*layout.Probe{call(layout.MethodUprobe), call(layout.MethodFentry)}, true},
		{[]*layout.Probe{call(layout.MethodFentry)}, true},
	} {
		if g := GuardFor(tt.probes, nil); (g != bpf.Guard{}) != tt.want {
			t.Errorf("%d probes: a guard %v, want %v", len(tt.probes), g != bpf.Guard{}, tt.want)
		}
	}
}
