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

// TestExitOfPlace: what exit() names is read at return, whatever is then made of it: an element, what lies at
// its address, a string, a member.
func TestExitOfPlace(t *testing.T) {
	array := func(t btf.Type, n uint32) btf.Type { return &btf.Array{Type: t, Index: typeUint, Nelems: n} }
	inner := &btf.Struct{Name: "inner", Size: 8, Members: []btf.Member{{Name: "x", Type: typeLong}}}
	outer := &btf.Struct{Name: "outer", Size: 72, Members: []btf.Member{{Name: "a", Type: array(typeLong, 4)}, {Name: "s", Type: inner, Offset: 256},
		{Name: "name", Type: array(typeChar, 16), Offset: 320}, {Name: "in", Type: array(inner, 2), Offset: 448}}}
	scope := &Scope{Func: "f", Params: []Param{{Name: "p", Type: pointerTo(outer)}, {Name: "n", Type: typeLong}, {Name: "v", Type: inner}}, Return: typeLong,
		Types: testLookup{outer}}
	for _, text := range []string{
		"exit(p->a)[1] == 3", "exit(p->a)[n] == 3", "*exit(p->a) == 3", "*(exit(p->a) + n) == 3", "exit(*p).a[n] == 3", "exit(*p).a[1] == 3", "exit(p)->a[n] == 3",
		"exit(p->in)->x == 3", "exit(p->in)[n].x == 3", "(&exit(p->s))->x == 3", "(&exit(*p))->a[n] == 3", "exit(p->a)[exit(p->s.x)] == 3",
		"buf(exit(p->a), 8)", "ustr(exit(p->name))", "str(exit(p->name))", "exit(p->name)", "*&exit(p->s)", "&exit(p->s)", "buf(&exit(p->s), 8)", "exit(p->name)[n] == 'a'",
		`exit(p->name) == "a"`, `ustr(exit(p->name)) ~ "a*"`, "container_of(&exit(p->s), struct outer, s)->a[1] == 3", "ip(exit(p->name))", "exit(&p->s)->x == 3", "exit(v.x) == 3", "exit(v).x == 3", "exit(v).x", "exit(v.x)",
	} {
		spec, err := Parse("f(" + text + ")")
		if err != nil {
			t.Fatal(err)
		}
		items, err := Check(spec, scope)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if items[0].Predicate != nil && items[0].Phase != AtReturn {
			t.Errorf("%s is decided at entry", text)
		}
		for _, c := range items[0].Captures {
			if c.Phase() != AtReturn {
				t.Errorf("%s is shown at entry", text)
			}
			for _, term := range []Term{items[0].Predicate, c.Value, c.Target} {
				if term == nil {
					continue
				}
				Walk(term, func(term Term) bool {
					early := false
					switch term := term.(type) {
					case *Load:
						early = term.At == AtEntry
					case *Object:
						early = term.At == AtEntry
					case *Text:
						early = term.At == AtEntry
					case *Buffer:
						early = term.At == AtEntry
					case *Match:
						early = term.X.At == AtEntry
					}
					if early {
						t.Errorf("%s: %s is read at entry", text, FormatTerm(term, func(i int) string { return scope.Params[i].Name }))
					}
					return true
				})
			}
		}
	}
}

// TestEntryInExit: entry() within exit() is read at entry, and the item is decided at return.
func TestEntryInExit(t *testing.T) {
	array := &btf.Struct{Name: "array", Size: 32, Members: []btf.Member{{Name: "a", Type: &btf.Array{Type: typeLong, Index: typeUint, Nelems: 4}}}}
	scope := &Scope{Func: "f", Params: []Param{{Name: "p", Type: pointerTo(array)}}, Return: typeLong, Types: noTypes{}}
	for text, want := range map[string]Phase{"f(exit(entry(p->a)[1]) == 3)": AtEntry, "f(exit(p->a)[1] == 3)": AtReturn, "f(exit(p->a[1]) == 3)": AtReturn} {
		spec, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		items, err := Check(spec, scope)
		if err != nil {
			t.Fatal(err)
		}
		Walk(items[0].Predicate, func(term Term) bool {
			if load, ok := term.(*Load); ok && load.At != want || items[0].Phase != AtReturn {
				t.Errorf("%s: decided in phase %d, read in phase %d, want %d", text, items[0].Phase, load.At, want)
			}
			return true
		})
	}
}
