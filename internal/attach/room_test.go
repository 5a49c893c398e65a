// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// planned resolves SPECs, which are attached by one method, without values called count.
func planned(t *testing.T, k *fakeKernel, n int, m layout.Method, texts ...string) (*plan.Plan, Options) {
	t.Helper()
	view := k.view(n)
	var specs []*expr.Spec
	for _, text := range texts {
		spec, err := expr.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		specs = append(specs, spec)
	}
	p, _, err := plan.Resolve(view, specs, plan.Options{Arch: "amd64", Redact: []string{"count"}, Method: func(*plan.Probe) layout.Method { return m }})
	if err != nil {
		t.Fatal(err)
	}
	kfuncs := func() codegen.Kfuncs { return codegen.Kfuncs{IsReturn: 101, Cookie: 102, Cast: 103} }
	return p, Options{Settings: bpf.Settings{RingSize: 4096}, Code: codegen.Options{Arch: "amd64", Kfuncs: kfuncs}, Kernel: view, Log: slog.New(slog.DiscardHandler), Fallback: true}
}

// TestFallbackOfOthers: by a kprobe `return == count` would keep what is redacted, and is refused. A probe that the kernel takes by
// fentry does not need one, whatever becomes of another.
func TestFallbackOfOthers(t *testing.T) {
	for _, c := range []struct {
		redacted trait // of the function whose parameter is redacted
		failed   string
	}{{0, ""}, {full, "f1"}} {
		k := newFake(t)
		k.traits["f0"], k.traits["f1"] = full, c.redacted
		p, o := planned(t, k, 3, layout.MethodFentry, "f0(return == $tid)", "f1(return == count)", "f2(return)")
		tracer, err := attachTo(k, p, o)
		if err != nil {
			t.Errorf("%v: %v", c.redacted, err)
			continue
		}
		var failed []string
		for _, f := range tracer.Failed() {
			failed = append(failed, f.Probe.Func.Name)
			if !strings.Contains(f.Err.Error(), "redacted") {
				t.Errorf("%s: %v", f.Probe.Name, f.Err)
			}
		}
		if got := strings.Join(failed, " "); got != c.failed {
			t.Errorf("not attached are %q, want %q", got, c.failed)
		}
		if m := tracer.Attached().Probes[0].Method; m != layout.MethodKprobe {
			t.Errorf("f0 is attached by %s", m)
		}
		if err := tracer.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestNamesakesBeforeKernel: where a module lies before the kernel, as on arm64, a function of it that
// has a namesake there is hooked by its address. By the name the kernel takes the first.
func TestNamesakesBeforeKernel(t *testing.T) {
	k := newFake(t)
	p, o := planned(t, k, 20, layout.MethodKprobe, "f*()")
	const before = fakeBase - 1<<20
	for i, probe := range p.Probes {
		changed := *probe
		if i == 3 {
			changed.Func.Module, changed.Func.Addr, changed.Func.Namesakes = "mod", before, true
		}
		p.Probes[i] = &changed
	}
	tracer, err := attachTo(k, p, o)
	if err != nil || len(tracer.Failed()) != 0 {
		t.Fatal(err, tracer.Failed())
	}
	defer tracer.Close()
	hooks := strings.Join(k.hooks(), "\n")
	if !strings.Contains(hooks, "at 0x") || !strings.Contains(hooks, "program of ") {
		t.Errorf("hooked are:\n%s", hooks)
	}
}
