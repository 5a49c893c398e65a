// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// TestNamesakes: two files have a struct of their own by one name. What both have alike can be named;
// what differs is meant as the function's signature has it, or else refused.
func TestNamesakes(t *testing.T) {
	list := &btf.Struct{Name: "list_head", Size: 16, Members: []btf.Member{{Name: "next", Type: typeUlong}, {Name: "prev", Type: typeUlong, Offset: 64}}}
	state := func(size uint32, members ...btf.Member) *btf.Struct {
		return &btf.Struct{Name: "state", Size: size, Members: append([]btf.Member{{Name: "flags", Type: typeUint}}, members...)}
	}
	first := state(16, btf.Member{Name: "count", Type: typeInt, Offset: 32}, btf.Member{Name: "size", Type: typeUlong, Offset: 64})
	second := state(40, btf.Member{Name: "size", Type: typeUlong, Offset: 128}, btf.Member{Name: "list", Type: list, Offset: 192})
	again := state(16, btf.Member{Name: "count", Type: typeInt, Offset: 32}, btf.Member{Name: "size", Type: typeUlong, Offset: 64})
	named := func(s btf.Type) btf.Type { return &btf.Typedef{Name: "state_t", Type: s} }
	anonymous := func(s *btf.Struct) btf.Type { return named(&btf.Struct{Size: s.Size, Members: s.Members}) }
	union := &btf.Union{Size: 8, Members: []btf.Member{{Name: "flags", Type: typeUint}, {Name: "whole", Type: typeUlong}}}
	typedefs := []btf.Type{anonymous(first), anonymous(second)}
	color := func(size uint32, red uint64, more ...btf.EnumValue) *btf.Enum {
		return &btf.Enum{Name: "color", Size: size, Values: append(more, btf.EnumValue{Name: "RED", Value: red})}
	}
	blue := btf.EnumValue{Name: "BLUE", Value: 7}
	void := Param{Name: "p", Type: pointerTo(typeVoid)}
	for _, tt := range []struct {
		text   string
		types  []btf.Type
		params []Param
		want   string // the value, or what is wrong
	}{
		{"f(((struct state *)p)->flags == 1)", []btf.Type{first, second}, nil, "(*(p+0:4) == 1)"},
		{"f(((struct state *)p)->count == 1)", []btf.Type{first, second}, nil, "(*(p+4:4) == 1)"},
		{"f(((struct state *)p)->list.prev == 1)", []btf.Type{first, second}, nil, "(*(p+32:8) == 1)"},
		{"f(((struct state *)p)->size == 1)", []btf.Type{first, second}, nil,
			`2 types are called "struct state", and "size" is not the same in all: at byte 8 of 16, at byte 16 of 40`},
		{"f(((struct state *)p)->size == 1)", []btf.Type{first, again}, nil, "(*(p+8:8) == 1)"},
		{"f(((struct state *)p)->size == 1)", []btf.Type{first, second, again}, []Param{{Name: "s", Type: pointerTo(second)}}, "(*(p+16:8) == 1)"},
		{"f(((struct state *)p)->size == 1)", []btf.Type{first, second}, []Param{{Name: "s", Type: pointerTo(second)}, {Name: "r", Type: again}}, "is not the same in all"},
		{"f(((struct state *)p)->sise == 1)", []btf.Type{first, second}, nil, `none of the 2 types "struct state" has a member "sise"`},
		{"f(sizeof(struct state) == 16)", []btf.Type{first, second}, nil, `2 types are called "struct state", of 16, 40 bytes, and nothing tells which is meant`},
		{"f(sizeof(struct state) == p)", []btf.Type{first, again}, nil, "(16 == p)"},
		{"f(sizeof(*(struct state *)p) == 16)", []btf.Type{first, second}, nil, "nothing tells which"},
		{"f(((struct state *)p)[1].flags == 1)", []btf.Type{first, second}, nil, "nothing tells which"},
		{"f((struct state *)p + 1 == 1)", []btf.Type{first, second}, nil, "nothing tells which"},
		{"f((struct state *)p - (struct state *)p == 1)", []btf.Type{first, second}, nil, "nothing tells which"},
		{"f((struct state *)p == 1)", []btf.Type{first, second}, nil, "(p == 1)"},
		{"f((struct state *)p)", []btf.Type{first, second}, nil, "nothing tells which"},
		{"f(*(struct state *)p)", []btf.Type{first, second}, nil, "nothing tells which"},
		{"f(count()[*(struct state *)p])", []btf.Type{first, second}, nil, "nothing tells which"},
		{"f(diff(*(struct state *)p))", []btf.Type{first, second}, nil, "nothing tells which"},
		{"f(container_of(p, struct state, list)->size == 1)", []btf.Type{first, second}, nil, "(*((p + 18446744073709551592)+16:8) == 1)"},
		{"f(container_of(p, struct state, flags)->size == 1)", []btf.Type{first, second}, nil, "is not the same in all"},
		{"f(container_of(p, struct state, size)->flags == 1)", []btf.Type{first, second}, nil, "is not the same in all"},
		{"f(((state_t *)p)->flags == 1)", typedefs, nil, "(*(p+0:4) == 1)"},
		{"f(((state_t *)p)->count == 1)", typedefs, nil, "(*(p+4:4) == 1)"},
		{"f(((state_t *)p)->flags == 1)", []btf.Type{named(first), named(second)}, nil, "(*(p+0:4) == 1)"},
		{"f(((state_t *)p)->flags == 1)", []btf.Type{named(union), anonymous(second)}, nil, "(*(p+0:4) == 1)"},
		{"f(((state_t *)p)->flags == 1)", []btf.Type{named(typeInt), anonymous(second)}, nil, `2 types are called "state_t", of 4, 40 bytes`},
		{"f(((state_t *)p)->size == 1)", typedefs, nil, `2 types are called "state_t", and "size" is not the same in all: at byte 8 of 16, at byte 16 of 40`},
		{"f(((state_t *)p)->size == 1)", []btf.Type{anonymous(first), anonymous(again)}, nil, "(*(p+8:8) == 1)"},
		{"f(((state_t *)p)->size == 1)", typedefs, []Param{{Name: "s", Type: pointerTo(typedefs[1])}}, "(*(p+16:8) == 1)"},
		{"f(((state_t *)p)->sise == 1)", typedefs, nil, `none of the 2 types "state_t" has a member "sise"`},
		{"f(sizeof(state_t) == 16)", typedefs, nil, `2 types are called "state_t", of 16, 40 bytes, and nothing tells which is meant`},
		{"f(sizeof(*(state_t *)p) == 16)", typedefs, nil, "nothing tells which"},
		{"f(((state_t *)p)[1].flags == 1)", typedefs, nil, "nothing tells which"},
		{"f((state_t *)p + 1 == 1)", typedefs, nil, "nothing tells which"},
		{"f((state_t *)p - (state_t *)p == 1)", typedefs, nil, "nothing tells which"},
		{"f((state_t *)p)", typedefs, nil, "nothing tells which"},
		{"f(*(state_t *)p)", typedefs, nil, "nothing tells which"},
		{"f(count()[*(state_t *)p])", typedefs, nil, "nothing tells which"},
		{"f(container_of(p, state_t, list)->size == 1)", typedefs, nil, "(*((p + 18446744073709551592)+16:8) == 1)"},
		{"f((enum color)p == RED)", []btf.Type{color(4, 1), color(4, 1)}, nil, "(p == 1)"},
		{"f((enum color)p == RED)", []btf.Type{color(4, 1), color(8, 1)}, nil, `2 types are called "enum color", of 4, 8 bytes`},
		{"f((enum color)p == RED)", []btf.Type{color(4, 1), color(4, 2)}, nil, "several enums give RED different values"},
		{"f((enum color)p == RED)", []btf.Type{color(4, 1), color(4, 1, blue)}, nil, "(p == 1)"},
		{"f((enum color)p == BLUE)", []btf.Type{color(4, 1), color(4, 1, blue)}, nil, "(p == 7)"},
		{"f((enum color)p == RED)", []btf.Type{color(4, 1), color(4, 2)}, []Param{{Name: "c", Type: color(4, 2)}}, "(p == 2)"},
	} {
		spec, err := Parse(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		scope := &Scope{Func: "f", Types: testLookup(tt.types), Params: append([]Param{void}, tt.params...)}
		items, err := Check(spec, scope)
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case items[0].Predicate != nil:
			got = FormatTerm(items[0].Predicate, func(i int) string { return scope.Params[i].Name })
		}
		if got != tt.want && (err == nil || !strings.Contains(got, tt.want)) {
			t.Errorf("%s of %d types: %s\nwant %s", tt.text, len(tt.types), got, tt.want)
		}
	}
}

// TestAlike: types of a recording may contain themselves, and comparing two must end.
func TestAlike(t *testing.T) {
	loop := func() btf.Type {
		s := &btf.Struct{Name: "s", Size: 8}
		s.Members = []btf.Member{{Name: "a", Type: s}, {Name: "b", Type: s}, {Name: "c", Type: s}}
		return s
	}
	if alike(loop(), loop()) {
		t.Error("endless types are alike")
	}
}
