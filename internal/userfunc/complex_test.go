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
