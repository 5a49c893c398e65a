// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// Functions are found by their names whatever these look like. To go through all
// types by their IDs tells which there are.
func TestFunctionsByName(t *testing.T) {
	proto := &btf.FuncProto{Return: fakeInt}
	var types []btf.Type
	for _, name := range []string{"_", "__x", "___x", "____x", "____y", "____z", "a___1", "a___2", "a___3", "a", "x"} {
		types = append(types, &btf.Func{Name: name, Linkage: btf.StaticFunc, Type: proto})
	}
	types = append(types, &btf.Struct{Name: "a___1", Size: 4}, &btf.Struct{Name: "___x", Size: 8})
	b, err := btf.NewBuilder(types, nil)
	if err != nil {
		t.Fatal(err)
	}
	fake, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	blobs := map[string][]byte{"fake": fake}
	if running, err := os.ReadFile("/" + btfDir + "/vmlinux"); err == nil {
		blobs["running"] = running
	} else {
		t.Log("without the kernel that runs the test: ", err)
	}
	for what, blob := range blobs {
		info, err := newTypeInfo("", blob, nil)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := info.spec()
		if err != nil {
			t.Fatal(err)
		}
		want := map[string][]*btf.Func{}
		for typ, err := range spec.All() {
			if err != nil {
				t.Fatal(err)
			}
			if f, ok := typ.(*btf.Func); ok {
				want[f.Name] = append(want[f.Name], f)
			}
		}
		odd := 0
		for name, funcs := range want {
			if strings.Contains(name, "___") {
				odd++
			}
			if got, err := info.funcs(name); err != nil || !slices.Equal(got, funcs) {
				t.Errorf("%s: %d functions are called %s (%v), want %d", what, len(got), name, err, len(funcs))
			}
		}
		if odd < 5 {
			t.Errorf("%s: only %d names with ___", what, odd)
		}
	}
	info, err := newTypeInfo("", fake, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"____gone", "___gone", "a___"} {
		if got, err := info.byName(name); err != nil || len(got) > 0 {
			t.Errorf("%s: found %v, %v", name, got, err)
		}
	}
	if got, err := info.spelled("struct", "___x"); err != nil || len(got) != 1 || got[0].(*btf.Struct).Size != 8 {
		t.Errorf("struct ___x: %v, %v", got, err)
	}
}

// What has no name is nobody's hint.
func TestNearestHasAName(t *testing.T) {
	base := vmlinuxBTF(t)
	s := newSplitBTF(t, base)
	proto := s.add("", kindFuncProto, 0, 0)
	s.add("", kindFunc, 0, proto)
	v, err := OpenBTF(bytes.NewReader(s.blob()), bytes.NewReader(base), "mod")
	if err != nil {
		t.Fatal(err)
	}
	if got := v.Nearest("x", 3); len(got) > 0 {
		t.Errorf("near x: %q", got)
	}
}
