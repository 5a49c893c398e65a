// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// flexibleScope is a function of `struct dirent { int n; char name[]; } *d` and `struct ints { int n, v[]; struct ints *list[]; } *v`.
func flexibleScope() *Scope {
	array := func(t btf.Type) btf.Type { return &btf.Array{Type: t, Index: typeUint} }
	dirent := &btf.Struct{Name: "dirent", Size: 4, Members: []btf.Member{{Name: "n", Type: typeInt}, {Name: "name", Type: array(typeChar), Offset: 32}}}
	ints := &btf.Struct{Name: "ints", Size: 4, Members: []btf.Member{{Name: "n", Type: typeInt}, {Name: "v", Type: array(typeInt), Offset: 32}}}
	ints.Members = append(ints.Members, btf.Member{Name: "list", Type: array(pointerTo(ints)), Offset: 32})
	return &Scope{Func: "f", Return: typeLong, Types: noTypes{}, Params: []Param{{Name: "d", Type: pointerTo(dirent)}, {Name: "v", Type: pointerTo(ints)}}}
}

// TestFlexibleText: what is behind the NUL of a flexible array need not be readable. Its length is not known, so
// it ends where a string behind a pointer does.
func TestFlexibleText(t *testing.T) {
	m := &fakeMachine{args: []uint64{fakeBase}, memory: []byte("\x01\x00\x00\x00ab\x00")}
	for text, want := range map[string]uint64{`d->name == "ab"`: 1, `d->name == "abc"`: 0, `d->name != "abcdef"`: 1, `d->name ~ "a*"`: 1, `d->name ~ "*c"`: 0, `str(d->name) ~ "*b"`: 1,
		`exit(d->name) == "ab"`: 1, `str(&d->name[0]) ~ "a*"`: 1} {
		items := checkFlexible(t, text)
		if got, err := Eval(items[0].Predicate, m); got != want || err != nil {
			t.Errorf("%s is %d, %v, want %d", text, got, err, want)
		}
	}
	m.memory = []byte("\x01\x00\x00\x00ab")
	if _, err := Eval(checkFlexible(t, `d->name == "abc"`)[0].Predicate, m); !errors.Is(err, ErrUnreadable) {
		t.Errorf("no NUL in readable memory: %v", err)
	}
}

// TestFlexibleShown: a flexible array alone is shown as a pointer to what is there, and is a key like one.
func TestFlexibleShown(t *testing.T) {
	for text, want := range map[string]string{"d->name": "(d + 4): string at (d + 4)+0", "str(d->name)": "string at (d + 4)+0", "v->v": "(v + 4): int at (v + 4)+0", "exit(d->name)": "(d + 4): string at (d + 4)+0",
		"d->name == \"a\"": "(d + 4): string at (d + 4)+0"} {
		c := checkFlexible(t, text)[0].Captures[0]
		got := ""
		if c.Value != nil {
			got = FormatTerm(c.Value, flexibleNames) + ": "
		}
		if c.Target != nil {
			got += FormatTerm(c.Target, flexibleNames)
		}
		if got != want {
			t.Errorf("%s shows %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{"count()[d->name]": "string at (d + 4)+0", "count()[str(d->name)]": "string at (d + 4)+0", "count()[v->v]": "(v + 4)"} {
		k := checkFlexible(t, text)[0].Aggregation.Keys[0]
		term := k.Target
		if term == nil {
			term = k.Value
		}
		if got := FormatTerm(term, flexibleNames); got != want {
			t.Errorf("%s has the key %s, want %s", text, got, want)
		}
	}
}

// TestFlexibleAtReturn: with uretprobe: a flexible array is read when the function returns, and its address is
// made of what was passed: the parameter's register has something else by then.
func TestFlexibleAtReturn(t *testing.T) {
	for _, text := range []string{"d->name", "(d->name)", "entry(d)->name", "exit(d->name)", "v->v", "v->list", `d->name == "a"`, `d->name ~ "a*" && v->n == 2`, "v->v[0] == 2", "count()[d->name]", "count()[v->v]"} {
		spec, err := Parse("uretprobe:./app:f(" + text + ")")
		if err != nil {
			t.Fatal(err)
		}
		items, err := Check(spec, flexibleScope())
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		captures := items[0].Captures
		if g := items[0].Aggregation; g != nil {
			captures = g.Keys
		}
		if len(captures) == 0 {
			t.Errorf("%s shows nothing", text)
		}
		for _, c := range captures {
			for _, term := range []Term{c.Value, c.Target} {
				if term != nil && PhaseOf(term) != AtReturn {
					t.Errorf("%s: %s is read at entry", text, FormatTerm(term, flexibleNames))
				}
			}
		}
	}
}

func flexibleNames(i int) string { return flexibleScope().Params[i].Name }

func checkFlexible(t *testing.T, text string) []Item {
	t.Helper()
	spec, err := Parse("f(" + text + ")")
	if err != nil {
		t.Fatal(err)
	}
	items, err := Check(spec, flexibleScope())
	if err != nil {
		t.Fatal(err)
	}
	return items
}
