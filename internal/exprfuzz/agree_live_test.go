// SPDX-License-Identifier: Apache-2.0

package exprfuzz_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/exprfuzz"
	"github.com/ksnoop/ksnoop/internal/exprfuzz/kmod"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
	"github.com/ksnoop/ksnoop/layout"
)

const (
	roundFuncs  = 20 // functions of one module
	roundItems  = 24 // expressions over the parameters of one
	makeCalls   = 24 // calls of each function with each method
	soakCalls   = 300
	memorySize  = 2 * 4096
	makePairs   = 30_000    // half of them in make test, if the kernel has all methods
	soakPairs   = 1_100_000 // in make soak
	maxRejected = 5         // percent of expressions that the checker may refuse
)

// samples returns how many pairs are wanted, of some in make test-all and all in make soak, in how many
// calls of each program, and the seed of the first round.
func samples(some, all int) (pairs, calls int, seed uint64) {
	mine, of := livetest.Share()
	pairs, calls, seed = some/of, makeCalls, uint64(1+100*mine)
	if os.Getenv("KSNOOP_SOAK") != "" {
		pairs, calls, seed = all, soakCalls, uint64(time.Now().UnixNano())
	}
	// A seed that has failed can be tried again.
	if n, err := strconv.ParseUint(os.Getenv("KSNOOP_SEED"), 10, 64); err == nil {
		pairs, calls, seed = 1, soakCalls, n
	}
	return pairs, calls, seed
}

// Eval and generated code must agree on every value and on every fault. What
// is compared travels the whole way: text, plan, program, kernel, record.
func TestLiveAgree(t *testing.T) {
	guest.Require(t)
	pairs, calls, seed := samples(makePairs, soakPairs)
	theirs, share := theirMethods(t)
	pairs = share(pairs)
	var total tally
	for round := 0; total.pairs < pairs && !t.Failed(); round++ {
		r := newRound(t, fmt.Sprintf("fz%d_", round), seed+uint64(round))
		r.repeat = calls
		for _, m := range theirs {
			r.run(t, m, &total)
		}
		r.mem.Close()
		if total.pairs < pairs/2 || t.Failed() {
			continue
		}
		// The kernel's own types: what casts make of pointers can be loaded from directly.
		r = newKernelRound(t, fmt.Sprintf("kt%d_", round), seed+uint64(round))
		r.repeat = calls
		for _, m := range theirs {
			r.run(t, m, &total)
		}
		r.mem.Close()
	}
	t.Logf("%d pairs of expression and input, of them %d faults; %d calls dropped by a predicate, %d with unknown memory; %d of %d expressions refused",
		total.pairs, total.faults, total.dropped, total.unknown, total.refused, total.made)
	if total.faults*50 < total.pairs {
		t.Errorf("too few faults")
	}
	if total.refused*100 > maxRejected*total.made {
		t.Errorf("too many expressions refused: %v", total.why)
	}
}

type tally struct {
	pairs, faults, dropped, unknown, refused, made int
	periods, skipped                               int            // of tables; skipped are those with calls that the kernel has left out
	why                                            map[string]int // refused expressions by message
}

// A round is one module with its functions and a seed.
type round struct {
	gen    *exprfuzz.Gen
	seed   uint64
	module *kmod.Module
	mem    *kmod.Memory
	caller *caller
	view   *kernel.View
	funcs  []kernel.Function
	addrs  []uint64
	target codegen.Options
	repeat int // calls of each function with each method
}

func newRound(t *testing.T, prefix string, seed uint64) *round {
	t.Helper()
	g := exprfuzz.NewGen(seed, prefix)
	g.AddTypes(10)
	r := &round{gen: g, seed: seed, module: &kmod.Module{Name: prefix + "mod", Types: g.Enums()}}
	for i := range roundFuncs {
		var result btf.Type = g.Scalar()
		if i%4 == 0 {
			result = g.Pointer(g.Structs)
		}
		r.add(result, g.Parameters())
	}
	r.load(t)
	return r
}

// kernelStructs are of all kinds: bitfields, unions, arrays, embedded structs.
var kernelStructs = []string{"sk_buff", "file", "inode", "dentry", "path", "cred", "sock", "iphdr", "tcphdr", "qstr",
	"list_head", "timespec64", "kobject", "page", "task_struct", "vm_area_struct"}

// newKernelRound has functions of untyped pointers, which expressions cast to
// pointers to the kernel's structs.
func newKernelRound(t *testing.T, prefix string, seed uint64) *round {
	t.Helper()
	g := exprfuzz.NewGen(seed, prefix)
	void := &btf.Pointer{Target: &btf.Void{}}
	long := &btf.Int{Name: "long int", Size: 8, Encoding: btf.Signed}
	r := &round{gen: g, seed: seed, module: &kmod.Module{Name: prefix + "mod"}}
	for range roundFuncs {
		r.add(long, []btf.FuncParam{{Name: "p0", Type: void}, {Name: "p1", Type: void}, {Name: "p2", Type: long}})
	}
	r.load(t)
	for _, name := range kernelStructs {
		found, err := r.view.TypesByName("struct "+name, "")
		if err != nil || len(found) == 0 {
			t.Fatalf("struct %s: %v", name, err)
		}
		g.Structs = append(g.Structs, found[0].(*btf.Struct))
	}
	return r
}

func (r *round) add(result btf.Type, params []btf.FuncParam) {
	name := fmt.Sprintf("%sf%d", strings.TrimSuffix(r.module.Name, "mod"), len(r.module.Funcs))
	r.module.Funcs = append(r.module.Funcs, &btf.Func{Name: name, Linkage: btf.StaticFunc,
		Type: &btf.FuncProto{Return: result, Params: params}})
}

func (r *round) load(t *testing.T) {
	t.Helper()
	err := r.module.Load()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // a test that has failed is run again in the same guest
		for begun := time.Now(); errors.Is(r.module.Unload(), unix.EWOULDBLOCK) && time.Since(begun) < livetest.Patience(5*time.Second); {
			time.Sleep(50 * time.Millisecond)
		}
	})
	if r.addrs, err = r.module.Addresses(); err != nil {
		t.Fatal(err)
	}
	if r.mem, err = kmod.NewMemory(memorySize); err != nil {
		t.Fatal(err)
	}
	r.caller = newCaller(t, r.module, r.mem)
	r.view = kernel.Open(os.DirFS("/"))
	for _, f := range r.module.Funcs {
		found, err := r.view.Match(f.Name, r.module.Name)
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %v, %v", f.Name, found, err)
		}
		r.funcs = append(r.funcs, found[0])
	}
	r.target = target(t, r.view)
}

// run traces all functions of the round with one method.
func (r *round) run(t *testing.T, method layout.Method, total *tally) {
	t.Helper()
	p := &plan.Plan{}
	var funcs []int // of each probe
	for i := range r.funcs {
		probe := r.probe(t, i, method, total)
		if probe == nil {
			continue
		}
		probe.ID = len(p.Probes)
		p.Probes, funcs = append(p.Probes, probe), append(funcs, i)
	}
	tracer, err := attach.Attach(p, attach.Options{
		Settings: bpf.Settings{RingSize: 1 << 20}, Code: r.target, Kernel: r.view, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("seed %d, %s: %v", r.seed, method, err)
	}
	defer tracer.Close()
	if err := tracer.Start(); err != nil {
		t.Fatal(err)
	}
	bad := map[*plan.Probe]bool{}
	for _, f := range tracer.Failed() {
		bad[f.Probe] = true
		if strings.Contains(f.Err.Error(), "512 bytes of stack") {
			total.refused += len(f.Probe.Items) // a limit of ours, clearly said
			continue
		}
		t.Errorf("seed %d, %s: %s\n%v", r.seed, method, f.Probe.Spec.Text, f.Err)
	}
	for i, probe := range p.Probes {
		if !bad[probe] {
			r.calls(t, tracer, p, probe, funcs[i], total)
		}
	}
}

// probe makes a request with random items. Expressions that the checker
// refuses are left out.
func (r *round) probe(t *testing.T, fn int, method layout.Method, total *tally) *plan.Probe {
	t.Helper()
	g := r.gen
	proto := r.module.Funcs[fn].Type.(*btf.FuncProto)
	g.Params = proto.Params
	var items []string
	for i := range roundItems {
		g.AtReturn = false
		if i%4 == 3 {
			if _, pointer := btf.UnderlyingType(proto.Return).(*btf.Pointer); !pointer {
				g.AtReturn = true
			}
		}
		items = append(items, g.Item())
	}
	if fn%5 == 1 {
		items = append(items, g.Int(2)+" != "+g.Int(2))
	}
	if fn%5 == 3 { // one record for each call
		p, _ := g.Ptr(2)
		items = append(items, "exit("+g.Int(2)+") <= (unsigned long)return || "+g.Int(3), "exit("+p+")", "diff("+p+")")
	}
	total.made += len(items)
	return r.planned(t, fn, items, method, total)
}

// planned makes a request of those items that the checker takes; nil if there is a fault.
func (r *round) planned(t *testing.T, fn int, items []string, method layout.Method, total *tally) *plan.Probe {
	t.Helper()
	f := r.funcs[fn]
	for {
		text := f.Name + "(" + strings.Join(items, ", ") + ")"
		if len(text) > expr.MaxLength {
			items = items[1:]
			continue
		}
		spec, err := expr.Parse(text)
		if err != nil {
			t.Errorf("seed %d: %v", r.seed, err)
			return nil
		}
		probe, err := plan.NewProbe(r.view, spec, f, plan.Options{Arch: runtime.GOARCH, Method: func(*plan.Probe) layout.Method { return method }})
		var faults *expr.ErrorList
		switch {
		case err == nil:
			return probe
		case errors.As(err, &faults):
			items = r.without(spec, items, faults, total)
		default: // too much for one record
			items = items[1:]
		}
	}
}

// without leaves out the items that the checker refused.
func (r *round) without(spec *expr.Spec, items []string, faults *expr.ErrorList, total *tally) []string {
	if total.why == nil {
		total.why = map[string]int{}
	}
	var kept []string
	for i, x := range spec.Items {
		bad := false
		for _, e := range faults.Errors {
			if at := x.Span(); at.Start <= e.Span.Start && e.Span.Start < at.End {
				bad = true
				total.why[e.Msg]++
			}
		}
		if bad {
			total.refused++
		} else {
			kept = append(kept, items[i])
		}
	}
	return kept
}

// A want is a record that a call must send.
type want struct {
	kind   bpf.Kind
	record *layout.Record
	values []value
}

// A value is what must be in a slot.
type value struct {
	unknown, fault bool
	bytes          []byte
}

func (r *round) calls(t *testing.T, tracer *attach.Tracer, p *plan.Plan, probe *plan.Probe, fn int, total *tally) {
	t.Helper()
	r.gen.Params = r.module.Funcs[fn].Type.(*btf.FuncProto).Params
	result := r.module.Funcs[fn].Type.(*btf.FuncProto).Return
	m := &exprfuzz.Machine{Before: make([]byte, memorySize), After: r.mem.Bytes, Kernel: r.mem.Addr, User: userAddr,
		PID: r.caller.PID, TID: r.caller.TID, Name: r.caller.comm}
	m.KeptTerm = func(slot int) expr.Term { return probe.Return.Record.Slots[slot].Term }
	for range r.repeat {
		r.gen.Fill(m, r.mem.Bytes)
		copy(m.Before, r.mem.Bytes)
		r.gen.Arguments(m)
		m.Return = r.gen.Word()
		if _, pointer := btf.UnderlyingType(result).(*btf.Pointer); pointer {
			m.Return = r.gen.Pointer64(m)
		}
		call := kmod.Call{Func: r.addrs[fn], Result: m.Return, Flip: r.mem.Addr + 8*r.gen.Uint64N(memorySize/8), Mask: r.gen.Word()}
		copy(call.Args[:], m.Words)
		r.caller.call(t, &call)
		wants, known := expected(probe, m)
		got := records(t, tracer)
		if !known {
			total.unknown++
			continue
		}
		if len(wants) == 0 {
			total.dropped++
		}
		total.pairs += len(predicates(probe.Entry))
		if !r.compare(t, p, probe, m, wants, got, total) {
			return
		}
	}
}

// expected tells which records a call sends. known is false if that depends on
// memory of which nothing is known.
func expected(p *plan.Probe, m *exprfuzz.Machine) (wants []want, known bool) {
	m.Unknown = false
	entered := p.Entry == nil || holds(p.Entry.Predicates, m)
	if p.Entry != nil && p.Entry.Record != nil && entered {
		wants = append(wants, want{kind: bpf.KindEntry, record: p.Entry.Record})
	}
	if p.Return != nil && (entered || !p.Stashed) && holds(p.Return.Predicates, m) {
		kind := bpf.KindReturn
		if p.Joined {
			kind = bpf.KindCall
		}
		wants = append(wants, want{kind: kind, record: p.Return.Record})
	}
	if m.Unknown {
		return nil, false
	}
	for i := range wants {
		for j := range wants[i].record.Slots {
			wants[i].values = append(wants[i].values, slotValue(&wants[i].record.Slots[j], m))
		}
	}
	return wants, true
}

func holds(preds []layout.Predicate, m *exprfuzz.Machine) bool {
	for _, p := range preds {
		if v, err := expr.Eval(p.Term, m); err != nil || v == 0 {
			return false
		}
	}
	return true
}

func slotValue(s *layout.Slot, m *exprfuzz.Machine) value {
	m.Unknown = false
	v := value{}
	switch term := s.Term.(type) {
	case *expr.Object:
		addr, err := expr.Eval(term.Addr, m)
		v.bytes = make([]byte, s.Size)
		v.fault = err != nil || !m.Read(term.Space, term.At, addr+uint64(term.Off), v.bytes)
	case *expr.Text:
		text, err := expr.ReadText(term, m)
		v.bytes, v.fault = append([]byte(text), 0), err != nil
		v.bytes = v.bytes[:min(len(v.bytes), int(term.Max)-1)] // a slot may have more of it
	default:
		n, err := expr.Eval(s.Term, m)
		for range 8 {
			v.bytes = append(v.bytes, byte(n))
			n >>= 8
		}
		v.fault = err != nil
	}
	v.unknown = m.Unknown
	return v
}

// records returns copies of what was sent since the last time.
func records(t *testing.T, tracer *attach.Tracer) [][]byte {
	t.Helper()
	if tracer.Pending() == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var got [][]byte
	for raw, err := range tracer.Records(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, bytes.Clone(raw))
	}
	return got
}

// compare reports whether the records are those that were expected.
func (r *round) compare(t *testing.T, p *plan.Plan, probe *plan.Probe, m *exprfuzz.Machine, wants []want, got [][]byte, total *tally) bool {
	t.Helper()
	if len(got) != len(wants) {
		t.Errorf("seed %d, %s: %d records, want %d: %s\nentry %v, return %v\nwords %#x, result %#x", r.seed, probe.Method, len(got), len(wants),
			probe.Spec.Text, texts(probe, predicates(probe.Entry)), texts(probe, predicates(probe.Return)), m.Words, m.Return)
		return false
	}
	for i, w := range wants {
		var e event.Event
		if err := event.Decode(p, got[i], &e); err != nil {
			t.Errorf("seed %d: %v", r.seed, err)
			return false
		}
		if e.Probe != probe || e.Kind != w.kind {
			t.Errorf("seed %d: a record of %s, kind %d, want %s, %d", r.seed, e.Probe.Func.Name, e.Kind, probe.Func.Name, w.kind)
			return false
		}
		for j := range w.values {
			slot, v := &w.record.Slots[j], w.values[j]
			if v.unknown {
				continue
			}
			total.pairs++
			if v.fault {
				total.faults++
			}
			b, ok := e.Bytes(slot)
			if ok == v.fault || ok && !bytes.Equal(b[:len(v.bytes)], v.bytes) {
				t.Errorf("seed %d, %s, kind %d: %s\n  is %s\n  words %#x, result %#x, memory %#x, user %#x\n  got  %x fault %v\n  want %x fault %v",
					r.seed, probe.Method, e.Kind, itemText(probe, slot), expr.FormatTerm(slot.Term, paramName(probe)), m.Words, m.Return, m.Kernel, m.User,
					b[:len(v.bytes)], !ok, v.bytes, v.fault)
				return false
			}
		}
	}
	return true
}

func itemText(p *plan.Probe, s *layout.Slot) string {
	if s.Capture < 0 {
		return "kept for " + p.Spec.Text[p.Items[s.Item].Pos.Start:p.Items[s.Item].Pos.End]
	}
	return p.Items[s.Item].Captures[s.Capture].Label
}

func paramName(p *plan.Probe) func(int) string {
	return func(i int) string { return p.Params[i].Name }
}

func texts(p *plan.Probe, preds []layout.Predicate) (out []string) {
	for _, pred := range preds {
		out = append(out, expr.FormatTerm(pred.Term, paramName(p)))
	}
	return out
}

func predicates(h *layout.Half) []layout.Predicate {
	if h == nil {
		return nil
	}
	return h.Predicates
}
