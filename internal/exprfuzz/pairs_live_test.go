// SPDX-License-Identifier: Apache-2.0

package exprfuzz_test

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/exprfuzz"
	"github.com/ksnoop/ksnoop/internal/exprfuzz/kmod"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/requery"
	"github.com/ksnoop/ksnoop/internal/show"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
	"github.com/ksnoop/ksnoop/layout"
)

const (
	allPairs   = 200
	somePairs  = 20 // in make test, on the kernel that has the test
	pairCalls  = 16 // of each function
	maxRefused = 50 // percent of pairs for which nothing can be recorded
)

// TestLivePairs: what the recording of one SPEC answers to another one is what a run with that
// one prints. Both are attached at once, to functions whose types, arguments and memory are
// random; the first SPEC of a pair is random, too, and has what the hints about the second say
// must be recorded.
func TestLivePairs(t *testing.T) {
	guest.Require(t)
	mine, of := livetest.Share()
	want, seed := allPairs, uint64(1000)
	if of > 1 {
		want, seed = somePairs, uint64(1000+100*mine)
	}
	var total again
	for i := 0; total.pairs < want && !t.Failed(); i++ {
		make, prefix := newRound, "pz"
		if i%3 == 1 { // which takes longer
			make, prefix = newKernelRound, "pk"
		}
		r := make(t, fmt.Sprintf("%s%d_", prefix, i), seed+uint64(i))
		all := methods()
		r.askAgain(t, all[(mine+i)%len(all)], i%8 == 6, &total) // all types take long to record
		r.mem.Close()
		t.Logf("after %s: %+v", r.module.Name, total)
		if total.refused*100 > maxRefused*(total.pairs+total.refused)+1000 {
			t.Fatalf("too many pairs refused: %+v", total)
		}
	}
	t.Logf("%+v", total)
	if total.shown*2 < total.pairs || total.joined*20 < total.pairs || total.filtered*8 < total.pairs || total.unsure*2 > total.calls {
		t.Errorf("the pairs show too little")
	}
}

// again counts what was asked again.
type again struct {
	pairs, refused  int
	hints           int // followed
	joined          int // pairs of which the first sends one record for each call
	filtered        int // pairs of which the first leaves out calls
	shown           int // pairs of which something is printed
	calls, unsure   int // unsure: those that depend on objects of which a part could not be read
	faults          int // of predicates
	blocks, written int // in what is printed; bytes of recordings
}

// A pair is what was recorded of a function, and what the recording is asked.
type pair struct {
	fn              int
	recorded, asked *plan.Probe
}

// askAgain records calls of all functions with one SPEC each while another one is traced.
func (r *round) askAgain(t *testing.T, method layout.Method, full bool, total *again) {
	t.Helper()
	pin := unix.CPUSet{1} // both are to see the same
	if err := unix.SchedSetaffinity(int(r.caller.TID), &pin); err != nil {
		t.Fatal(err)
	}
	pairs := r.pairs(t, method, total)
	if !full {
		pairs = r.withTypes(t, pairs, total)
	}
	refused := map[int]bool{}
	wide, narrow := r.traced(t, planOf(pairs, recorded), refused), r.traced(t, planOf(pairs, asked), refused)
	defer wide.Close()
	defer narrow.Close()
	a, err := requery.New(wide.Attached(), r.view, question(pairs))
	if err != nil {
		t.Fatal(err)
	}
	file := r.recording(t, wide.Attached(), full)
	var live [][]byte
	for i := range pairs {
		if refused[i] {
			total.refused++
			continue
		}
		total.pairs++
		made := r.callPair(t, &pairs[i], wide, narrow, a, file, total)
		if len(made) > 0 {
			total.shown++
		}
		live = append(live, made...)
	}
	for _, tracer := range []*attach.Tracer{wide, narrow} {
		if lost, err := tracer.Counters(); err != nil || lost[bpf.LostRingbuf] != 0 {
			t.Errorf("lost %v, %v", lost, err)
		}
	}
	r.compareTexts(t, pairs, narrow.Attached(), live, file, total)
}

// withTypes returns the pairs that a recording has the types for: those that its own SPECs reach.
func (r *round) withTypes(t *testing.T, pairs []pair, total *again) []pair {
	t.Helper()
	empty := r.recording(t, planOf(pairs, recorded), false).read(t)
	return slices.DeleteFunc(slices.Clone(pairs), func(p pair) bool {
		_, err := requery.New(empty.Plan(), empty.Kernel(), question([]pair{p}))
		if err != nil {
			total.refused++
		}
		return err != nil
	})
}

// compareTexts compares what was traced with what the recording answers.
func (r *round) compareTexts(t *testing.T, pairs []pair, p *plan.Plan, live [][]byte, file *recordingFile, total *again) {
	t.Helper()
	again := file.read(t)
	total.written += file.size
	a, err := requery.New(again.Plan(), again.Kernel(), question(pairs))
	if err != nil {
		t.Fatal(err)
	}
	got := text(t, a.Plan(), again.Kernel(), a.Records(again.Records()), a.Pairs())
	want := text(t, p, r.view, stream(live), a.Pairs())
	total.blocks += strings.Count(want, "\n);\n")
	g, w := strings.SplitAfter(got, "\n);\n"), strings.SplitAfter(want, "\n);\n")
	for i := range max(len(g), len(w)) {
		if i < len(g) && i < len(w) && g[i] == w[i] {
			continue
		}
		t.Errorf("seed %d: %d blocks of the recording, %d of the run; block %d:", r.seed, len(g), len(w), i)
		for _, side := range [][]string{g, w} {
			if i < len(side) {
				t.Errorf("%s", side[i])
			}
		}
		for _, p := range pairs {
			if name := " " + p.asked.Name + "("; i < len(g) && strings.Contains(g[i], name) || i < len(w) && strings.Contains(w[i], name) {
				t.Errorf("recorded %s\nasked %s", p.recorded.Spec.Text, p.asked.Spec.Text)
			}
		}
		return
	}
}

// pairs makes a pair for each function.
func (r *round) pairs(t *testing.T, method layout.Method, total *again) (pairs []pair) {
	t.Helper()
	g := r.gen
	for fn := range r.funcs {
		proto := r.module.Funcs[fn].Type.(*btf.FuncProto)
		g.Params = proto.Params
		_, pointer := btf.UnderlyingType(proto.Return).(*btf.Pointer)
		p := pair{fn: fn}
		var filter, items []string
		if g.IntN(4) == 0 { // calls that the recording leaves out
			g.AtReturn = !pointer && g.IntN(2) == 0
			filter = append(filter, g.Int(2)+" != "+g.Int(2))
		}
		for p.asked == nil {
			items = append(slices.Clone(filter), r.asks(pointer)...)
			p.asked = r.resolve(t, fn, method, items)
		}
		if p.recorded = r.hinted(t, p, method, filter, total); p.recorded == nil {
			total.refused++
			continue
		}
		if len(filter) > 0 {
			total.filtered++
		}
		if h := p.recorded.Entry; p.recorded.Joined || h == nil || h.Record == nil {
			total.joined++
		}
		pairs = append(pairs, p)
	}
	return pairs
}

// asks makes random items.
func (r *round) asks(pointer bool) (items []string) {
	g := r.gen
	g.AtReturn = !pointer && g.IntN(2) == 0
	for range 1 + g.IntN(4) {
		items = append(items, g.Item())
	}
	if g.IntN(3) > 0 {
		items = append(items, g.Int(2)+" "+[]string{"!=", "<", ">="}[g.IntN(3)]+" "+g.Int(2))
	}
	if g.IntN(3) == 0 {
		p, _ := g.Ptr(2)
		form := []string{"exit(%s)", "diff(%s)", "str(%s)", "buf(%s, 12)", "exit(str(%s))"}[g.IntN(5)]
		items = append(items, fmt.Sprintf(form, p))
	}
	if g.IntN(4) == 0 {
		items = append(items, []string{"$comm", "$pid", "$cpu", `$comm ~ "exprfuzz*"`, "$tid != 0"}[g.IntN(5)])
	}
	return items
}

// resolve returns the probe of items; nil if the checker refuses them, or if they are too much
// for a record.
func (r *round) resolve(t *testing.T, fn int, method layout.Method, items []string) *plan.Probe {
	t.Helper()
	text := r.funcs[fn].Name + "(" + strings.Join(items, ", ") + ")"
	if len(text) > expr.MaxLength {
		return nil
	}
	spec, err := expr.Parse(text)
	if err != nil {
		t.Fatalf("seed %d: %v", r.seed, err)
	}
	p, err := plan.NewProbe(r.view, spec, r.funcs[fn], plan.Options{Arch: runtime.GOARCH, Method: func(*plan.Probe) layout.Method { return method }})
	if err != nil {
		return nil
	}
	return p
}

var hint = regexp.MustCompile("record `([^`]+)` too")

// hinted returns what records random arguments, and what the hints about p.asked say. It is nil
// if that is too much for a record.
func (r *round) hinted(t *testing.T, p pair, method layout.Method, items []string, total *again) *plan.Probe {
	t.Helper()
	g := r.gen
	for _, param := range g.Params {
		if g.IntN(2) == 0 {
			items = append(items, param.Name)
		}
	}
	if g.IntN(4) == 0 {
		items = append(items, "+"+g.Int(2))
	}
	if g.IntN(4) == 0 { // one record for each call
		items = append(items, "return == return")
	}
	for {
		recorded := r.resolve(t, p.fn, method, items)
		if recorded == nil {
			return nil
		}
		_, err := requery.New(&plan.Plan{Probes: []*plan.Probe{recorded}}, r.view, requery.Question{Specs: []*expr.Spec{p.asked.Spec}, Arch: runtime.GOARCH})
		if err == nil {
			return recorded
		}
		var faults *expr.ErrorList
		if !errors.As(err, &faults) {
			t.Fatal(err)
		}
		had := len(items)
		for _, e := range faults.Errors {
			m := hint.FindStringSubmatch(e.Hint)
			if m == nil { // what was asked for was recorded as it is at return
				return nil
			}
			if i := slices.Index(items, m[1]); i >= 0 && i < had {
				t.Fatalf("%s\nhas what the hint says:\n%v", recorded.Spec.Text, err)
			} else if i < 0 {
				items = append(items, m[1])
				total.hints++
			}
		}
	}
}

func recorded(p pair) *plan.Probe { return p.recorded }
func asked(p pair) *plan.Probe    { return p.asked }

// planOf returns the plan of one side of all pairs.
func planOf(pairs []pair, side func(pair) *plan.Probe) *plan.Plan {
	p := &plan.Plan{}
	for i, of := range pairs {
		probe := *side(of)
		probe.ID = i
		p.Probes = append(p.Probes, &probe)
	}
	return p
}

func question(pairs []pair) requery.Question {
	q := requery.Question{Arch: runtime.GOARCH}
	for _, p := range pairs {
		q.Specs = append(q.Specs, p.asked.Spec)
	}
	return q
}

// traced attaches a plan. The probes that the kernel refuses are noted.
func (r *round) traced(t *testing.T, p *plan.Plan, refused map[int]bool) *attach.Tracer {
	t.Helper()
	tracer, err := attach.Attach(p, attach.Options{
		Settings: bpf.Settings{RingSize: 1 << 20}, Code: r.target, Kernel: r.view, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("seed %d: %v", r.seed, err)
	}
	for _, f := range tracer.Failed() {
		if refused[f.Probe.ID] = true; !strings.Contains(f.Err.Error(), "512 bytes of stack") {
			t.Errorf("seed %d: %s\n%v", r.seed, f.Probe.Spec.Text, f.Err)
		}
	}
	if err := tracer.Start(); err != nil {
		t.Fatal(err)
	}
	return tracer
}

// A recordingFile is a recording in memory.
type recordingFile struct {
	bytes.Buffer
	w    *record.Writer
	size int // when it was complete
}

// read completes the recording and opens it.
func (f *recordingFile) read(t *testing.T) *record.Reader {
	t.Helper()
	if err := f.w.End(event.Losses{}); err != nil {
		t.Fatal(err)
	}
	f.size = f.Len()
	r, err := record.NewReader(&f.Buffer)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *round) recording(t *testing.T, p *plan.Plan, full bool) *recordingFile {
	t.Helper()
	var f recordingFile
	var err error
	f.w, err = record.NewWriter(&f, record.Source{Root: os.DirFS("/"), View: r.view, Arch: runtime.GOARCH, Writer: "test", Full: full}, p)
	if err != nil {
		t.Fatal(err)
	}
	return &f
}

// callPair makes calls of a pair's function. Both its records are kept of those of which the
// recording tells all.
func (r *round) callPair(t *testing.T, p *pair, wide, narrow *attach.Tracer, a *requery.Answer, file *recordingFile, total *again) (live [][]byte) {
	t.Helper()
	r.gen.Params = r.module.Funcs[p.fn].Type.(*btf.FuncProto).Params
	result := r.module.Funcs[p.fn].Type.(*btf.FuncProto).Return
	m := &exprfuzz.Machine{Before: make([]byte, memorySize), After: r.mem.Bytes, Kernel: r.mem.Addr, User: userAddr}
	faulted, ours := faultsOf(t, narrow), faultsOf(t, wide)
	for range pairCalls {
		r.gen.Fill(m, r.mem.Bytes)
		r.gen.Arguments(m)
		m.Return = r.gen.Word()
		if _, pointer := btf.UnderlyingType(result).(*btf.Pointer); pointer {
			m.Return = r.gen.Pointer64(m)
		}
		call := kmod.Call{Func: r.addrs[p.fn], Result: m.Return, Flip: r.mem.Addr + 8*r.gen.Uint64N(memorySize/8), Mask: r.gen.Word()}
		copy(call.Args[:], m.Words)
		r.caller.call(t, &call)
		had, now := records(t, wide), records(t, narrow)
		total.calls++
		before := a.Counts()
		for _, err := range a.Records(stream(had)) {
			if err != nil {
				t.Fatal(err)
			}
		}
		after, met := a.Counts(), faultsOf(t, narrow)
		unsure := after.Unsure+after.Partial > before.Unsure+before.Partial
		left := len(had) == 0 || faultsOf(t, wide) > ours // the recording does not have this call
		if n := met - faulted; !unsure && !left && n != after.Faults-before.Faults {
			t.Errorf("seed %d: %d faults of predicates, the recording tells %d\nrecorded %s\nasked %s", r.seed, n, after.Faults-before.Faults, p.recorded.Spec.Text, p.asked.Spec.Text)
		}
		faulted, ours = met, faultsOf(t, wide)
		if unsure {
			total.unsure++
			continue
		}
		total.faults += int(after.Faults - before.Faults)
		for _, raw := range had {
			if err := file.w.Append(raw); err != nil {
				t.Fatal(err)
			}
		}
		live = append(live, now...)
	}
	return live
}

// faultsOf returns how many predicates met memory that could not be read, or divided by zero.
func faultsOf(t *testing.T, tracer *attach.Tracer) uint64 {
	t.Helper()
	counts, err := tracer.Counters()
	if err != nil {
		t.Fatal(err)
	}
	return counts[bpf.Fault]
}

func stream(raw [][]byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, r := range raw {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// stamps are the times of records, which each run takes by itself.
var stamps = regexp.MustCompile(`(?m)^( *\S+ +\S+ +\d+) +\d+\.\d{6} `)

// text returns what records are printed as, without their times.
func text(t *testing.T, p *plan.Plan, view *kernel.View, records iter.Seq2[[]byte, error], join bool) string {
	t.Helper()
	var out bytes.Buffer
	v := show.Calls{Plan: p, Printer: output.NewCalls(output.Names{Symbol: symbols.Appender(view)}), Join: join}
	if err := v.Write(&out, records, nil); err != nil {
		t.Fatal(err)
	}
	return stamps.ReplaceAllString(out.String(), "$1 ")
}
