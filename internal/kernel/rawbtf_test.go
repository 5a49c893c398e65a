// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"
)

// The raw walk must see what the full decoder sees, in the BTF of the kernel
// that runs the test.
func TestRawAgreesWithDecoder(t *testing.T) {
	data, err := os.ReadFile("/" + btfDir + "/vmlinux")
	if err != nil {
		t.Skip("needs the BTF of a running kernel: ", err)
	}
	raw, err := parseBTF(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := btf.LoadSplitSpecFromReader(bytes.NewReader(data), nil)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	enums := make(map[string][]btf.TypeID) // by enumerator
	for typ, err := range spec.All() {
		if err != nil {
			t.Fatal(err)
		}
		switch typ := typ.(type) {
		case *btf.Func:
			want = append(want, typ.Name)
		case *btf.Enum:
			id, err := spec.TypeID(typ)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range typ.Values {
				if !slices.Contains(enums[v.Name], id) {
					enums[v.Name] = append(enums[v.Name], id)
				}
			}
		}
	}
	var got []string
	for name := range raw.functions() {
		got = append(got, string(name))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("functions (-decoder +raw):\n%s", diff)
	}
	tried := 0
	for name, ids := range enums {
		if tried++; tried > 100 {
			break
		}
		var got []btf.TypeID
		for id := range raw.enumsWith(name) {
			got = append(got, btf.TypeID(id))
		}
		slices.Sort(ids)
		if diff := cmp.Diff(ids, got); diff != "" {
			t.Errorf("enums with %s (-decoder +raw):\n%s", name, diff)
		}
	}
	if len(want) < 1000 || tried < 100 {
		t.Errorf("only %d functions and %d enumerators", len(want), tried)
	}
}

func TestRawSplit(t *testing.T) {
	base := vmlinuxBTF(t)
	data := moduleBTF(t, base)
	if isSplit(base) || !isSplit(data) {
		t.Errorf("isSplit: vmlinux %v, module %v", isSplit(base), isSplit(data))
	}
	rawBase, err := parseBTF(base, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := parseBTF(data, rawBase)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for name := range raw.functions() {
		got = append(got, string(name))
	}
	if diff := cmp.Diff([]string{"mod_probe", "ip_rcv"}, got); diff != "" {
		t.Error(diff)
	}
	many := patched(data, btfHeaderSize+5, 0xff) // members of the struct that comes first
	if _, err := parseBTF(many, rawBase); err == nil {
		t.Error("more members than the blob holds: no error")
	}
	if raw.count != rawBase.count+7 {
		t.Errorf("%d types after %d of vmlinux, want 7 more", raw.count, rawBase.count)
	}
}

func TestRawErrors(t *testing.T) {
	good := vmlinuxBTF(t)
	for name, data := range map[string][]byte{
		"empty":        nil,
		"header only":  good[:btfHeaderSize],
		"magic":        append([]byte{1, 2}, good[2:]...),
		"cut":          good[:len(good)-1],
		"unknown kind": patched(good, btfHeaderSize+7, 31),
		"kind 0":       patched(good, btfHeaderSize+7, 0),
		"open string":  patched(good, len(good)-1, 'x'),
		"huge header":  patched(good, 4, 0xff, 0xff, 0xff, 0xff),
	} {
		if _, err := parseBTF(data, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func patched(b []byte, at int, with ...byte) []byte {
	b = slices.Clone(b)
	copy(b[at:], with)
	return b
}

// FuzzRawBTF: any blob is either refused or can be walked; the decoder, which
// gets it next, need not accept it.
func FuzzRawBTF(f *testing.F) {
	base := vmlinuxBTF(f)
	f.Add(base, "GREEN")
	f.Add(moduleBTF(f, base), "mod_probe")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		for _, under := range [][]byte{nil, base} {
			var rawBase *rawBTF
			if under != nil {
				rawBase, _ = parseBTF(under, nil)
			}
			raw, err := parseBTF(data, rawBase)
			if err != nil {
				continue
			}
			for typ, err := range raw.all() {
				if err != nil {
					t.Fatalf("parsed, but then: %v", err)
				}
				raw.text(typ.name)
			}
			for typ := range raw.named(name, allKinds) {
				if got := string(raw.text(typ.name)); got != name {
					t.Errorf("looked for %q, found %q", name, got)
				}
			}
			for range raw.enumsWith(name) {
			}
		}
	})
}
