// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// spelledByDecoder is an independent reading of types, by the BTF decoder.
func spelledByDecoder(t btf.Type) string {
	for stars := ""; ; {
		switch u := t.(type) {
		case *btf.Const:
			t = u.Type
		case *btf.Volatile:
			t = u.Type
		case *btf.Restrict:
			t = u.Type
		case *btf.TypeTag:
			t = u.Type
		case *btf.Pointer:
			t, stars = u.Target, stars+"*"
		case *btf.Void:
			return "void" + stars
		default:
			kind := kindOf(t)
			if kind == "-" {
				return "?"
			}
			return strings.TrimSpace(kind+" "+t.TypeName()) + stars
		}
	}
}

// TestHaving compares with the decoder, for all functions of the kernel that
// the test runs on, and for the fake one.
func TestHaving(t *testing.T) {
	views := map[string]*View{"fake": Open(fakeKernel(t, ""))}
	if _, err := os.Stat("/" + btfDir + "/vmlinux"); err == nil {
		views["running"] = Open(os.DirFS("/"))
	}
	cases := []struct {
		text   string // as spelledByDecoder has it; ">" before what is returned
		wanted []Spelling
	}{
		{"struct sk_buff", []Spelling{{Names: []string{"struct sk_buff"}}}},
		{"struct sk_buff*", []Spelling{{Names: []string{"struct sk_buff"}, Stars: 1}}},
		{"int", []Spelling{{Names: []string{"int"}}}},
		{">void", []Spelling{{Names: []string{"void"}, Return: true}}},
		{"void*", []Spelling{{Names: []string{"void"}, Stars: 1}}},
		{"size_t >ssize_t", []Spelling{{Names: []string{"size_t"}}, {Names: []string{"ssize_t"}, Return: true}}},
		{"long unsigned int", []Spelling{{Names: []string{"unsigned long", "long unsigned int"}}}},
		{"char**", []Spelling{{Names: []string{"char"}, Stars: 2}}},
		{"enum tcp_state", []Spelling{{Names: []string{"enum tcp_state"}}}},
	}
	for name, v := range views {
		spec, err := v.BTF()
		if err != nil {
			t.Fatal(err)
		}
		truth := map[string]map[string]bool{} // by text, the functions
		for typ, err := range spec.All() {
			if err != nil {
				t.Fatal(err)
			}
			f, ok := typ.(*btf.Func)
			if !ok {
				continue
			}
			proto := f.Type.(*btf.FuncProto)
			types := []string{"any", ">" + spelledByDecoder(proto.Return)}
			for _, p := range proto.Params {
				types = append(types, spelledByDecoder(p.Type))
			}
			for _, typ := range types {
				if truth[typ] == nil {
					truth[typ] = map[string]bool{}
				}
				truth[typ][f.Name] = true
			}
		}
		for _, c := range cases {
			having, err := v.Having(c.wanted)
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for fn := range truth["any"] {
				want := true
				for _, part := range splitSpellings(c.text) {
					want = want && truth[part][fn]
				}
				if want {
					found++
				}
				// Two functions of one name may have the two types one each.
				if got := having(Function{Name: fn}); got && !want || want && !got && len(c.wanted) == 1 {
					t.Errorf("%s: %s has %s: %v, want %v", name, fn, c.text, got, want)
				}
			}
			if strings.HasPrefix(c.text, "struct sk_buff*") && (found < 5 || name == "running" && found < 500) {
				t.Errorf("%s: %s has %d functions", name, c.text, found)
			}
		}
	}
}

// splitSpellings splits before what is returned.
func splitSpellings(text string) []string {
	if takes, returns, ok := strings.Cut(text, " >"); ok {
		return []string{takes, ">" + returns}
	}
	return []string{text}
}

func BenchmarkHaving(b *testing.B) {
	if _, err := os.Stat("/" + btfDir + "/vmlinux"); err != nil {
		b.Skip("the kernel has no BTF")
	}
	for b.Loop() {
		v := Open(os.DirFS("/"))
		if _, err := v.Having([]Spelling{{Names: []string{"struct sk_buff"}, Stars: 1}}); err != nil {
			b.Fatal(err)
		}
	}
}
