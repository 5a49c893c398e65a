// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/trace"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
	"github.com/ksnoop/ksnoop/layout"
)

// theKernel is the guest's; what has been read of it is kept for all tests.
var theKernel = sync.OnceValue(func() *kernel.View { return kernel.Open(os.DirFS("/")) })

// losses returns counters without those of sessions that were not wanted.
func losses(counts [bpf.Counters]uint64) [bpf.Counters]uint64 {
	for _, c := range []bpf.Counter{bpf.LeftFine, bpf.LeftError, bpf.LeftShort, bpf.LeftUnmet} {
		counts[c] = 0
	}
	return counts
}

// A sessionRun is a request for sessions in a guest.
type sessionRun struct {
	entry, allow, specs []string
	args                bool
	method              layout.Method // 0: as chosen
	report              bpf.SessionSettings
	settings            trace.Settings
	// during is called while the request is attached, after the work.
	during func(*attach.Tracer)
}

// sessions attaches, calls work and returns the sessions in which it resulted,
// formatted as brief has them, and the counters.
func (r sessionRun) sessions(t *testing.T, work func()) ([]string, [bpf.Counters]uint64) {
	t.Helper()
	guest.Require(t)
	parse := func(texts []string) (specs []*expr.Spec) {
		for _, text := range texts {
			spec, err := expr.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			specs = append(specs, spec)
		}
		return specs
	}
	view := theKernel()
	o := plan.Options{Arch: runtime.GOARCH}
	if r.method != layout.MethodAuto {
		o.Method = func(*plan.Probe) layout.Method { return r.method }
	}
	p, skipped, err := plan.ResolveSession(view, plan.SessionRequest{Entry: parse(r.entry), Allow: parse(r.allow), Specs: parse(r.specs), Args: r.args}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d functions, %d left out", len(p.Probes), len(skipped))
	if r.method == layout.MethodAuto {
		if p, _, err = attach.Choose(p, nil, false); err != nil {
			t.Fatal(err)
		}
	}
	if r.settings.RingSize == 0 {
		r.settings.RingSize = 4 << 20
	}
	r.settings.Report, r.settings.Fallback, r.settings.Log = r.report, true, slog.Default()
	options, err := trace.Options(t.Context(), view, p, r.settings)
	if err != nil {
		t.Fatal(err)
	}
	tracer, err := attach.Attach(p, options)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	defer tracer.Close()
	for _, f := range tracer.Failed() {
		t.Logf("not traced: %s: %v", f.Probe.Func.Name, f.Err)
	}
	if err := tracer.Start(); err != nil {
		t.Fatal(err)
	}
	work()
	if r.during != nil {
		r.during(tracer)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out []string
	d := session.Decoder{Plan: tracer.Attached(), Traced: r.report.Traced, Live: r.report.Live}
	for s, err := range d.Sessions(tracer.Records(ctx)) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, brief(view, s))
	}
	counts, err := tracer.Counters()
	if err != nil {
		t.Fatal(err)
	}
	return out, counts
}

// brief returns a session on one line: its functions, outermost first, each
// with what makes it notable.
func brief(view *kernel.View, s *session.Session) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s", s.Comm, s.Leader)
	if s.Failed {
		b.WriteString(" failed")
	}
	if s.State != session.Returned {
		fmt.Fprintf(&b, " state %d", s.State)
	}
	if s.Lost.Any() {
		fmt.Fprintf(&b, " lost %+v", s.Lost)
	}
	frames := func(frames []session.Frame) {
		for _, f := range frames {
			b.WriteString(" ")
			if f.Stitched {
				b.WriteString("~")
			}
			b.WriteString(f.Func.Func.Name)
			if f.Finished {
				fmt.Fprintf(&b, "=%d", int32(f.Result))
			}
			for _, a := range f.Values.Args {
				fmt.Fprintf(&b, " %s:%x", a.Param.Name, a.Value)
				if a.Text {
					fmt.Fprintf(&b, "(%q)", a.Target)
				} else if a.Target != nil {
					fmt.Fprintf(&b, "(%d)", len(a.Target))
				}
			}
			if e := f.Values.Event; e != nil {
				fmt.Fprintf(&b, " {%x %x}", e.Faults, e.Data)
			}
		}
	}
	frames(s.Chain.Frames)
	for _, c := range s.Interim {
		b.WriteString(" | interim")
		frames(c.Frames)
	}
	if len(s.Chain.Stack) > 0 {
		b.WriteString(" |")
		for _, addr := range s.Chain.Stack {
			b.WriteString(" ")
			b.Write(symbols.Appender(view)(nil, addr))
		}
	}
	for i, step := range s.Trace {
		if i == 0 {
			b.WriteString(" |")
		}
		fmt.Fprintf(&b, " %d%s", step.Depth, [...]string{">", "<", "=", "*", "?"}[step.Kind])
		if step.Func != nil {
			b.WriteString(step.Func.Func.Name)
		}
	}
	return b.String()
}

func workload(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("workload", args...).CombinedOutput()
	t.Logf("workload %q: %v\n%s", args, err, out)
}

// anyMethod are the methods that both guests have.
var anyMethod = []layout.Method{layout.MethodFentry, layout.MethodKprobe}

// onlyEngine are the cases that do not depend on how the kernel is hooked.
var onlyEngine = map[string]bool{"live": true, "predicate that does not": true, "predicate on the return that does not hold": true,
	"error that is wanted": true, "error that is not wanted": true, "arguments traced": true, "arguments and values traced": true, "values traced": true}

// leftBy says why the session of a case is not reported.
var leftBy = map[string]bpf.Counter{"predicate on the return that does not hold": bpf.LeftUnmet, "error that is not wanted": bpf.LeftError}

func TestLiveEngine(t *testing.T) {
	guest.Require(t)
	runs := 0
	const chain = "workload/workload failed " + sys + "bpf=-22 __sys_bpf=-22 array_map_alloc_check=-22 |"
	for _, c := range []struct {
		name string
		run  sessionRun
		work []string
		want []string // what each session must contain
	}{
		{"chain", sessionRun{entry: []string{sys + "bpf"}, allow: []string{"__sys_bpf", "array_map_alloc_check"}},
			[]string{"map-array-zero"}, []string{chain}},
		{"success", sessionRun{entry: []string{sys + "bpf"}, allow: []string{"array_map_alloc_check"}, report: bpf.SessionSettings{Success: true}},
			[]string{"map-ok"}, []string{"workload/workload " + sys + "bpf=3 array_map_alloc_check=0 |"}},
		{"trace", sessionRun{entry: []string{sys + "bpf"}, allow: []string{"__sys_bpf", "array_map_alloc_check"}, report: bpf.SessionSettings{Traced: true}},
			[]string{"map-array-zero"}, []string{" 0>" + sys + "bpf 1>__sys_bpf 2=array_map_alloc_check 1<__sys_bpf 0<" + sys + "bpf"}},
		{"live", sessionRun{entry: []string{sys + "bpf"}, allow: []string{"array_map_alloc_check"}, report: bpf.SessionSettings{Traced: true, Live: true}},
			[]string{"map-array-zero"}, []string{
				"state 1 | 0>" + sys + "bpf", "state 1 | 1>array_map_alloc_check", "state 1 | 1<array_map_alloc_check",
				"failed " + sys + "bpf=-22 array_map_alloc_check=-22 |"}},
		{"arguments", sessionRun{entry: []string{"__sys_bpf"}, allow: []string{"array_map_alloc_check"}, args: true},
			[]string{"map-array-zero"}, []string{`failed __sys_bpf=-22 cmd:0000000000000000`}},
		{"arguments traced", sessionRun{entry: []string{"__sys_bpf"}, allow: []string{"array_map_alloc_check"}, args: true, report: bpf.SessionSettings{Traced: true}},
			[]string{"map-array-zero"}, []string{`failed __sys_bpf=-22 cmd:0000000000000000`}},
		{"arguments and values", sessionRun{entry: []string{"__sys_bpf"}, specs: []string{"array_map_alloc_check(attr->key_size)"}, args: true},
			[]string{"map-array-key"}, []string{") {0 0300000000000000}"}},
		{"arguments and values traced", sessionRun{entry: []string{"__sys_bpf"}, specs: []string{"array_map_alloc_check(attr->key_size)"}, args: true, report: bpf.SessionSettings{Traced: true}},
			[]string{"map-array-key"}, []string{") {0 0300000000000000}"}},
		{"values", sessionRun{entry: []string{sys + "bpf"}, specs: []string{"array_map_alloc_check(attr->map_type, attr->key_size, return)"}},
			[]string{"map-array-key"}, []string{"array_map_alloc_check=-22 {0 020000000000000003000000000000"}},
		{"values traced", sessionRun{entry: []string{sys + "bpf"}, specs: []string{"array_map_alloc_check(attr->map_type, return)"}, report: bpf.SessionSettings{Traced: true}},
			[]string{"map-array-key"}, []string{"array_map_alloc_check=-22 {0 0200000000000000eaff"}},
		{"predicate that holds", sessionRun{entry: []string{sys + "bpf"}, specs: []string{"array_map_alloc_check(attr->key_size == 3)"}},
			[]string{"map-array-key"}, []string{sys + "bpf=-22 array_map_alloc_check=-22 {0 0300000000000000}"}},
		{"predicate that does not", sessionRun{entry: []string{sys + "bpf"}, specs: []string{"array_map_alloc_check(attr->key_size == 4)"}},
			[]string{"map-array-key"}, nil},
		{"predicate on the return", sessionRun{entry: []string{sys + "bpf"}, specs: []string{"array_map_alloc_check(return == -EINVAL)"}},
			[]string{"map-array-key"}, []string{sys + "bpf=-22 array_map_alloc_check=-22 {0 "}},
		{"predicate on the return that does not hold", sessionRun{entry: []string{sys + "bpf"}, specs: []string{"array_map_alloc_check(return == -EPERM)"}},
			[]string{"map-array-key"}, nil},
		{"error that is wanted", sessionRun{entry: []string{sys + "bpf"}, report: bpf.SessionSettings{Errors: errorSet(22)}},
			[]string{"map-array-key"}, []string{sys + "bpf=-22"}},
		{"error that is not wanted", sessionRun{entry: []string{sys + "bpf"}, report: bpf.SessionSettings{Errors: errorSet(1)}},
			[]string{"map-array-key"}, nil},
	} {
		methods := anyMethod
		if onlyEngine[c.name] {
			methods = methods[:1]
		}
		for _, m := range methods {
			if runs++; !livetest.Mine(t, runs) {
				continue
			}
			t.Run(c.name+"/"+m.String(), func(t *testing.T) {
				c.run.method = m
				out, counts := c.run.sessions(t, func() { workload(t, c.work...) })
				ok := len(out) == len(c.want)
				for i := range out {
					ok = ok && strings.Contains(out[i], c.want[i])
				}
				if !ok {
					t.Errorf("sessions:\n%s\nwant them to have:\n%s", strings.Join(out, "\n"), strings.Join(c.want, "\n"))
				}
				if left, ok := leftBy[c.name]; ok && counts[left] != 1 {
					t.Errorf("%d sessions left out by %d, want 1: %v", counts[left], left, counts)
				}
				if lost := losses(counts); lost != [bpf.Counters]uint64{} {
					t.Errorf("losses %v", lost)
				}
			})
		}
	}
}

// errorSet is what -x makes of errnos.
func errorSet(errnos ...int) *[64]uint64 {
	var set [64]uint64
	for _, e := range errnos {
		set[e/64] |= 1 << (e % 64)
	}
	return &set
}
