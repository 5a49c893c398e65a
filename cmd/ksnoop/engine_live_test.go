// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// A sessionRun is a request for sessions in a guest.
type sessionRun struct {
	entry, allow, specs []string
	args                bool
	method              plan.Method // 0: as chosen
	report              bpf.SessionSettings
	settings            bpf.Settings
}

// sessions attaches, calls work and returns the sessions in which it resulted,
// formatted as brief has them, and the counters.
func (r sessionRun) sessions(t *testing.T, work func()) ([]string, [bpf.Counters]uint64) {
	t.Helper()
	guest.Require(t)
	parse := func(texts []string) []*expr.Spec {
		specs, err := parseSpecs(texts)
		if err != nil {
			t.Fatal(err)
		}
		return specs
	}
	view := kernel.Open(os.DirFS("/"))
	o := plan.Options{Arch: hostArch}
	if r.method != plan.MethodAuto {
		o.Method = func(*plan.Probe) plan.Method { return r.method }
	}
	p, skipped, err := plan.ResolveSession(view, plan.SessionRequest{Entry: parse(r.entry), Allow: parse(r.allow), Specs: parse(r.specs), Args: r.args}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d functions, %d left out", len(p.Functions), len(skipped))
	if r.method == plan.MethodAuto {
		if err := attach.Choose(p.Plan); err != nil {
			t.Fatal(err)
		}
	}
	if r.settings.RingSize == 0 {
		r.settings.RingSize = 4 << 20
	}
	options, err := attach.SessionOptions(p, attach.Options{Settings: r.settings, Kernel: view, Fallback: true, Log: slog.Default(),
		Target: codegen.Target{Arch: hostArch, TypeID: typeIDs(t.Context(), view)}}, r.report)
	if err != nil {
		t.Fatal(err)
	}
	tracer, err := attach.Attach(p.Plan, options)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	defer tracer.Close()
	for _, f := range tracer.Failed() {
		t.Logf("not traced: %s: %v", f.Probe.Func.Name, f.Err)
	}
	work()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out []string
	d := session.Decoder{Plan: p, Traced: r.report.Traced, Live: r.report.Live}
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
			b.Write(appendSymbol(nil, view, addr))
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

func TestLiveEngine(t *testing.T) {
	guest.Require(t)
	for _, m := range []plan.Method{plan.MethodFentry, plan.MethodKprobe} {
		t.Run(m.String(), func(t *testing.T) {
			r := sessionRun{entry: []string{"*sys_bpf"}, allow: []string{"array_map_alloc*"}, method: m}
			out, counts := r.sessions(t, func() { workload(t, "map-array-zero") })
			const want = "workload/workload failed __x64_sys_bpf=-22 __sys_bpf=-22 array_map_alloc_check=-22 |"
			if len(out) != 1 || !strings.HasPrefix(out[0], want) {
				t.Errorf("%q, want one session that begins with %q", out, want)
			}
			if counts != [bpf.Counters]uint64{} {
				t.Errorf("losses %v", counts)
			}
		})
	}
}
