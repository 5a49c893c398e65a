// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
	"github.com/ksnoop/ksnoop/layout"
)

// BenchmarkLiveAttach attaches all functions that a glob names, with all their
// arguments and results, and detaches them. With an instruction clock the
// seconds are those of a CPU that executes one instruction in a nanosecond.
func BenchmarkLiveAttach(b *testing.B) {
	guest.Require(b)
	for _, c := range []struct {
		method layout.Method
		needs  Capability
		glob   string
	}{
		{layout.MethodKprobeSession, CapKprobeSession, "*bpf*"},
		{layout.MethodKprobeMulti, CapKprobeMulti, "*bpf*"},
		{layout.MethodTracingMulti, CapTracingMulti, "*bpf*"},
		{layout.MethodKprobe, CapKretprobe, "bpf_prog_*"},
		{layout.MethodFentry, CapFexit, "bpf_prog_a*"},
	} {
		if err := c.needs.Probe(); err != nil {
			b.Logf("not %s: %v", c.method, err)
			continue
		}
		b.Run(c.method.String(), func(b *testing.B) { benchmarkAttach(b, c.method, c.glob) })
	}
}

// hooking is a slog.Handler that sums up how long functions took to be hooked,
// without making and loading the programs.
type hooking struct {
	slog.Handler
	seconds *float64
}

func (hooking) Enabled(context.Context, slog.Level) bool { return true }

func (h hooking) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "took" {
			*h.seconds += a.Value.Duration().Seconds()
		}
		return true
	})
	return nil
}

// resolved is a plan of one SPEC for the kernel that runs, and what it is attached with.
func resolved(tb testing.TB, text string, m layout.Method) (*plan.Plan, Options) {
	tb.Helper()
	view := kernel.Open(os.DirFS("/"))
	spec, err := expr.Parse(text)
	if err != nil {
		tb.Fatal(err)
	}
	types, err := view.BTF()
	if err != nil {
		tb.Fatal(err)
	}
	kfuncs := codegen.FindKfuncs(types)
	target := codegen.Options{Arch: runtime.GOARCH, Kfuncs: func() codegen.Kfuncs { return kfuncs }}
	p, _, err := plan.Resolve(view, []*expr.Spec{spec}, plan.Options{Arch: runtime.GOARCH, Method: func(*plan.Probe) layout.Method { return m }})
	if err != nil {
		tb.Fatal(err)
	}
	return p, Options{Settings: bpf.Settings{RingSize: 1 << 20}, Code: target, Kernel: view, Log: slog.New(slog.DiscardHandler)}
}

func benchmarkAttach(b *testing.B, m layout.Method, glob string) {
	begin := time.Now()
	p, o := resolved(b, glob, m)
	planned := time.Now()
	var hooked float64
	o.Log = slog.New(hooking{slog.DiscardHandler, &hooked})
	t, err := Attach(p, o)
	if err != nil {
		b.Fatal(err)
	}
	attached := time.Now()
	if err := t.Detach(); err != nil {
		b.Fatal(err)
	}
	detached := time.Now()
	b.ReportMetric(float64(len(p.Probes)-len(t.Failed())), "functions")
	b.ReportMetric(planned.Sub(begin).Seconds(), "s/resolve")
	b.ReportMetric(attached.Sub(planned).Seconds(), "s/attach")
	b.ReportMetric(hooked, "s/hook")
	b.ReportMetric(detached.Sub(attached).Seconds(), "s/detach")
	b.ReportMetric(0, "ns/op")
	if err := t.Close(); err != nil {
		b.Fatal(err)
	}
}
