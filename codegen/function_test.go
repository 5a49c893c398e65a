// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/layout"
)

// TestCondition: the function needs nothing of the engine, and what is known only when the
// call returns is refused.
func TestCondition(t *testing.T) {
	for _, c := range []struct{ spec, fault string }{
		{`f(n > 1, file->flags & 1 || $comm ~ "a*b")`, ""},
		{"f(return < 0)", "decided when the call returns"},
		{"f($duration > 1ms)", "decided when the call returns"},
	} {
		for _, arch := range []string{"amd64", "arm64"} {
			p := planned(t, c.spec, layout.MethodFentry)
			var predicates []layout.Predicate
			for i, item := range p.Items {
				predicates = append(predicates, layout.Predicate{Term: item.Predicate, Item: i})
			}
			functions, err := Condition("wanted", p, predicates, Options{Arch: arch})
			if c.fault != "" {
				if err == nil || !strings.Contains(err.Error(), c.fault) {
					t.Errorf("%s: %v, want %s", c.spec, err, c.fault)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			insns, err := bpf.Link(functions...)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range functions {
				for _, name := range calls(f.Insns) {
					if strings.HasPrefix(name, "ks_") {
						t.Errorf("%s: it calls %s of the engine", c.spec, name)
					}
				}
			}
			for _, ins := range insns {
				if ins.IsLoadFromMap() {
					t.Errorf("%s: it uses the map %s", c.spec, ins.Reference())
				}
			}
		}
	}
	if _, err := Condition("wanted", &layout.Probe{}, nil, Options{Arch: "riscv64"}); err == nil {
		t.Error("code was generated for an architecture whose registers are not known")
	}
}
