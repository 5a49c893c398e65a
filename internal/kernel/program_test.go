// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/progs"
)

// TestProgramNames: what a function has as its module tells the program, and nothing else does.
func TestProgramNames(t *testing.T) {
	p := LoadedProgram{17, "xdp_main"}
	for _, c := range []struct{ name, module, want string }{
		{"xdp_main", p.Module(), "bpf:xdp_main"}, {"parse", p.Module(), "bpf:parse[xdp_main]"},
		{"parse", "bpf", "parse[bpf]"}, {"parse", "bpf:x:y", "parse[bpf:x:y]"}, {"parse", "bpf:17", "parse[bpf:17]"}, {"parse", "", "parse"},
	} {
		f := Function{Name: c.name, Module: c.module}
		if got := f.String(); got != c.want {
			t.Errorf("%s of %q is %s, want %s", c.name, c.module, got, c.want)
		}
		if _, ok := f.Program(); ok != (c.module == p.Module()) {
			t.Errorf("%s of %q: %t", c.name, c.module, ok)
		}
	}
}

// TestUntraceable: programs that the kernel would refuse, or that would be wrong, are told beforehand.
func TestUntraceable(t *testing.T) {
	good := progs.Program{ID: 1, BTF: 2, Jited: true, Functions: make([]progs.Function, 1)}
	for what, change := range map[string]func(*progs.Program){
		"no types":       func(p *progs.Program) { p.BTF = 0 },
		"interpreted":    func(p *progs.Program) { p.Jited = false },
		"no functions":   func(p *progs.Program) { p.Functions = nil },
		"ksnoop":         func(p *progs.Program) { p.Maps = []string{".data.switch", "events"} },
		"flow dissector": func(p *progs.Program) { p.Type = progFlowDissector },
	} {
		p := good
		if err := untraceable(&p); err != nil {
			t.Fatal(err)
		}
		if change(&p); untraceable(&p) == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// TestProgramTypes: a program's types stand alone, are no module's, and their part in a recording is read again.
func TestProgramTypes(t *testing.T) {
	own := &btf.Struct{Name: "own", Size: 8, Members: []btf.Member{{Name: "a", Type: fakeInt}, {Name: "b", Type: fakeInt, Offset: 32}}}
	part := &btf.Struct{Name: "sk_buff", Size: 2, Members: []btf.Member{{Name: "len", Type: &btf.Int{Name: "short", Size: 2}}}}
	b, err := btf.NewBuilder([]btf.Type{&btf.Struct{Name: "unused", Size: 4, Members: []btf.Member{{Name: "x", Type: fakeInt}}}, fakeFunc("worker", own), part}, nil)
	if err != nil {
		t.Fatal(err)
	}
	blob, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	module := LoadedProgram{17, "xdp_main"}.Module()
	v := Open(fstest.MapFS{vmlinuxFile: {Data: vmlinuxBTF(t)}, btfDir + "/" + module: {Data: blob}})
	if names, err := v.Modules(); err != nil || len(names) != 0 {
		t.Errorf("modules: %q, %v", names, err)
	}
	worker := func(v *View) *btf.Func {
		t.Helper()
		spec, err := v.ModuleBTF(module)
		if err != nil {
			t.Fatal(err)
		}
		var f *btf.Func
		if err := spec.TypeByName("worker", &f); err != nil {
			t.Fatal(err)
		}
		return f
	}
	// The program knows a part of the kernel's sk_buff.
	if found, err := v.TypesByName("struct sk_buff", module); err != nil || len(found) != 1 || found[0].(*btf.Struct).Size != 4 {
		t.Errorf("struct sk_buff is %v, %v", found, err)
	}
	cut, err := v.CutTypes([]string{module}, []btf.Type{worker(v)}, 1)
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	for name, data := range cut.Files() {
		files[name] = &fstest.MapFile{Data: data}
	}
	small := Open(files)
	arg := worker(small).Type.(*btf.FuncProto).Params[0].Type.(*btf.Pointer).Target.(*btf.Struct)
	if arg.Name != "own" || arg.Size != 8 || len(arg.Members) != 2 {
		t.Errorf("the recorded function takes %v", arg)
	}
	if found, err := small.TypesByName("struct unused", module); err != nil || len(found) != 0 {
		t.Errorf("recorded without need: %v, %v", found, err)
	}
	if _, err := v.ModuleBTF("bpf:18:gone"); err == nil {
		t.Error("types of a program that is not there")
	}
}

// TestProgramForeign: whoever may load a program may give it types that would be the end of ksnoop.
func TestProgramForeign(t *testing.T) {
	var types [][]uint32
	for to := range uint32(2 * mostNested) {
		types = append(types, []uint32{0, kindPtr << 24, to})
	}
	p := &progs.Program{ID: 1, Functions: []progs.Function{{Type: uint32(len(types))}}}
	err := Open(fstest.MapFS{}).addTyped(&programList{}, p, blobOf(types...))
	if err == nil || !strings.Contains(err.Error(), "is nested deeper") {
		t.Error(err)
	}
}

// TestCut: what a function lacks of its signature, by what its program passes.
func TestCut(t *testing.T) {
	pair := &btf.Struct{Name: "pair", Size: 16, Members: []btf.Member{{Name: "a", Type: &btf.Int{Name: "long", Size: 8}}, {Name: "b", Type: &btf.Int{Name: "long", Size: 8}, Offset: 64}}}
	params := func(types ...btf.Type) (all []btf.FuncParam) {
		for _, t := range types {
			all = append(all, btf.FuncParam{Name: "p", Type: t})
		}
		return all
	}
	const static, global = btf.StaticFunc, btf.GlobalFunc
	for _, c := range []struct {
		name    string
		passing progs.Passing
		linkage btf.FuncLinkage
		params  []btf.FuncParam
		result  btf.Type
		want    Cut
	}{
		{"whole", progs.Passing{Most: 2, Known: true}, static, params(fakeInt, fakeInt), fakeInt, Cut{}},
		{"a helper may read more", progs.Passing{Most: 4, Known: true}, static, params(fakeInt), fakeInt, Cut{}},
		{"one of two", progs.Passing{Most: 1, Known: true}, static, params(fakeInt, fakeInt), fakeInt, Cut{Params: true, Passed: 1}},
		{"none of one", progs.Passing{Known: true}, static, params(fakeInt), fakeInt, Cut{Params: true}},
		{"a global one", progs.Passing{Most: 1, Unused: true, Known: true}, global, params(fakeInt, fakeInt), fakeInt, Cut{}},
		{"nobody calls it", progs.Passing{Most: 1, Unused: true}, static, params(fakeInt, fakeInt), fakeInt, Cut{}},
		{"no result is read", progs.Passing{Most: 1, Unused: true, Known: true}, static, params(fakeInt), fakeInt, Cut{Result: true}},
		{"there is no result", progs.Passing{Most: 1, Unused: true, Known: true}, static, params(fakeInt), &btf.Void{}, Cut{}},
		{"a struct takes two registers", progs.Passing{Most: 2, Known: true}, static, params(pair), fakeInt, Cut{}},
		{"a struct and what is missing", progs.Passing{Most: 2, Known: true}, static, params(pair, fakeInt), fakeInt, Cut{Params: true, Passed: 2}},
	} {
		fn := &btf.Func{Name: "f", Linkage: c.linkage, Type: &btf.FuncProto{Params: c.params, Return: c.result}}
		if got := cutOf(&progs.Function{Passing: c.passing}, fn); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
