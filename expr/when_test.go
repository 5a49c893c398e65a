// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"testing"

	"github.com/cilium/ebpf/btf"
)

// TestReadAtReturn: what lies at an address that is known only at return
// cannot have been read before. Found by the differential fuzzer.
func TestReadAtReturn(t *testing.T) {
	pair := &btf.Struct{Name: "pair", Size: 16, Members: []btf.Member{{Name: "a", Type: typeLong}, {Name: "b", Type: typeLong, Offset: 64}}}
	scope := &Scope{Func: "f", Params: []Param{{Name: "p", Type: pointerTo(pair)}, {Name: "n", Type: typeLong}},
		Return: pointerTo(pair), Types: noTypes{}}
	for text, want := range map[string]Phase{
		"f(p)": AtEntry, "f(*p)": AtEntry, "f(exit(*p))": AtReturn, "f(return)": AtReturn, "f(*return)": AtReturn,
		"f(p - (return == p))": AtReturn, "f(&p[return == NULL])": AtReturn, "f(buf(p, return == p))": AtReturn,
		"f(buf(return, n))": AtReturn, "f(str(p))": AtEntry, "f(str(return))": AtReturn, "f(buf(p, n))": AtEntry,
	} {
		spec, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		items, err := Check(spec, scope)
		if err != nil {
			t.Fatal(err)
		}
		var got Phase
		switch target := items[0].Captures[0].Target.(type) {
		case *Object:
			got = target.At
		case *Text:
			got = target.At
		case *Buffer:
			got = target.At
		}
		if got != want {
			t.Errorf("%s is read in phase %d, want %d", text, got, want)
		}
	}
}
