// SPDX-License-Identifier: Apache-2.0

package summary_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/layout"
)

var (
	integer = &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	long    = &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	name    = &btf.Array{Type: &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}, Nelems: 16}
)

// counts is count()[return, $comm] of a function that returns t.
func counts(t btf.Type) *expr.Aggregation {
	return &expr.Aggregation{Fn: expr.AggCount, Label: "count()", Keys: []expr.Capture{
		{Label: "return", Value: &expr.Result{T: t, Width: 4}},
		{Label: "$comm", Target: &expr.Text{T: name, Max: 16}},
	}}
}

// planOf is the plan of one SPEC that selects a function for each list of aggregations; nil
// stands for a predicate.
func planOf(functions ...[]*expr.Aggregation) *plan.Plan {
	spec := &expr.Spec{Text: "f*(…)", Parens: true}
	p := &plan.Plan{}
	for i, all := range functions {
		probe := &plan.Probe{Probe: layout.Probe{ID: i, Name: fmt.Sprintf("f%d", i), Spec: spec}}
		for _, g := range all {
			item := expr.Item{Aggregation: g}
			if g == nil {
				item.Predicate = &expr.Const{T: integer, V: 1}
			}
			probe.Items = append(probe.Items, item)
		}
		p.Probes = append(p.Probes, probe)
	}
	return p
}

// TestTables: functions of a SPEC share a table for each item, unless its types differ.
func TestTables(t *testing.T) {
	sum := func(of btf.Type) *expr.Aggregation {
		return &expr.Aggregation{Fn: expr.AggSum, Label: "sum(x)", Value: &expr.Result{T: of, Width: 4}}
	}
	p := planOf([]*expr.Aggregation{nil, counts(integer), sum(integer)}, []*expr.Aggregation{nil, counts(long), sum(integer)},
		[]*expr.Aggregation{nil, counts(&btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}), sum(integer)})
	p.Probes = append(p.Probes, planOf([]*expr.Aggregation{sum(integer)}).Probes...) // another SPEC
	tables := summary.Of(p)
	var got []string
	for _, table := range tables.List {
		var names []string
		for _, probe := range table.Probes {
			names = append(names, probe.Name)
		}
		got = append(got, fmt.Sprint(table.Agg.Label, " ", strings.Join(names, " "), " ", table.Part))
	}
	if diff := cmp.Diff([]string{"count() f0 f2 true", "sum(x) f0 f1 f2 false", "count() f1 true", "sum(x) f0 false"}, got); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct{ probe, item, want int }{{0, 0, -1}, {0, 1, 0}, {0, 2, 1}, {1, 1, 2}, {1, 2, 1}, {2, 1, 0}, {2, 2, 1}, {3, 0, 3}, {3, 1, -1}} {
		if got := tables.Index(c.probe, c.item); got != c.want {
			t.Errorf("item %d of probe %d: table %d, want %d", c.item, c.probe, got, c.want)
		}
	}
	var slots []string
	for _, s := range tables.List[0].Key.Slots {
		slots = append(slots, fmt.Sprintf("%d %d at %d", s.Capture, s.Size, s.Off))
	}
	if tables.List[0].Spec != "f*(…)" || strings.Join(slots, ", ") != "0 8 at 0, 1 16 at 8" || tables.List[0].Key.Size != 24 {
		t.Error(tables.List[0].Spec, slots, tables.List[0].Key.Size)
	}
}

// TestTablesByContent: types of one name may differ, in files of a program as in modules. Their values are not in one table.
func TestTablesByContent(t *testing.T) {
	number := func(e btf.IntEncoding) btf.Type {
		return &btf.Int{Name: "int", Size: 4, Encoding: e}
	}
	named := func(of btf.Type) btf.Type { return &btf.Typedef{Name: "num", Type: of} }
	state := func(first, second string) btf.Type {
		return &btf.Enum{Name: "state", Size: 4, Values: []btf.EnumValue{{Name: first, Value: 1}, {Name: second, Value: 2}}}
	}
	in := func(of btf.Type) btf.Type {
		return &btf.Struct{Name: "s", Size: 8, Members: []btf.Member{{Name: "a", Type: &btf.Array{Type: of, Nelems: 2}}}}
	}
	for _, c := range []struct {
		what   string
		types  [2]btf.Type
		tables int
	}{
		{"the same", [2]btf.Type{named(number(btf.Signed)), named(number(btf.Signed))}, 1},
		{"signs", [2]btf.Type{named(number(btf.Signed)), named(&btf.Int{Name: "unsigned int", Size: 4})}, 2},
		{"enumerators", [2]btf.Type{state("OPEN", "SHUT"), state("SHUT", "OPEN")}, 2},
		{"the same enumerators", [2]btf.Type{state("OPEN", "SHUT"), state("OPEN", "SHUT")}, 1},
		{"members", [2]btf.Type{in(state("OPEN", "SHUT")), in(state("SHUT", "OPEN"))}, 2},
		{"the same members", [2]btf.Type{in(state("OPEN", "SHUT")), in(state("OPEN", "SHUT"))}, 1},
		{"behind pointers", [2]btf.Type{&btf.Pointer{Target: in(number(btf.Signed))}, &btf.Pointer{Target: in(number(0))}}, 1}, // an address is one
	} {
		for _, key := range []bool{true, false} {
			var items [2]*expr.Aggregation
			for i, of := range c.types {
				value := &expr.Result{T: of, Width: 4}
				items[i] = &expr.Aggregation{Fn: expr.AggMin, Label: "min(x)", Value: value}
				if key {
					items[i] = &expr.Aggregation{Fn: expr.AggCount, Label: "count()", Keys: []expr.Capture{{Label: "x", Value: value}}}
				}
			}
			if n := len(summary.Of(planOf(items[:1], items[1:])).List); n != c.tables {
				t.Errorf("%s, a key %v: %d tables, want %d", c.what, key, n, c.tables)
			}
		}
	}
}

// TestTablesOfWideTypes: a small type may have very many members, those of nested types counted at each place.
func TestTablesOfWideTypes(t *testing.T) {
	var wide btf.Type = integer
	for range 30 {
		wide = &btf.Union{Size: 4, Members: []btf.Member{{Name: "a", Type: wide}, {Name: "b", Type: wide}}}
	}
	tables := summary.Of(planOf([]*expr.Aggregation{counts(wide)}, []*expr.Aggregation{counts(integer)}))
	if len(tables.List) != 2 {
		t.Errorf("%d tables", len(tables.List))
	}
}

func keyOf(ret int64, comm string) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(ret)), comm+strings.Repeat("\x00", 16-len(comm))...)
}

// TestBuilder: rows of one key are added up, those of a key that could not be read are apart,
// and what comes after all was taken begins anew.
func TestBuilder(t *testing.T) {
	tables := summary.Of(planOf([]*expr.Aggregation{counts(integer)}))
	b := summary.NewBuilder(tables)
	b.Limit = 3
	var refused []string
	for _, r := range []summary.Row{
		{Key: keyOf(-2, "cat"), Words: []uint64{3}}, {Key: keyOf(0, "cat"), Words: []uint64{5}}, {Key: keyOf(-2, "cat"), Words: []uint64{4}},
		{Key: keyOf(0, "cat"), Faults: 1, Words: []uint64{100}}, {Key: keyOf(0, "dog"), Words: []uint64{1000}}, {Key: keyOf(0, "cat"), Faults: 1, Words: []uint64{1}},
	} {
		if !b.Add(0, r) {
			refused = append(refused, fmt.Sprint(r.Words))
		}
	}
	b.Words(0, keyOf(0, "cat"), 0)[0]++
	want := []summary.Row{{Key: keyOf(-2, "cat"), Words: []uint64{7}}, {Key: keyOf(0, "cat"), Words: []uint64{6}}, {Key: keyOf(0, "cat"), Faults: 1, Words: []uint64{101}}}
	if got := b.Take(); len(got) != 1 || got[0].Table != tables.List[0] || cmp.Diff(want, got[0].Rows) != "" {
		t.Errorf("%+v", got)
	}
	if !slices.Equal(refused, []string{"[1000]"}) {
		t.Errorf("refused: %v", refused)
	}
	b.Add(0, summary.Row{Key: keyOf(0, "dog"), Words: []uint64{1}})
	if got := b.Take(); cmp.Diff([]summary.Row{{Key: keyOf(0, "dog"), Words: []uint64{1}}}, got[0].Rows) != "" {
		t.Errorf("%+v", got)
	}
}

// TestMembers: the members of a Summary are there for those who fill it and those who print it.
func TestMembers(t *testing.T) {
	s := summary.Summary{Tables: []summary.Filled{{}}, Start: 1, End: 2, Lost: []event.Loss{{Cause: bpf.Fault, Count: 1}}, Last: true, Stacks: stacks{}}
	if st, ok := s.Stacks.Stack(1, false); !ok || st.Addresses[0] != 1 {
		t.Error(st)
	}
}

type stacks struct{}

func (stacks) Stack(n uint64, user bool) (summary.Stack, bool) {
	return summary.Stack{Addresses: []uint64{n}, Cut: true, Task: bpf.Event{PID: 1}}, !user
}

// TestFull: a table is full when it has many keys, or fewer with many numbers each.
func TestFull(t *testing.T) {
	wide := aggregation(expr.AggHist, long)
	wide.Sub = 5
	wide.Keys = []expr.Capture{{Label: "flags", Value: &expr.Arg{T: long, Width: 8}}}
	for _, c := range []struct {
		agg  *expr.Aggregation
		most int
	}{{counts(integer), 1 << 16}, {wide, (8<<20 + wide.Words() - 1) / wide.Words()}} {
		b := summary.NewBuilder(summary.Of(planOf([]*expr.Aggregation{c.agg})))
		n := 0
		for ; !b.Full() && n <= c.most; n++ {
			b.Words(0, binary.LittleEndian.AppendUint64(nil, uint64(n)), 0)
		}
		if n != c.most {
			t.Errorf("%s is full with %d keys, want %d", c.agg.Label, n, c.most)
		}
	}
}
