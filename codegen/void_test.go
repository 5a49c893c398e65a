// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// Of `void f(void)` there is nothing to capture at either end, and both are sent,
// however it is attached.
func TestVoid(t *testing.T) {
	spec, err := expr.Parse("f")
	if err != nil {
		t.Fatal(err)
	}
	f := kernel.Function{Name: "f", Type: &btf.Func{Name: "f", Type: &btf.FuncProto{Return: &btf.Void{}}}}
	kernel7 := func() Kfuncs { return Kfuncs{IsReturn: 101, Cookie: 102, Cast: 103} }
	sends := func(functions []bpf.Subprogram) bool {
		return slices.ContainsFunc(calls(functions[0].Insns), func(name string) bool {
			return strings.HasPrefix(name, bpf.FuncSend) || strings.HasPrefix(name, bpf.FuncFinish)
		})
	}
	for _, arch := range []string{"amd64", "arm64"} {
		for _, m := range []layout.Method{layout.MethodFentry, layout.MethodKprobe, layout.MethodKprobeMulti, layout.MethodKprobeSession, layout.MethodFsession, layout.MethodTracingMulti} {
			for _, paired := range []bool{false, true} {
				p, err := plan.NewProbe(kernel.Open(fstest.MapFS{}), spec, f, plan.Options{Arch: arch, Paired: paired, Method: func(*plan.Probe) layout.Method { return m }})
				if err != nil {
					t.Fatal(err)
				}
				for _, target := range []Options{{}, {Filtered: true, Limited: paired}, {Stacks: true}, {Branches: true}} {
					target.Arch, target.Kfuncs = arch, kernel7
					target.Shared = m != layout.MethodFentry && m != layout.MethodFsession && m != layout.MethodKprobe
					programs, err := Compile(&p.Probe, target)
					if err != nil {
						t.Fatalf("%s, %s, %+v: %v", arch, m, target, err)
					}
					if !sends(programs.Entry) || !sends(programs.Return) {
						t.Errorf("%s, %s, %+v: entry calls %q, return %q", arch, m, target, calls(programs.Entry[0].Insns), calls(programs.Return[0].Insns))
					}
					for _, functions := range [][]bpf.Subprogram{programs.Entry, programs.Return} {
						if _, err := bpf.Link(functions...); err != nil {
							t.Errorf("%s, %s: %v", arch, m, err)
						}
					}
				}
			}
		}
	}
}
