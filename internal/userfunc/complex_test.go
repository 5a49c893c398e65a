// SPDX-License-Identifier: Apache-2.0

package userfunc

import (
	"debug/dwarf"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/longdouble"
)

// TestLongDouble: what C calls long double has another format on each architecture. So have the parts of complex ones.
func TestLongDouble(t *testing.T) {
	long := &dwarf.FloatType{BasicType: dwarf.BasicType{CommonType: dwarf.CommonType{Name: "long double", ByteSize: 16}}}
	both := &dwarf.ComplexType{BasicType: dwarf.BasicType{CommonType: dwarf.CommonType{Name: "complex long double", ByteSize: 32}}}
	for arch, want := range map[string]longdouble.Format{"amd64": longdouble.X87, "arm64": longdouble.Quad} {
		m := typeMaker{arch: arch}
		part := btf.UnderlyingType(m.plain(both)).(*btf.Struct).Members[0].Type
		for _, made := range []btf.Type{m.plain(long), part} {
			if got := longdouble.Of(btf.UnderlyingType(made).(*btf.Float)); got != want || made.TypeName() != "long double" {
				t.Errorf("%s: %v has format %d, want %d", arch, made, got, want)
			}
		}
	}
}

// TestManyElements: dimensions of an array may be so large that their product is any number.
func TestManyElements(t *testing.T) {
	for _, counts := range [][]int64{{3, 0x5555555555555555}, {1 << 32, 1 << 32}, {mostElements + 1, 0}, {1 << 13, 1 << 13, 2}} {
		var of dwarf.Type = &dwarf.IntType{BasicType: dwarf.BasicType{CommonType: dwarf.CommonType{Name: "int", ByteSize: 4}}}
		for _, n := range counts {
			of = &dwarf.ArrayType{Type: of, Count: n}
		}
		m := typeMaker{arch: "amd64", made: map[dwarf.Type]btf.Type{}}
		if got, ok := m.array(of.(*dwarf.ArrayType)).(*btf.Array); ok && got.Nelems != 0 || m.err == nil && !ok {
			t.Errorf("%v: %v, %v", counts, got, m.err)
		}
	}
}
