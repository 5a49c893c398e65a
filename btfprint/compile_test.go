// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// TestCompileKernel compiles every type of the kernels: only those that have no
// values are refused, and the size is the one that BTF says.
func TestCompileKernel(t *testing.T) {
	for _, file := range kernelBTF(t) {
		spec, err := btf.LoadSpec(file)
		if err != nil {
			t.Fatal(err)
		}
		n, none, seen := 0, 0, 0
		for typ, err := range spec.All() {
			if err != nil {
				t.Fatal(err)
			}
			if seen++; seen%sample != 0 && !soak() {
				continue
			}
			p, err := Compile(typ, binary.LittleEndian)
			switch strip(typ).(type) {
			case *btf.Int, *btf.Float, *btf.Pointer, *btf.Enum, *btf.Struct, *btf.Union, *btf.Array:
				if err != nil {
					t.Errorf("%v: %v", typ, err)
				} else if p.Size() != sizeof(typ) {
					t.Errorf("%v: %d bytes, want %d", typ, p.Size(), sizeof(typ))
				}
				n++
			case *btf.Var, *btf.Datasec:
			default:
				if !errors.Is(err, errNoValue) {
					t.Errorf("%v: %v", typ, err)
				}
				none++
			}
		}
		t.Logf("%s: %d types compiled, %d have no values", file, n, none)
	}
}
