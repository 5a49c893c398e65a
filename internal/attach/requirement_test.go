// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// parts are what requests are made of, with what each needs of BPF on an architecture.
func parts(t *testing.T, arch string) (all []struct {
	name  string
	needs []requirement
}) {
	t.Helper()
	add := func(name string, spec *ebpf.CollectionSpec, err error) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, struct {
			name  string
			needs []requirement
		}{name, requirements(spec, arch)})
	}
	spec, err := base()
	add("every request", spec, err)
	spec, err = part(bpf.Settings{Stash: bpf.NewStash(64, 1), InFlight: 1000}, bpf.FuncCookie, bpf.FuncSite, bpf.FuncSendList, bpf.FuncStashList, bpf.FuncFinishList)
	add("many functions by one program", spec, err)
	spec, err = part(bpf.Settings{Stash: bpf.NewStash(64, 1), InFlight: 1000}, bpf.FuncSendTail, bpf.FuncFinishTail)
	add("stacks", spec, err)
	spec, err = part(bpf.Settings{Sessions: &bpf.SessionSettings{CPUs: 1, Values: true, Hung: 1, Count: 16}}, sessionFunctions(t)...)
	add("sessions", spec, err)
	spec = &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{"generated": {Instructions: generated(t)}}}
	add("some values and options", spec, nil)
	return all
}

// sessionFunctions are those that generated programs of sessions call: all
// constants of bpf/sessionfunctions.go.
func sessionFunctions(t *testing.T) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../bpf/sessionfunctions.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Func") && len(spec.Values) == 1 {
			if text, ok := spec.Values[0].(*ast.BasicLit); ok {
				names = append(names, strings.Trim(text.Value, `"`))
			}
		}
		return true
	})
	if len(names) < 5 {
		t.Fatalf("only %q", names)
	}
	return names
}

// generated calls every helper that codegen and bpf can generate a call of.
func generated(t *testing.T) (insns asm.Instructions) {
	t.Helper()
	byName := map[string]asm.BuiltinFunc{}
	for fn := asm.BuiltinFunc(0); fn < 300; fn++ {
		byName[fn.String()] = fn
	}
	for _, dir := range []string{"../../codegen", "../../bpf"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok || !strings.HasPrefix(sel.Sel.Name, "Fn") {
					return true
				}
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "asm" {
					fn, known := byName[sel.Sel.Name]
					if !known {
						t.Errorf("no helper is called %s", sel.Sel.Name)
					}
					insns = append(insns, fn.Call())
				}
				return true
			})
		}
	}
	if len(insns) < 10 {
		t.Fatalf("codegen generates calls of %d helpers only", len(insns))
	}
	return insns
}

// TestRequirements: the tables have all that is used and nothing else.
func TestRequirements(t *testing.T) {
	maps, helpers := map[ebpf.MapType]bool{}, map[asm.BuiltinFunc]bool{}
	see := func(insns asm.Instructions) {
		for i := range insns {
			if insns[i].IsBuiltinCall() {
				helpers[asm.BuiltinFunc(insns[i].Constant)] = true
			}
		}
	}
	for _, s := range []bpf.Settings{{Stash: bpf.NewStash(64, 1), InFlight: 1000, Filter: bpf.Filter{Family: true}}, {Sessions: &bpf.SessionSettings{CPUs: 1, Values: true, Hung: 1, Count: 16}}} {
		spec, err := part(s, append(sessionFunctions(t), bpf.FuncFilter, bpf.FuncAdmit, bpf.FuncSend, bpf.FuncOpen, bpf.FuncFind, bpf.FuncFinish, bpf.FuncCookie,
			bpf.FuncSite, bpf.FuncSendList, bpf.FuncStashList, bpf.FuncFinishList, bpf.FuncSendTail, bpf.FuncFinishTail)...)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range spec.Maps {
			maps[m.Type] = true
		}
		for _, p := range spec.Programs {
			see(p.Instructions)
		}
	}
	see(generated(t))
	for m := range maps {
		if _, ok := mapsSince[m]; !ok {
			t.Errorf("since when are there maps of type %v?", m)
		}
	}
	for m := range mapsSince {
		if !maps[m] {
			t.Errorf("no map is of type %v any more", m)
		}
	}
	for fn := range helpers {
		if _, ok := helpersSince[fn]; !ok {
			t.Errorf("since when is there %v?", fn)
		}
	}
	for fn := range helpersSince {
		if !helpers[fn] {
			t.Errorf("nothing calls %v any more", fn)
		}
	}
}

// requirementsDoc has the table of what is needed, between these lines.
const (
	requirementsDoc   = "../../docs/fallbacks.md"
	requirementsBegin = "<!-- what is needed of BPF, as TestRequirementsDoc has it -->\n"
	requirementsEnd   = "<!-- end -->\n"
)

// TestRequirementsDoc: the docs name what the programs need on amd64, and the oldest
// release that ksnoop says it works on has what every request needs.
func TestRequirementsDoc(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("| | needs Linux | because of |\n|---|---|---|\n")
	named := map[string]bool{}
	var minimum version
	for i, p := range parts(t, "amd64") {
		newest := minimum
		var names []string
		for _, r := range p.needs {
			newer := func(v version) bool {
				return cmp.Or(cmp.Compare(r.Since.major, v.major), cmp.Compare(r.Since.minor, v.minor)) > 0
			}
			if i == 0 || newer(newest) {
				newest = r.Since
			}
			if !named[r.Name] || newer(minimum) {
				names = append(names, fmt.Sprintf("%s %v", r.Name, r.Since))
			}
			named[r.Name] = true
		}
		if i == 0 {
			minimum = newest
		}
		fmt.Fprintf(&rows, "| %s | %v | %s |\n", p.name, newest, strings.Join(names, ", "))
	}
	for _, arch := range []string{"amd64", "arm64"} {
		major, minor := kernel.Oldest(arch)
		needs := parts(t, arch)[0].needs
		if newest := needs[len(needs)-1].Since; (version{major, minor}) != newest {
			t.Errorf("%s: doctor says that Linux %d.%d will do; programs need %v", arch, major, minor, newest)
		}
	}
	doc, err := os.ReadFile(requirementsDoc)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok1 := strings.Cut(string(doc), requirementsBegin)
	got, _, ok2 := strings.Cut(rest, requirementsEnd)
	if !ok1 || !ok2 || strings.TrimSpace(got) != strings.TrimSpace(rows.String()) {
		t.Errorf("%s has\n%s\nand should have\n%s", requirementsDoc, got, &rows)
	}
}

// TestLacking has kernels that lack some of it.
func TestLacking(t *testing.T) {
	refused := errors.New("map create: invalid argument")
	for _, c := range []struct {
		lacks []requirement
		want  string
	}{
		{nil, "map create: invalid argument"},
		{[]requirement{{Name: "maps of type TaskStorage", Since: version{5, 11}}, {Name: "bpf_loop", Since: version{5, 17}}},
			"this kernel lacks what is needed of BPF: maps of type TaskStorage (Linux 5.11), bpf_loop (Linux 5.17); Linux 5.17 has all of that"},
	} {
		all := append(slices.Clone(c.lacks), requirement{Name: "maps of type RingBuf", Since: version{5, 8}})
		for i := range all {
			all[i].has = func() bool { return i >= len(c.lacks) }
		}
		err := lackingOf(all, refused)
		if err.Error() != c.want || !errors.Is(err, refused) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	for fn, want := range map[asm.BuiltinFunc]string{asm.FnGetFuncIp: "bpf_get_func_ip", asm.FnLoop: "bpf_loop", asm.FnGetCurrentTaskBtf: "bpf_get_current_task_btf"} {
		if got := helperName(fn); got != want {
			t.Errorf("%v is called %s, not %s", fn, got, want)
		}
	}
}
