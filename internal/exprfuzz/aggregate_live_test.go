// SPDX-License-Identifier: Apache-2.0

package exprfuzz_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/exprfuzz"
	"github.com/ksnoop/ksnoop/internal/exprfuzz/kmod"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
	"github.com/ksnoop/ksnoop/layout"
)

const (
	makeAdded = 3_000   // pairs of aggregation and call in make test, as makePairs
	soakAdded = 200_000 // in make soak
	// Memory of the tables of one request, where arrays may be large and where not, see
	// attach.Tracer.
	roomyTables, smallTables = 40 << 20, 3 << 20
)

// TestLiveTablesAgree: the kernel's tables are those that Accumulate makes of what Eval says.
func TestLiveTablesAgree(t *testing.T) {
	guest.Require(t)
	pairs, calls, seed := samples(makeAdded, soakAdded)
	theirs, share := theirMethods(t)
	pairs = share(pairs)
	var total tally
	for n := 0; total.pairs < pairs && !t.Failed(); n++ {
		r := newRound(t, fmt.Sprintf("ag%d_", n), seed+uint64(n))
		r.repeat = calls
		one := unix.CPUSet{}
		one.Set(0) // rows of several CPUs are brought together, which top() does not do exactly
		if err := unix.SchedSetaffinity(int(r.caller.PID), &one); err != nil {
			t.Fatal(err)
		}
		for _, m := range theirs {
			r.addUp(t, m, r.seed%2 == 0, &total) // so that a seed can be tried again alone
		}
		r.mem.Close()
	}
	t.Logf("%d pairs of aggregation and call, of them %d faults; %d calls dropped by a predicate, %d not made since their memory is unknown; "+
		"%d of %d items refused; %d of %d periods not compared",
		total.pairs, total.faults, total.dropped, total.unknown, total.refused, total.made, total.skipped, total.periods)
	if total.faults*50 < total.pairs {
		t.Errorf("too few faults")
	}
	if total.refused*100 > maxRejected*total.made {
		t.Errorf("too many items refused: %v", total.why)
	}
	if total.skipped*20 > total.periods {
		t.Errorf("%d of %d periods cannot be compared, since the kernel has left out calls", total.skipped, total.periods)
	}
}

// addUp attaches aggregations to all functions of the round, as many at a time as there is memory for.
func (r *round) addUp(t *testing.T, method layout.Method, predicates bool, total *tally) {
	t.Helper()
	room := tablesMemory()
	p, funcs, memory, tables := &plan.Plan{}, []int(nil), 0, 0
	run := func() {
		if len(p.Probes) > 0 {
			r.addUpPlan(t, p, funcs, total)
		}
		p, funcs, memory, tables = &plan.Plan{}, nil, 0, 0
	}
	for i := range r.funcs {
		probe := r.aggregations(t, i, method, predicates, total)
		if probe == nil || t.Failed() {
			continue
		}
		size, n := 0, 0
		for _, it := range probe.Items {
			if g := it.Aggregation; g != nil {
				size += (8*g.Words() + int(g.KeySize()) + 64) * 4 * r.repeat // both halves; no more than half of the places are used
				n++
			}
		}
		if memory+size > room || tables+n > bpf.MaxTables {
			run()
		}
		probe.ID = len(p.Probes)
		p.Probes, funcs, memory, tables = append(p.Probes, probe), append(funcs, i), memory+size, tables+n
	}
	run()
}

// tablesMemory returns how many bytes the tables of a request may have.
func tablesMemory() int {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 5 << 20, MaxEntries: 1})
	if err != nil {
		return smallTables
	}
	_ = m.Close()
	return roomyTables
}

// aggregations makes a request with random aggregations; nil if the checker refuses all.
func (r *round) aggregations(t *testing.T, fn int, method layout.Method, predicates bool, total *tally) *plan.Probe {
	t.Helper()
	g := r.gen
	proto := r.module.Funcs[fn].Type.(*btf.FuncProto)
	g.Params = proto.Params
	_, pointer := btf.UnderlyingType(proto.Return).(*btf.Pointer)
	g.AtReturn = !pointer && fn%3 == 0
	var items []string
	for range 1 + g.IntN(4) {
		items = append(items, g.Aggregation())
	}
	if fn%5 == 1 && !g.AtReturn { // what entry keeps for the return
		p, _ := g.Ptr(2)
		items = append(items, "count()[exit("+p+")]", "sum(exit("+g.Int(2)+"))["+p+"]", "count()[buf("+p+", 3)]")
	}
	if predicates && fn%2 == 0 {
		items = append(items, g.Int(2)+pick(g, " != ", " < ", " >= ")+g.Int(2))
	}
	total.made += len(items)
	probe := r.planned(t, fn, items, method, total)
	if probe == nil || !probe.Aggregates() {
		return nil
	}
	return probe
}

func pick(g *exprfuzz.Gen, from ...string) string { return from[g.IntN(len(from))] }

// addUpPlan makes calls of all functions of a plan and compares the tables, several times.
func (r *round) addUpPlan(t *testing.T, p *plan.Plan, funcs []int, total *tally) {
	t.Helper()
	tracer, err := attach.Attach(p, attach.Options{
		Settings: bpf.Settings{RingSize: 1 << 16, Keys: r.repeat}, Code: r.target, Kernel: r.view, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("seed %d: %v", r.seed, err)
	}
	defer tracer.Close()
	if err := tracer.Start(); err != nil {
		t.Fatal(err)
	}
	bad := map[int]bool{}
	for _, f := range tracer.Failed() {
		bad[slices.IndexFunc(p.Probes, func(p *plan.Probe) bool { return p.Spec == f.Probe.Spec })] = true
		if strings.Contains(f.Err.Error(), "512 bytes of stack") {
			total.refused += len(f.Probe.Items)
			continue
		}
		t.Errorf("seed %d, %s: %s\n%v%s", r.seed, f.Probe.Method, f.Probe.Spec.Text, f.Err, logEnd(f.Err))
	}
	got, want := summary.NewBuilder(tracer.Tables()), summary.NewBuilder(tracer.Tables())
	const periods = 3
	missed := uint64(0)
	for range periods {
		for i, probe := range p.Probes {
			if bad[i] {
				continue
			}
			for range r.repeat / periods {
				r.addUpCall(t, tracer, probe, i, funcs[i], want, total)
			}
		}
		if lost, err := tracer.TakeRows(got); err != nil || lost != 0 {
			t.Fatalf("%d keys without room, %v", lost, err)
		}
		counters, err := tracer.Counters()
		if err != nil {
			t.Fatal(err)
		}
		if keys, rows := counters[bpf.LostKey], counters[bpf.LostRow]; keys != 0 || rows != 0 {
			t.Errorf("seed %d: %d calls without room for their key, %d not added", r.seed, keys, rows)
			return
		}
		g, w := got.Take(), want.Take()
		total.periods++
		if n := counters[bpf.Missed] + counters[bpf.LostRecursion]; n != missed { // the kernel has skipped a call
			missed = n
			total.skipped++
			continue
		}
		if !r.sameTables(t, g, w) {
			return
		}
	}
}

// logEnd returns the end of the verifier's log.
func logEnd(err error) string {
	var ve *ebpf.VerifierError
	if !errors.As(err, &ve) {
		return ""
	}
	return "\n" + strings.Join(ve.Log[max(0, len(ve.Log)-50):], "\n")
}

// addUpCall makes a call and adds it up, if it is known what must come of it.
func (r *round) addUpCall(t *testing.T, tracer *attach.Tracer, probe *plan.Probe, index, fn int, want *summary.Builder, total *tally) {
	t.Helper()
	r.gen.Params = r.module.Funcs[fn].Type.(*btf.FuncProto).Params
	m := &exprfuzz.Machine{Before: make([]byte, memorySize), After: make([]byte, memorySize), Kernel: r.mem.Addr, User: userAddr,
		PID: r.caller.PID, TID: r.caller.TID, Name: r.caller.comm}
	r.gen.Fill(m, r.mem.Bytes)
	copy(m.Before, r.mem.Bytes)
	r.gen.Arguments(m)
	m.Return = r.gen.Word()
	if _, pointer := btf.UnderlyingType(r.module.Funcs[fn].Type.(*btf.FuncProto).Return).(*btf.Pointer); pointer {
		m.Return = r.gen.Pointer64(m)
	}
	flip := 8 * r.gen.Uint64N(memorySize/8)
	call := kmod.Call{Func: r.addrs[fn], Result: m.Return, Flip: r.mem.Addr + flip, Mask: r.gen.Word()}
	copy(call.Args[:], m.Words)
	copy(m.After, m.Before)
	le := binary.LittleEndian
	le.PutUint64(m.After[flip:], le.Uint64(m.After[flip:])^call.Mask)

	added, counted := additions(probe, m)
	if m.Unknown {
		total.unknown++
		return
	}
	r.caller.call(t, &call)
	if !slices.Equal(m.After, r.mem.Bytes) {
		t.Fatal("the call has not changed the memory as it should have")
	}
	if !counted {
		total.dropped++
		return
	}
	for _, a := range added {
		total.pairs++
		if a.fault {
			total.faults++
			continue
		}
		g := probe.Items[a.item].Aggregation
		g.Accumulate(want.Words(tracer.Tables().Index(index, a.item), a.key, a.faults), a.value)
	}
}

// An addition is what one aggregation makes of a call.
type addition struct {
	item   int
	fault  bool // the value cannot be read
	value  uint64
	key    []byte
	faults uint64
}

// additions returns what a call adds. counted is false if a predicate drops it. m.Unknown is set if
// that depends on memory of which nothing is known.
func additions(probe *plan.Probe, m *exprfuzz.Machine) (all []addition, counted bool) {
	m.Unknown = false
	unknown := false
	for _, it := range probe.Items {
		if it.Predicate != nil {
			if v, err := expr.Eval(it.Predicate, m); err != nil || v == 0 {
				return nil, false
			}
		}
	}
	unknown = m.Unknown
	for i, it := range probe.Items {
		g := it.Aggregation
		if g == nil {
			continue
		}
		a := addition{item: i}
		if g.Value != nil {
			var err error
			m.Unknown = false
			a.value, err = expr.Eval(g.Value, m)
			a.fault, unknown = err != nil, unknown || m.Unknown
		}
		record := layout.KeyOf(g)
		a.key = make([]byte, record.Size)
		for j := range record.Slots {
			s := &record.Slots[j]
			v := keyValue(s, m)
			unknown = unknown || v.unknown
			if v.fault {
				a.faults |= 1 << s.Index
				continue
			}
			copy(a.key[s.Off:], v.bytes)
		}
		all = append(all, a)
	}
	m.Unknown = unknown
	return all, true
}

// keyValue is slotValue for keys, which have what a string or a buffer leaves of its slot empty.
func keyValue(s *layout.Slot, m *exprfuzz.Machine) value {
	m.Unknown = false
	v := value{}
	switch term := s.Term.(type) {
	case *expr.Text:
		text, err := expr.ReadText(term, m)
		v.bytes, v.fault = []byte(text), err != nil
	case *expr.Buffer:
		addr, err := expr.Eval(term.Addr, m)
		n, _ := expr.Eval(term.N, m)
		v.bytes = make([]byte, 8+n)
		binary.LittleEndian.PutUint64(v.bytes, n)
		v.fault = err != nil || !m.Read(term.Space, term.At, addr, v.bytes[8:])
	default:
		return slotValue(s, m)
	}
	v.unknown = m.Unknown
	return v
}

// sameTables reports whether tables have the same rows.
func (r *round) sameTables(t *testing.T, got, want []summary.Filled) bool {
	t.Helper()
	same := true
	for i := range want {
		same = r.sameTable(t, got[i], want[i]) && same
	}
	return same
}

// sameTable reports all rows that differ.
func (r *round) sameTable(t *testing.T, got, want summary.Filled) bool {
	t.Helper()
	g, have, due := want.Agg, byKey(got), byKey(want)
	for key := range due {
		if _, ok := have[key]; !ok {
			have[key] = nil
		}
	}
	different := ""
	for key, row := range have {
		if other := due[key]; !sameRow(g, row, other) {
			different += fmt.Sprintf("\n  key %x\n  got  %v\n  want %v", key, words(row), words(other))
		}
	}
	if different != "" {
		t.Errorf("seed %d, %s: %s\n  %s: %d rows, want %d%s", r.seed, want.Probes[0].Method, want.Spec, g.Label, len(got.Rows), len(due), different)
	}
	return different == ""
}

func sameRow(g *expr.Aggregation, a, b []uint64) bool {
	if (a == nil) != (b == nil) {
		return false
	}
	if g.Fn == expr.AggTop { // candidates have no order
		return slices.Equal(g.Top(a), g.Top(b))
	}
	return slices.Equal(a, b)
}

// byKey returns rows by the mask of unreadable keys and the keys. A table without keys has a row
// before any call.
func byKey(f summary.Filled) map[string][]uint64 {
	out := map[string][]uint64{}
	for _, row := range f.Rows {
		if len(f.Agg.Keys) == 0 && !slices.ContainsFunc(row.Words, func(w uint64) bool { return w != 0 }) {
			continue
		}
		out[string(binary.BigEndian.AppendUint64(nil, row.Faults))+string(row.Key)] = row.Words
	}
	return out
}

// words writes those words of a row that are not 0, with their places.
func words(row []uint64) string {
	s := ""
	for i, w := range row {
		if w != 0 {
			s += fmt.Sprintf(" %d:%#x", i, w)
		}
	}
	return s
}
