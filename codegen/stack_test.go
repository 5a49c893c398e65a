// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/layout"
)

// stackItems are the items of the language that need stack: strings of all lengths and
// patterns, in conditions and as values, members that are read together, and
// values that are set aside.
var stackItems = []string{
	`str(file) ~ "aaaa*"`, `ustr(n) ~ "*b*c"`, `exit(ustr(n)) ~ "*" && str(return) ~ "x*y"`, `str(file) == "` + strings.Repeat("x", 250) + `"`,
	`exit($comm) ~ "a*b*c"`, `+(str(file) ~ "*b" || ustr(file) ~ "c*")`, `exit(+(str(file) ~ "*b*"))`,
	"ustr(n)", "buf(file, n)", "diff(file)", "diff(str(file))", "diff(buf(file, n))", "exit(file)", "exit(buf(file, return))",
	"file->flags, file->mode, file->pos, file->next->flags", "exit(user(file)->flags), exit(user(file)->pos)",
	"n + (n * (file->pos - (n / (file->flags | file->mode)))) == 12", "return < -4095", "$duration > 1",
}

var stackMethods = []layout.Method{layout.MethodFentry, layout.MethodKprobe, layout.MethodKprobeMulti, layout.MethodKprobeSession, layout.MethodFsession, layout.MethodTracingMulti, layout.MethodUprobe}

// TestStack: no SPEC of a few items needs more stack than there is, alone or all
// of them together, with whatever else a record is to have.
func TestStack(t *testing.T) {
	specs := []string{"f"}
	for _, item := range stackItems {
		specs = append(specs, "f("+item+")")
	}
	specs = append(specs, "f("+strings.Join(stackItems, ", ")+")")
	most := 0
	for _, spec := range specs {
		for _, m := range stackMethods {
			for _, target := range []Options{{}, {Filtered: true, Limited: true, Stacks: true, Branches: true}, {Shared: true}, {Shared: true, Stacks: true, Branches: true}} {
				for _, role := range []layout.Role{layout.RoleCall, layout.RoleEntry, layout.RoleInside} {
					p := planned(t, spec, m)
					p.Role = role
					if err := p.Lay(); err != nil {
						t.Fatal(err)
					}
					target.Arch, target.Kfuncs = "amd64", ofKernel(false).Kfuncs
					target.TypeID = func(t btf.Type) (btf.TypeID, bool) { return 7, t == file }
					target.Guard = GuardFor([]*layout.Probe{p}, nil)
					most = max(most, stackOf(t, fmt.Sprintf("%s by %s, shared %t, stacks %t, role %d", spec, m, target.Shared, target.Stacks, role), p, target))
				}
			}
		}
	}
	t.Logf("%d bytes at most", most)
	if most < 320 { // a string and a frame for what calls the function that reads it
		t.Errorf("%d bytes are too few", most)
	}
}

// TestStackOfStacks: a stack is taken into the program's own frame where there is room, and into a buffer
// where there is none: the engine's filter needs the room.
func TestStackOfStacks(t *testing.T) {
	for _, m := range stackMethods {
		for _, spec := range []string{"f(count()[$stack])", "f(top(8, n)[$stack, $ustack, $comm])", "f(return < 0, sum($duration)[$stack, n])"} {
			for _, filtered := range []bool{false, true} {
				target := ofKernel(false)
				target.Filtered = filtered
				p := planned(t, spec, m)
				target.Guard = GuardFor([]*layout.Probe{p}, nil)
				depth := stackOf(t, fmt.Sprintf("%s by %s, filtered %t", spec, m, filtered), p, target)
				if own := depth > shortStack; !filtered && !own {
					t.Errorf("%s by %s: %d bytes, and a stack takes %d", spec, m, depth, shortStack)
				}
			}
		}
	}
}

// stackOf returns how much stack the programs need.
func stackOf(t *testing.T, what string, p *layout.Probe, target Options) int {
	t.Helper()
	programs, err := Compile(p, target)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return 0
	}
	linked, err := programs.Link()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	depth := 0
	for _, insns := range []asm.Instructions{linked.Entry, linked.Return, linked.Both} {
		if len(insns) > 0 {
			depth = max(depth, bpf.StackDepth(insns))
			if n := callsWithin(insns); n > maxCallFrames {
				t.Errorf("%s: %d functions call each other", what, n)
			}
		}
	}
	if depth > bpf.MaxStack {
		t.Errorf("%s: %d bytes of stack", what, depth)
	}
	return depth
}

// maxCallFrames is how many functions of a program can call each other (MAX_CALL_FRAMES of the kernel).
const maxCallFrames = 8

// callsWithin returns how many functions of a linked program call each other at most.
func callsWithin(insns asm.Instructions) int {
	callees, name := map[string][]string{}, ""
	for _, ins := range insns {
		if f := btf.FuncMetadata(&ins); f != nil {
			name = f.Name
		}
		if ins.IsFunctionReference() {
			callees[name] = append(callees[name], ins.Reference())
		}
	}
	var depth func(name string) int
	known := map[string]int{}
	depth = func(name string) int {
		if known[name] == 0 {
			most := 0
			for _, callee := range callees[name] {
				most = max(most, depth(callee))
			}
			known[name] = 1 + most
		}
		return known[name]
	}
	return depth(insns.Name())
}
