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
