// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"
)

// blob is the BTF of some types.
func blob(t *testing.T, types ...btf.Type) []byte {
	t.Helper()
	b, err := btf.NewBuilder(types, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// perCPU is a section with variables at offsets.
func perCPU(offsets map[string]uint32) btf.Type {
	s := &btf.Datasec{Name: perCPUSection}
	for name, off := range offsets {
		s.Vars = append(s.Vars, btf.VarSecinfo{Type: &btf.Var{Name: name, Type: fakeInt, Linkage: btf.GlobalVar}, Offset: off, Size: 4})
	}
	return s
}

// TestCheckTypes has the same types on kernels whose symbols differ from them.
func TestCheckTypes(t *testing.T) {
	nothing := &btf.Func{Name: "drv_exit", Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: &btf.Void{}}}
	types := blob(t, fakeFunc("ip_rcv", fakeInt), fakeFunc("split", fakeInt), nothing, perCPU(map[string]uint32{"runqueues": 0x100, "counts": 0x180}))
	const functions = "ffffffff81000000 T ip_rcv\nffffffff81000100 t split.isra.0\n"
	const exit = "ffffffff81000200 t drv_exit\n"
	const variables = "ffffffff82000000 D __per_cpu_start\nffffffff82000100 d runqueues\nffffffff82000180 d counts\n"
	for _, c := range []struct {
		name, symbols string
		want          string // of the error; "" for none
	}{
		{"its own", functions + exit + variables, ""},
		{"its own, variables from 0", functions + exit + "0000000000000000 A __per_cpu_start\n0000000000000100 A runqueues\n0000000000000180 A counts\n", ""},
		{"its own, hidden addresses", "0000000000000000 T ip_rcv\n0000000000000000 t split\n0000000000000000 t drv_exit\n0000000000000000 D __per_cpu_start\n", ""},
		{"its own, functions of the exit dropped", functions, ""},
		{"a function is missing", strings.Replace(functions, "ip_rcv", "ip_recv", 1) + exit + variables,
			"of the 3 functions that they describe this one lacks 1, of 2 per-CPU variables 0 are missing or elsewhere, such as ip_rcv"},
		{"a module has it", functions + "ffffffffc0000000 t ip_rcv\t[mod]\n" + variables,
			"of the 3 functions that they describe this one lacks 1, of 2 per-CPU variables 0 are missing or elsewhere, such as drv_exit"},
		{"a variable has moved", functions + exit + strings.Replace(variables, "82000180", "82000190", 1),
			"of the 3 functions that they describe this one lacks 0, of 2 per-CPU variables 1 is missing or elsewhere, such as counts"},
		{"no symbols of the same name", "ffffffff81000000 T other\n",
			"of the 2 functions that they describe this one lacks 2, such as ip_rcv, split"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := OpenTyped(fstest.MapFS{kallsymsFile: {Data: []byte(c.symbols)}}, bytes.NewReader(types))
			if err != nil {
				t.Fatal(err)
			}
			err = v.CheckTypes()
			var foreign *foreignTypesError
			switch {
			case c.want == "" && err != nil, c.want != "" && (!errors.As(err, &foreign) || !strings.HasSuffix(err.Error(), c.want)):
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestOpenTyped: everything but the types is the kernel's.
func TestOpenTyped(t *testing.T) {
	root := fakeKernel(t, "only_here\n")
	given := blob(t, fakeFunc("only_here", fakeInt))
	v, err := OpenTyped(root, bytes.NewReader(given))
	if err != nil {
		t.Fatal(err)
	}
	if !v.GivenTypes() || Open(root).GivenTypes() {
		t.Error("whether types were given is not told")
	}
	if funcs, err := v.Match("only_here", ""); err != nil || list(funcs) != "only_here:only_here" {
		t.Errorf("%s, %v", list(funcs), err)
	}
	if funcs, err := v.Match("no_btf", ""); err != nil || list(funcs) != "no_btf@600" {
		t.Errorf("%s, %v", list(funcs), err)
	}
	if names, err := v.Modules(); len(names) > 0 || err != nil {
		t.Errorf("modules %q, %v: their types count on those of their vmlinux", names, err)
	}
	if _, err := v.ModuleBTF("mod"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("types of a module: %v", err)
	}
	if data, err := fs.ReadFile(v.Root(), vmlinuxFile); err != nil || !bytes.Equal(data, given) {
		t.Errorf("a recording would have other types: %v", err)
	}
	if _, err := OpenTyped(root, bytes.NewReader(moduleBTF(t, vmlinuxBTF(t)))); err == nil || !strings.Contains(err.Error(), "of a module") {
		t.Errorf("types of a module are taken: %v", err)
	}
	if _, err := OpenTyped(root, bytes.NewReader([]byte("nonsense"))); err == nil {
		t.Error("nonsense is taken")
	}
}
