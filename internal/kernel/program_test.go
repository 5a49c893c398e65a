// SPDX-License-Identifier: Apache-2.0

package kernel

import (
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
