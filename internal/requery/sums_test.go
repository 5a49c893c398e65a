// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/exprfuzz"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/layout"
)

// summedUp adds calls up as they are, without a recording.
func summedUp(t *testing.T, p *plan.Plan, moments []moment) []summary.Filled {
	t.Helper()
	tables := summary.Of(p)
	b := summary.NewBuilder(tables)
	probe := p.Probes[0]
	at := expr.AtEntry
	for _, it := range probe.Items {
		if it.Aggregation != nil && it.Aggregation.Phase() == expr.AtReturn || it.Predicate != nil && it.Phase == expr.AtReturn {
			at = expr.AtReturn
		}
	}
	for _, m := range moments {
		if m.at != at {
			continue
		}
		wanted := true
		for _, it := range probe.Items {
			if it.Predicate != nil {
				v, err := expr.Eval(it.Predicate, &m.call.Machine)
				wanted = wanted && err == nil && v != 0
			}
		}
		for i, it := range probe.Items {
			g := it.Aggregation
			if g == nil || !wanted {
				continue
			}
			x, err := uint64(0), error(nil)
			if g.Value != nil {
				x, err = expr.Eval(g.Value, &m.call.Machine)
			}
			if err != nil {
				continue
			}
			key, faults := keyOfCall(m.call, p.Probes[0], layout.KeyOf(g))
			g.Accumulate(b.Words(tables.Index(0, i), key, faults), x)
		}
	}
	return b.Take()
}

func keyOfCall(c *simulated, p *plan.Probe, r *layout.Record) (key []byte, faults uint64) {
	key = make([]byte, r.Size)
	for i := range r.Slots {
		s := &r.Slots[i]
		raw := make([]byte, s.Size)
		if !c.store(raw, s, p) {
			faults |= 1 << s.Index
			continue
		}
		switch s.Term.(type) {
		case *expr.Text:
			raw, _, _ = bytes.Cut(raw, []byte{0})
		case *expr.Buffer:
			raw = raw[:8+min(binary.LittleEndian.Uint64(raw), uint64(len(raw)-8))]
		}
		copy(key[s.Off:], raw)
	}
	return key, faults
}

// tablesOf prints tables.
func tablesOf(t *testing.T, p *plan.Plan, tables []summary.Filled, stacks summary.Stacks) string {
	t.Helper()
	printer := output.NewSummaries(output.Run{Plan: p, Resolver: &symbols.Resolver{}}, nil, false)
	text, err := printer.AppendSummary(nil, &summary.Summary{Tables: tables, Last: true, Stacks: stacks})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSums: what a recording of one SPEC adds up for another is what the calls themselves add up
// to. The first SPEC has what the hints about the second say must be recorded.
func TestSums(t *testing.T) {
	var total struct{ pairs, items, rows, calls, refused, unread int }
	for seed := uint64(1); total.pairs < pairs/2; seed++ {
		g := exprfuzz.NewGen(seed, "s")
		g.AddTypes(10)
		f := function(g, "f")
		view := kernelOf(t, f)
		g.Params = f.Type.(*btf.FuncProto).Params
		method := []layout.Method{layout.MethodFentry, layout.MethodKprobe, layout.MethodFsession}[seed%3]
		g.AtReturn = g.IntN(2) == 0
		items := []string{g.Aggregation()}
		if g.IntN(2) == 0 {
			items = append(items, g.Aggregation(), "count()[$func, $comm, $pid]")
		}
		if g.IntN(3) == 0 {
			items = append(items, g.Int(2)+" "+[]string{"!=", "<", ">="}[g.IntN(3)]+" "+g.Int(2))
		}
		filter := "f(" + strings.Join(items, ", ") + ")"
		if !checks(view, filter) {
			continue
		}
		base, _ := followHints(t, g, view, method, filter)
		if base == "" {
			if total.refused++; total.refused > total.pairs+20 {
				t.Fatalf("%d pairs refused of %d", total.refused, total.pairs)
			}
			continue
		}
		total.pairs++
		recorded, live := planOf(t, view, method, base), planOf(t, view, method, filter)
		joined := recorded.Probes[0].Joined || recorded.Probes[0].Entry == nil || recorded.Probes[0].Entry.Record == nil
		moments, _ := scenario(t, g, view, recorded, filter, joined)
		a, err := New(recorded, view, Question{Specs: parse(t, filter), Arch: "amd64"})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for raw, err := range a.Records(sent(recorded, moments)) {
			t.Fatalf("seed %d: a record of a call that is added up: %x, %v", seed, raw, err)
		}
		got := a.Summary()
		want := summedUp(t, live, moments)
		if diff := cmp.Diff(tablesOf(t, live, want, nil), tablesOf(t, a.Plan(), got.Tables, nil)); diff != "" {
			t.Fatalf("seed %d: recorded %s\nasked %s\n%s", seed, base, filter, diff)
		}
		total.calls += len(moments) / 2
		for _, table := range want {
			total.items++
			total.rows += len(table.Rows)
			for _, r := range table.Rows {
				if r.Faults != 0 {
					total.unread++
				}
			}
		}
	}
	t.Logf("%+v", total)
	if total.rows < 2*total.items || total.unread == 0 {
		t.Errorf("the pairs show too little: %+v", total)
	}
}

// TestSummedStacks: $stack and $ustack are those that were recorded with a call.
func TestSummedStacks(t *testing.T) {
	view := packets(t)
	p := planOf(t, view, layout.MethodKprobe, "ip_send_skb(id)")
	record := func(id uint64, pid uint32, sections ...bpf.Section) []byte {
		e := bpf.Event{Time: 1e9 + id, PID: pid, TID: pid, Kind: bpf.KindEntry, HasTail: len(sections) > 0}
		raw := binary.LittleEndian.AppendUint64(bpf.AppendEvent(nil, &e), id)
		for i := range sections {
			raw = bpf.AppendSection(raw, &sections[i])
		}
		return raw
	}
	stack := func(kind bpf.SectionKind, addrs ...uint64) bpf.Section {
		s := bpf.Section{Kind: kind}
		for _, a := range addrs {
			s.Data = binary.LittleEndian.AppendUint64(s.Data, a)
		}
		return s
	}
	a, err := New(p, view, Question{Specs: parse(t, "ip_send_skb(count()[$stack, $ustack], sum(id))")})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range a.Records(each([][]byte{
		record(1, 7, stack(bpf.SectionStack, 11, 12), stack(bpf.SectionUserStack, 5)), record(2, 7, stack(bpf.SectionStack, 11, 12), stack(bpf.SectionUserStack, 5)),
		record(3, 8, stack(bpf.SectionStack, 11, 12), stack(bpf.SectionUserStack, 5)), record(4, 7, stack(bpf.SectionStack, 11)), record(5, 7),
	})) {
		if err != nil {
			t.Fatal(err)
		}
	}
	s := a.Summary()
	if s.Start != 1e9+1 || s.End != 1e9+5 || !s.Last {
		t.Errorf("from %d to %d", s.Start, s.End)
	}
	type row struct {
		Calls        uint64
		Kernel, User []uint64
		PID          uint32
	}
	var got []row
	for _, r := range s.Tables[0].Sorted() {
		k, _ := s.Stacks.Stack(binary.LittleEndian.Uint64(r.Key), false)
		u, _ := s.Stacks.Stack(binary.LittleEndian.Uint64(r.Key[8:]), true)
		got = append(got, row{r.Words[0], k.Addresses, u.Addresses, u.Task.PID})
	}
	want := []row{{2, []uint64{11, 12}, []uint64{5}, 7}, {1, nil, nil, 0}, {1, []uint64{11, 12}, []uint64{5}, 8}, {1, []uint64{11}, nil, 0}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if sum := summary.Sum(s.Tables[1].Rows[0].Words); sum != 15 {
		t.Errorf("sum %d", sum)
	}
	if again, err := New(p, view, Question{Specs: parse(t, "ip_send_skb(id)")}); err != nil || again.Summary() != nil {
		t.Errorf("%v, or a summary of nothing", err)
	}
}

// TestSumsNotRecorded: what cannot be added up is refused, with what is missing.
func TestSumsNotRecorded(t *testing.T) {
	view := packets(t)
	p := planOf(t, view, layout.MethodKprobe, "ip_send_skb(id)")
	for spec, want := range map[string]string{
		"ip_send_skb(sum(skb->len))": "record `*skb` too", "ip_send_skb(count()[skb->len])": "record `*skb` too", "ip_send_skb(count()[id, $uid])": "record `$uid` too",
		"ip_send_skb(hist($duration))": "$duration", "ip_send_skb(count()[return])": "record `return` too",
	} {
		_, err := New(p, view, Question{Specs: parse(t, spec)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
}
