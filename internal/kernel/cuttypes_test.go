// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"
)

// TestCutTypes: what roots are about is whole, as far as it was asked for, what lies behind
// is declared, and what was looked up is there. Nothing else is.
func TestCutTypes(t *testing.T) {
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	last := &btf.Union{Name: "last", Size: 4, Members: []btf.Member{{Name: "i", Type: integer}}}
	second := &btf.Struct{Name: "second", Size: 8, Members: []btf.Member{{Name: "to", Type: &btf.Pointer{Target: &btf.Const{Type: last}}}}}
	first := &btf.Struct{Name: "first", Size: 24, Members: []btf.Member{
		{Name: "to", Type: &btf.Pointer{Target: second}},
		{Name: "call", Type: &btf.Pointer{Target: &btf.FuncProto{Return: integer, Params: []btf.FuncParam{{Name: "arg", Type: &btf.Pointer{Target: last}}}}}, Offset: 64},
		{Name: "kind", Type: &btf.Enum{Name: "kind", Size: 8, Values: []btf.EnumValue{{Name: "KIND_A", Value: 1 << 40}}}, Offset: 128}}}
	function := &btf.Func{Name: "f", Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: &btf.Void{}, Params: []btf.FuncParam{{Name: "p", Type: &btf.Pointer{Target: &btf.Typedef{Name: "first_t", Type: first}}}}}}
	b, err := btf.NewBuilder([]btf.Type{
		&btf.Struct{Name: "unrelated", Size: 4, Members: []btf.Member{{Name: "x", Type: integer}}},
		&btf.Struct{Name: "sought", Size: 8, Members: []btf.Member{{Name: "bits", Type: integer, BitfieldSize: 3}, {Name: "a", Type: &btf.Array{Type: integer, Index: integer, Nelems: 1}, Offset: 32}}},
		&btf.Enum{Name: "other", Size: 4, Values: []btf.EnumValue{{Name: "OTHER_A", Value: 1}}},
		function, &btf.Func{Name: "g", Linkage: btf.StaticFunc, Type: function.Type},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for pointers, want := range map[int]string{
		1: "struct sought, enum other, func f, typedef first_t, struct first, fwd second, fwd union last, enum kind",
		2: "struct sought, enum other, func f, typedef first_t, struct first, struct second, fwd union last, enum kind",
		3: "struct sought, enum other, func f, typedef first_t, struct first, struct second, union last, enum kind",
	} {
		v := Open(fstest.MapFS{vmlinuxFile: {Data: data}})
		found, err := v.exact("f", "")
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		if types, err := v.TypesByName("struct sought", ""); err != nil || len(types) != 1 {
			t.Fatal(types, err)
		}
		if enums, err := v.Enumerators("OTHER_A", ""); err != nil || len(enums) != 1 {
			t.Fatal(enums, err)
		}
		cut, err := v.CutTypes(nil, []btf.Type{&btf.Pointer{Target: &btf.Volatile{Type: found[0].Type}}, integer}, pointers)
		if err != nil {
			t.Fatal(err)
		}
		small := Open(fstest.MapFS{vmlinuxFile: {Data: cut.Files()[vmlinuxFile]}})
		named := map[string]string{}
		for name := range strings.SplitSeq(want, ", ") {
			words := strings.Fields(name)
			named[words[len(words)-1]] = name
		}
		for _, typ := range specTypes(t, small) {
			full, bare := "", typ.TypeName()
			switch typ := typ.(type) {
			case *btf.Struct:
				full = "struct "
			case *btf.Union:
				full = "union "
			case *btf.Enum:
				full = "enum "
			case *btf.Typedef:
				full = "typedef "
			case *btf.Func:
				full = "func "
			case *btf.Fwd:
				if full = "fwd "; typ.Kind == btf.FwdUnion {
					full = "fwd union "
				}
			default:
				continue
			}
			if named[bare] != full+bare {
				t.Errorf("%d pointers: %s%s, want %q", pointers, full, bare, named[bare])
			}
			delete(named, bare)
			if was := specTypes(t, v)[bare]; !strings.HasPrefix(full, "fwd") && fmt.Sprintf("%v", was) != fmt.Sprintf("%v", typ) {
				t.Errorf("%d pointers: %v, was %v", pointers, typ, was)
			}
		}
		if len(named) > 0 {
			t.Errorf("%d pointers: missing: %v", pointers, named)
		}
		id, err := v.typeIDOf(found[0].Type)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := small.BTF(); err != nil {
			t.Fatal(err)
		} else if typ, err := got.TypeByID(cut.ID("", id)); err != nil || typ.TypeName() != "f" {
			t.Errorf("%d pointers: f is %v, %v", pointers, typ, err)
		}
	}
}

func (v *View) typeIDOf(t btf.Type) (btf.TypeID, error) {
	spec, err := v.BTF()
	if err != nil {
		return 0, err
	}
	return spec.TypeID(t)
}

// specTypes returns all types of vmlinux that have a name.
func specTypes(t *testing.T, v *View) map[string]btf.Type {
	t.Helper()
	spec, err := v.BTF()
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]btf.Type{}
	for typ, err := range spec.All() {
		if err != nil {
			t.Fatal(err)
		}
		if name := typ.TypeName(); name != "" {
			types[name] = typ
		}
	}
	return types
}
