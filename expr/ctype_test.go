// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// TestTypeNameCycle: a type in a damaged recording may be made of itself.
func TestTypeNameCycle(t *testing.T) {
	pointer := &btf.Pointer{}
	pointer.Target = pointer
	array := &btf.Array{Nelems: 2}
	array.Type = array
	both := &btf.Array{Nelems: 3, Type: &btf.Pointer{}}
	both.Type.(*btf.Pointer).Target = both
	for _, cyclic := range []btf.Type{pointer, array, both} {
		if name := typeName(cyclic); !strings.Contains(name, "...") || len(name) > 500 {
			t.Errorf("%T: %q", cyclic, name)
		}
	}
}

// TestBaseTypes: C11 6.7.2 lists the spellings of the arithmetic types, whose words may come in any order.
func TestBaseTypes(t *testing.T) {
	for name, spellings := range map[string][]string{
		"char": {"char"}, "signed char": {"signed char", "char signed"}, "unsigned char": {"unsigned char", "char unsigned"},
		"short int":          {"short", "signed short", "short int", "signed short int", "int signed short"},
		"short unsigned int": {"unsigned short", "unsigned short int", "short unsigned int"},
		"int":                {"int", "signed", "signed int", "int signed"}, "unsigned int": {"unsigned", "unsigned int", "int unsigned"},
		"long int":          {"long", "signed long", "long int", "signed long int", "long long", "signed long long", "long long int", "signed long long int", "long signed long"},
		"long unsigned int": {"unsigned long", "unsigned long int", "unsigned long long", "unsigned long long int", "long unsigned int"},
		"_Bool":             {"_Bool", "bool"}, "": {"void"},
	} {
		for _, s := range spellings {
			if got, ok := baseType(s); !ok || got.TypeName() != name {
				t.Errorf("%q is %v, want %q", s, got, name)
			}
		}
	}
	for _, s := range []string{"", "short char", "signed unsigned", "long long long", "unsigned bool", "short long", "u32"} {
		if got, ok := baseType(s); ok {
			t.Errorf("%q is %v", s, got)
		}
	}
}
