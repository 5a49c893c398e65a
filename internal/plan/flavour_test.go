// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// Functions are typed whatever their names look like, and trampolines are left to
// those that cilium/ebpf finds when it loads a program.
func TestFlavouredNames(t *testing.T) {
	names := []string{"send", "__send", "___send", "___recv", "____send", "____recv", "____x"}
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	var types []btf.Type
	for _, name := range names {
		types = append(types, &btf.Func{Name: name, Linkage: btf.StaticFunc,
			Type: &btf.FuncProto{Return: integer, Params: []btf.FuncParam{{Name: "of" + name, Type: integer}}}})
	}
	view := viewOf(t, types...)
	known, err := view.BTF()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		spec, err := expr.Parse(name + "(of" + name + ")")
		if err != nil {
			t.Fatal(err)
		}
		p, _, err := Resolve(view, []*expr.Spec{spec}, Options{Arch: "amd64"})
		if err != nil || len(p.Probes) != 1 {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var f *btf.Func
		err = known.TypeByName(name, &f)
		switch got := p.Probes[0].Method; {
		case err != nil && got != layout.MethodKprobe:
			t.Errorf("%s: %s, which cilium/ebpf cannot load: %v", name, got, err)
		case !strings.Contains(name, "___") && got != layout.MethodFentry:
			t.Errorf("%s: %s", name, got)
		}
	}
}
