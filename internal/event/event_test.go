// SPDX-License-Identifier: Apache-2.0

package event

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

var (
	long = &btf.Int{Name: "long int", Size: 8, Encoding: btf.Signed}
	pair = &btf.Struct{Name: "pair", Size: 16, Members: []btf.Member{{Name: "a", Type: long}, {Name: "b", Type: long, Offset: 64}}}
)

// noTypes is a kernel without named types.
type noTypes struct{}

func (noTypes) TypesByName(string) ([]btf.Type, error)        { return nil, nil }
func (noTypes) Enumerators(string) ([]expr.Enumerator, error) { return nil, nil }

// testPlan plans SPECs for `long f(struct pair *p, long n)`.
func testPlan(t testing.TB, specs ...string) *plan.Plan {
	t.Helper()
	params := []expr.Param{{Name: "p", Type: &btf.Pointer{Target: pair}}, {Name: "n", Type: long}}
	p := &plan.Plan{}
	for i, text := range specs {
		spec, err := expr.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		probe := &plan.Probe{Probe: layout.Probe{ID: i, Name: "f", Function: "f", Spec: spec, Result: long, Method: layout.MethodFentry}, Func: kernel.Function{Name: "f"}}
		for slot, param := range params {
			probe.Params = append(probe.Params, layout.Param{Param: param, Loc: layout.Loc{Slot: slot, Slots: 1, Reg: slot}})
		}
		probe.Items, err = expr.Check(spec, &expr.Scope{Func: "f", Params: params, Return: long, Types: noTypes{}})
		if err != nil {
			t.Fatal(err)
		}
		if err := probe.Lay(); err != nil {
			t.Fatal(err)
		}
		p.Probes = append(p.Probes, probe)
	}
	return p
}

func words(vs ...uint64) []byte {
	var b []byte
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

func TestDecode(t *testing.T) {
	p := testPlan(t, "f(n)", "f(p, return)", "f(p->b, return < n)")
	head := func(e bpf.Event) []byte { return bpf.AppendEvent(nil, &e) }
	for _, c := range []struct {
		name   string
		raw    []byte
		values []uint64 // of the slots of 8 bytes
		fault  string
	}{
		{"a value", append(head(bpf.Event{}), words(7)...), []uint64{7}, ""},
		{"padding behind it", append(head(bpf.Event{}), words(7, 8)...), []uint64{7}, ""},
		{"an object", append(head(bpf.Event{Probe: 1}), words(0xffff, 1, 2)...), []uint64{0xffff}, ""},
		{"a return", append(head(bpf.Event{Probe: 1, Kind: bpf.KindReturn}), words(9)...), []uint64{9}, ""},
		{"a whole call", append(head(bpf.Event{Probe: 2, Kind: bpf.KindCall}), words(3, 4, 5)...), []uint64{3, 4, 5}, ""},
		{"no header", []byte{1, 2, 3}, nil, "shorter than its header"},
		{"no such probe", head(bpf.Event{Probe: 3}), nil, "probe 3 of 3"},
		{"values missing", append(head(bpf.Event{}), 1, 2, 3), nil, "3 bytes of values"},
		{"no such half", head(bpf.Event{Kind: bpf.KindReturn}), nil, "has none of kind 1"},
		{"no such kind", append(head(bpf.Event{Probe: 2, Kind: bpf.KindLost + 1}), words(3, 4, 5)...), nil, "has none of kind 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var e Event
			err := Decode(p, c.raw, &e)
			if c.fault != "" {
				if err == nil || !strings.Contains(err.Error(), c.fault) {
					t.Fatalf("error %v, want %q", err, c.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []uint64
			for i := range e.Record.Slots {
				if s := &e.Record.Slots[i]; s.Size == 8 {
					v, ok := e.Value(s)
					if !ok {
						t.Errorf("slot %d is a fault", i)
					}
					got = append(got, v)
				}
			}
			if len(got) != len(c.values) {
				t.Fatalf("values %v, want %v", got, c.values)
			}
			for i := range got {
				if got[i] != c.values[i] {
					t.Errorf("values %v, want %v", got, c.values)
				}
			}
		})
	}
}

func TestFaults(t *testing.T) {
	p := testPlan(t, "f(p->a, p->b)")
	var e Event
	if err := Decode(p, append(bpf.AppendEvent(nil, &bpf.Event{Faults: 2}), words(1, 2)...), &e); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false} {
		if _, ok := e.Value(&e.Record.Slots[i]); ok != want {
			t.Errorf("slot %d readable: %v, want %v", i, ok, want)
		}
	}
}

// FuzzDecode: whatever comes out of the buffer is decoded or refused.
func FuzzDecode(f *testing.F) {
	p := testPlan(f, "f(n)", "f(p, return)", "f(p->b, return < n)")
	f.Add(append(bpf.AppendEvent(nil, &bpf.Event{Probe: 2, Kind: bpf.KindCall}), words(3, 4, 5)...))
	f.Add(bpf.AppendLost(nil, bpf.LostRingbuf, 1, 2))
	owned := withOwner(f, p)
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, p := range []*plan.Plan{p, owned} {
			var e Event
			if Decode(p, raw, &e) != nil || e.Kind == bpf.KindLost {
				continue
			}
			for i := range e.Record.Slots {
				if b, _ := e.Bytes(&e.Record.Slots[i]); len(b) != int(e.Record.Slots[i].Size) {
					t.Errorf("slot %d has %d bytes", i, len(b))
				}
			}
		}
	})
}

// withOwner returns a plan whose records have an owner.
func withOwner(t testing.TB, p *plan.Plan) *plan.Plan {
	t.Helper()
	owned := &plan.Plan{Owner: layout.OwnerUID}
	for _, probe := range p.Probes {
		made := *probe
		made.Owner = layout.OwnerUID
		if err := made.Lay(); err != nil {
			t.Fatal(err)
		}
		owned.Probes = append(owned.Probes, &made)
	}
	return owned
}

// TestPlace: an event has the place of its record, behind the owner, and none that was decoded before.
func TestPlace(t *testing.T) {
	bare := testPlan(t, "f(n, return)")
	for _, owner := range []layout.Owner{0, layout.OwnerUID} {
		placed := &plan.Plan{Owner: owner}
		for _, probe := range bare.Probes {
			made := *probe
			made.Placed, made.Owner = true, owner
			if err := made.Lay(); err != nil {
				t.Fatal(err)
			}
			placed.Probes = append(placed.Probes, &made)
		}
		for _, kind := range []bpf.Kind{bpf.KindEntry, bpf.KindReturn} {
			raw := bpf.AppendEvent(nil, &bpf.Event{Kind: kind})
			if owner != 0 {
				raw = bpf.AppendOwner(raw, bpf.Owner{UID: 7})
			}
			var e Event
			if err := Decode(placed, append(raw, words(0x7ffc0010, 9)...), &e); err != nil || e.Place != 0x7ffc0010 {
				t.Errorf("place %#x, %v", e.Place, err)
			}
			if v, ok := e.Value(&e.Record.Slots[0]); v != 9 || !ok {
				t.Errorf("the value is %d, %v", v, ok)
			}
			if err := Decode(bare, append(bpf.AppendEvent(nil, &bpf.Event{Kind: kind}), words(9)...), &e); err != nil || e.Place != 0 {
				t.Errorf("place %#x, %v", e.Place, err)
			}
		}
	}
}

// TestOwner: an event has the owner of its record, and none that was decoded before.
func TestOwner(t *testing.T) {
	bare := testPlan(t, "f(n)")
	var e Event
	want := bpf.Owner{UID: 7, Cgroup: 8}
	if err := Decode(withOwner(t, bare), append(bpf.AppendOwner(bpf.AppendEvent(nil, &bpf.Event{}), want), words(9)...), &e); err != nil || e.Owner != want {
		t.Errorf("%+v, %v", e.Owner, err)
	}
	if v, ok := e.Value(&e.Record.Slots[0]); v != 9 || !ok {
		t.Errorf("the value is %d, %v", v, ok)
	}
	if err := Decode(bare, append(bpf.AppendEvent(nil, &bpf.Event{}), words(9)...), &e); err != nil || e.Owner != (bpf.Owner{}) {
		t.Errorf("%+v, %v", e.Owner, err)
	}
}

func TestDecodeAllocates(t *testing.T) {
	p := testPlan(t, "f(n)")
	raw := append(bpf.AppendEvent(nil, &bpf.Event{}), words(7)...)
	var e Event
	if n := testing.AllocsPerRun(100, func() { _ = Decode(p, raw, &e) }); n != 0 {
		t.Errorf("%v allocations for a record", n)
	}
}
