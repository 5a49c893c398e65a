// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
)

// passedProbe is a probe of long f(struct pair s, struct list *d, long n), with flexible arrays in struct list.
func passedProbe(t *testing.T, text string, role Role) (*Probe, error) {
	t.Helper()
	list := &btf.Struct{Name: "list", Size: 8, Members: []btf.Member{{Name: "n", Type: abiLong}}}
	flexible := func(name string, of btf.Type) {
		list.Members = append(list.Members, btf.Member{Name: name, Type: &btf.Array{Type: of}, Offset: 64})
	}
	flexible("name", abiChar)
	flexible("values", abiInt)
	flexible("others", &btf.Pointer{Target: list})
	spec, err := expr.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	p := &Probe{Name: "f", Function: "f", Kind: expr.UserFunction, Spec: spec, Method: MethodUprobe, Role: role, Result: abiLong,
		Params: ParamsOf([]btf.FuncParam{{Name: "s", Type: abiPair}, {Name: "d", Type: &btf.Pointer{Target: list}}, {Name: "n", Type: abiLong}}, abiLong, "amd64")}
	if role == RoleInjectedReturn {
		p.Kind, p.Method = expr.Function, MethodKprobe
	}
	scope := &expr.Scope{Func: "f", Return: abiLong, User: true, Types: noTypes{}}
	for _, param := range p.Params {
		scope.Params = append(scope.Params, param.Param)
	}
	if p.Items, err = expr.Check(spec, scope); err != nil {
		t.Fatal(err)
	}
	return p, p.Lay()
}

// TestReturnsAlone: of a SPEC about returns all values are in the record of the return, and what was passed comes
// from the entry: the registers have something else by then.
func TestReturnsAlone(t *testing.T) {
	for text, want := range map[string]int{ // values, and what pointers among them lead to
		"": 1, "(return)": 1, "(s)": 1, "(s, return)": 2, "(s, n, *d)": 3, "(n)": 1, "(s, n == 3)": 2, "(7, return)": 2,
		"(d->name)": 2, `(d->name == "x")`: 2, "(d->values)": 2, "(d->others)": 1, "(d->others, s)": 2,
	} {
		p, err := passedProbe(t, "uretprobe:./app:f"+text, RoleCall)
		if err != nil {
			t.Fatal(err)
		}
		if p.Return == nil || p.Return.Record == nil || p.Entry != nil && p.Entry.Record != nil {
			t.Errorf("f%s: entry %+v, return %+v", text, p.Entry, p.Return)
			continue
		}
		stores := slices.Clone(p.Return.Stores)
		if p.Entry != nil {
			stores = append(stores, p.Entry.Stores...)
		}
		if len(stores) != len(p.Return.Record.Slots) {
			t.Errorf("f%s: %d of %d values are filled in", text, len(stores), len(p.Return.Record.Slots))
		}
		shown := 0
		for _, s := range stores {
			if s.Part != PartKept {
				shown++
			}
		}
		if shown != want {
			t.Errorf("f%s: %d values, want %d", text, shown, want)
		}
		terms := []expr.Term{}
		for _, s := range p.Return.Stores {
			terms = append(terms, s.Term)
		}
		for _, pred := range p.Return.Predicates {
			terms = append(terms, pred.Term)
		}
		for _, term := range terms {
			if !expr.Walk(term, func(t expr.Term) bool { return !isParam(t) }) {
				t.Errorf("f%s: %s is computed at return", text, expr.FormatTerm(term, func(i int) string { return p.Params[i].Name }))
			}
		}
	}
}

// TestMarksOfReturns: a mark at the return of a function has none of what the function was called with, whether a
// number or a struct by value.
func TestMarksOfReturns(t *testing.T) {
	p, err := passedProbe(t, "f", RoleInjectedReturn)
	if err != nil || len(p.Return.Stores) != 1 {
		t.Errorf("%v: %+v, want the result alone", err, p.Return)
	}
	for text, fault := range map[string]bool{"f(return)": false, "f(return, $comm)": false, "f(s)": true, "f(return, s)": true, "f(n)": true, "f(*d)": true, "f(exit(s))": true} {
		_, err := passedProbe(t, text, RoleInjectedReturn)
		if (err != nil) != fault || fault && !strings.Contains(err.Error(), "what it was called with is gone") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
