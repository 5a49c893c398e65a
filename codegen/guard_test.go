// SPDX-License-Identifier: Apache-2.0

package codegen

import (
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
	kfuncs := func() SessionKfuncs { return SessionKfuncs{IsReturn: 1, Cookie: 2, Cast: 3} }
	for i, m := range []layout.Method{layout.MethodFentry, layout.MethodKprobe, layout.MethodFsession, layout.MethodKprobeSession} {
		arch := []string{"amd64", "arm64"}[i%2]
		for _, spec := range []string{
			"f", "f(n == 1)", "f(file->pos == 1)", "f(file->pos == 1, n == 2)", "f(user(file)->pos == 1)", "f(file->next->pos == 0 || n == 1)",
			"f(return < 0)", "f(return == file->pos)", "f(file->pos, return < 0)", "f(file->pos == 1, return)", "f(file->flags, file->mode, return != 0)",
			"f(n, return < 0)", "f(file->next->flags, return < 0)", "f($duration > 10ms, return)", "f($pid == 1 && n == 2, $tid)", `f($comm == "a", str(file) != "eth0", n / file->pos == 3)`, "f(diff(*file), return)",
		} {
			for _, target := range []Target{{}, {TypeID: cast}, {Filtered: true, Limited: true}, {Namespace: true}, {Branches: true, Stacks: true}} {
				target.Arch, target.Guard, target.Session = arch, bpf.NewGuard(0), kfuncs
				programs := compiled(t, spec, m, target)
				for _, functions := range [][]bpf.Function{programs.Entry, programs.Return} {
					if len(functions) > 0 {
						checkLabels(t, spec, functions[0])
						checkGuard(t, spec+" by "+m.String(), functions[0].Insns)
						first := functions[0].Insns
						if programs.Either != nil {
							first = programs.Either.Insns
						}
						if first[0].Reference() != ".data.switch" && first[1].Reference() != ".data.switch" { // the context may be kept before
							t.Errorf("%s by %s: does not ask whether tracing is on:\n%v", spec, m, first)
						}
					}
				}
			}
		}
	}
}

// risky reports whether an instruction calls what calls functions that may be traced.
func risky(ins asm.Instruction) bool {
	switch {
	case ins.IsFunctionCall():
		name := ins.Reference()
		return strings.HasPrefix(name, "ks_send") || strings.HasPrefix(name, "ks_finish") || name == bpf.FuncOpen || name == bpf.FuncOpenFar || name == bpf.FuncIDs || name == bpf.FuncStashList
	case ins.IsBuiltinCall():
		name := asm.BuiltinFunc(ins.Constant).String()
		return strings.Contains(name, "ProbeRead") || strings.Contains(name, "Snapshot") || strings.Contains(name, "Stack")
	}
	return false
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
		p := compiled(t, spec, layout.MethodFentry, Target{Arch: "amd64", TypeID: cast, Guard: bpf.NewGuard(0)})
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
