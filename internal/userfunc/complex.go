// SPDX-License-Identifier: Apache-2.0

package userfunc

import (
	"debug/dwarf"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/longdouble"
)

// complexFloats are the names of complex types, by that of their parts. It is never changed.
var complexFloats = map[string]string{"float": "complex float", "double": "complex double", "long double": "complex long double",
	"_Float16": "complex _Float16", "_Float128": "complex _Float128", "__float128": "complex _Float128"}

// float returns a float. The long double of arm64 is another name of what is _Float128 on all architectures.
func (m *typeMaker) float(name string, size uint32) btf.Type {
	float := &btf.Float{Name: name, Size: size}
	if m.arch == "arm64" && longdouble.Of(float) == longdouble.X87 {
		return &btf.Typedef{Name: name, Type: &btf.Float{Name: "_Float128", Size: size}}
	}
	return float
}

// complexFloat returns a complex number as a struct of two floats, which is how C has it in memory and
// passes it. Package layout knows the complex long double, which is returned otherwise, by its name.
func (m *typeMaker) complexFloat(t *dwarf.ComplexType) btf.Type {
	part := strings.TrimPrefix(t.Name, "complex ")
	name, known := complexFloats[part]
	if !known { // clang says "complex" alone
		part = map[int64]string{4: "_Float16", 8: "float", 16: "double", 32: "long double"}[t.ByteSize]
		if name = complexFloats[part]; name == "" {
			return &btf.Void{}
		}
	}
	size := uint32(t.ByteSize / 2)
	float := m.float(part, size)
	return &btf.Typedef{Name: name, Type: &btf.Struct{Name: name, Size: 2 * size, Members: []btf.Member{
		{Name: "real", Type: float}, {Name: "imag", Type: float, Offset: btf.Bits(8 * size)}}}}
}
