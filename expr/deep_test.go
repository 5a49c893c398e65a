// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// noTypes is a kernel without named types.
type noTypes struct{}

func (noTypes) TypesByName(string) ([]btf.Type, error)   { return nil, nil }
func (noTypes) Enumerators(string) ([]Enumerator, error) { return nil, nil }

// TestDeep: an operand that is checked twice at each level would take 2^60
// steps. It ends at once, or the test does not end.
func TestDeep(t *testing.T) {
	scope := &Scope{Func: "f", Params: []Param{{Name: "n", Type: typeLong}}, Return: typeLong, Types: noTypes{}}
	for _, c := range []struct{ open, close string }{
		{"n + (", ")"}, {"EINVAL + (", ")"}, {"unknown == (", ")"}, {"n == (", ")"}, {"n && (", ")"}, {"!(", ")"}, {"n[", "]"},
	} {
		deep := 30
		spec, err := Parse("f(" + strings.Repeat(c.open, deep) + "n" + strings.Repeat(c.close, deep) + ")")
		if err != nil {
			t.Errorf("%s: %v", c.open, err)
			continue
		}
		items, err := Check(spec, scope)
		if (err == nil) != (len(items) == 1) {
			t.Errorf("%s: %d items, %v", c.open, len(items), err)
		}
	}
}
