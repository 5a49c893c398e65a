// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// chosenPlan is a plan of n functions `int f(long count)`, or of one that no
// trampoline takes if its name is wide: it has 13 parameters.
func chosenPlan(t *testing.T, n int, items string, wide bool, more ...string) *plan.Plan {
	t.Helper()
	long := &btf.Int{Name: "long int", Size: 8, Encoding: btf.Signed}
	var types []btf.Type
	var specs []*expr.Spec
	add := func(text string) {
		spec, err := expr.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		specs = append(specs, spec)
	}
	for i := range n {
		name := fmt.Sprintf("f%d", i)
		params := []btf.FuncParam{{Name: "count", Type: long}}
		for j := 1; j < 13 && wide && i == 0; j++ {
			params = append(params, btf.FuncParam{Name: fmt.Sprintf("p%d", j), Type: long})
		}
		types = append(types, &btf.Func{Name: name, Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: long, Params: params}})
		add(name + items)
	}
	for _, text := range more {
		add(text)
	}
	b, err := btf.NewBuilder(types, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	view, err := kernel.OpenBTF(bytes.NewReader(raw), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := plan.Resolve(view, specs, plan.Options{Arch: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestChoose has what docs/attaching.md says under "What auto takes", for each
// generation of kernels (that file, too, says since when each has what). An
// instruction is among the probes: it does not count, and stays as it is.
func TestChoose(t *testing.T) {
	generations := map[string][]Capability{
		"none":   nil, // 6.1 of Debian, built without FPROBE
		"5.18":   {CapKprobeMulti, CapKretprobeMulti},
		"6.10":   {CapKprobeMulti, CapKretprobeMulti, CapKprobeSession},
		"6.14":   {CapKprobeMulti}, // returns have no stack pointer
		"7.0":    {CapKprobeMulti, CapKretprobeMulti, CapKprobeSession, CapFsession},
		"7.0arm": {CapFsession}, // without FPROBE
		"7.3":    {CapKprobeMulti, CapKretprobeMulti, CapKprobeSession, CapFsession, CapTracingMulti},
		"7.3bad": {CapFsession, CapTracingMulti},
	}
	const kept, entry = "($duration, return < 0)", "(count)"
	for _, tt := range []struct {
		what     string
		n        int
		items    string
		wide     bool // the first function
		branches bool
		want     map[string]string // by generation: the method of the first function and, if it differs, of the others
	}{
		{"few, of which something is kept", 16, kept, false, false, map[string]string{
			"none": "fentry", "5.18": "fentry", "6.10": "fentry", "6.14": "fentry", "7.0": "fsession", "7.0arm": "fsession", "7.3": "fsession", "7.3bad": "fsession"}},
		{"few, of which nothing is kept", 16, entry, false, false, map[string]string{
			"none": "fentry", "5.18": "fentry", "6.10": "fentry", "6.14": "fentry", "7.0": "fentry", "7.0arm": "fentry", "7.3": "fentry", "7.3bad": "fentry"}},
		{"few, with branches", 2, kept, false, true, map[string]string{
			"none": "fentry", "5.18": "fentry", "6.10": "fentry", "6.14": "fentry", "7.0": "fentry", "7.0arm": "fentry", "7.3": "fentry", "7.3bad": "fentry"}},
		{"few, one without a trampoline", 2, kept, true, false, map[string]string{
			"none": "kprobe fentry", "5.18": "kprobe fentry", "6.10": "kprobe fentry", "6.14": "kprobe fentry", "7.0": "kprobe fsession", "7.0arm": "kprobe fsession",
			"7.3": "kprobe fsession", "7.3bad": "kprobe fsession"}},
		{"many", 17, kept, false, false, map[string]string{
			"none": "kprobe", "5.18": "multi", "6.10": "session", "6.14": "kprobe", "7.0": "session", "7.0arm": "kprobe", "7.3": "tracing_multi", "7.3bad": "tracing_multi"}},
		{"many, of which nothing is kept", 17, entry, false, false, map[string]string{
			"none": "kprobe", "5.18": "multi", "6.10": "session", "6.14": "multi", "7.0": "session", "7.0arm": "kprobe", "7.3": "tracing_multi", "7.3bad": "tracing_multi"}},
		{"many, with branches", 17, kept, false, true, map[string]string{
			"none": "kprobe", "5.18": "multi", "6.10": "session", "6.14": "kprobe", "7.0": "session", "7.0arm": "kprobe", "7.3": "tracing_multi", "7.3bad": "tracing_multi"}},
		{"many, one without a trampoline", 17, kept, true, false, map[string]string{
			"none": "kprobe", "5.18": "multi", "6.10": "session", "6.14": "kprobe", "7.0": "session", "7.0arm": "kprobe", "7.3": "session tracing_multi",
			"7.3bad": "kprobe tracing_multi"}},
	} {
		got := map[string]string{}
		for generation, has := range generations {
			p := chosenPlan(t, tt.n, tt.items, tt.wide, "kprobe:f0+0x4")
			lacking := map[string]bool{}
			p, c, err := choose(p, tt.branches, func(c Capability) error {
				if slices.Contains(has, c) {
					return nil
				}
				lacking[c.String()] = true
				return fmt.Errorf("%s: %w", c, ebpf.ErrNotSupported)
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Passed) != len(lacking) {
				t.Errorf("%s, %s: told %q, lacking %v", tt.what, generation, c.Passed, lacking)
			}
			var methods []string
			for i, probe := range p.Probes {
				switch {
				case !probe.IsCall():
					if probe.Method != layout.MethodKprobe {
						t.Errorf("%s, %s: %s for an instruction", tt.what, generation, probe.Method)
					}
				case i == 0 || i == 1 && probe.Method != p.Probes[0].Method:
					methods = append(methods, probe.Method.String())
				case probe.Method != p.Probes[1].Method && i > 1:
					t.Errorf("%s, %s: %s for %s", tt.what, generation, probe.Method, probe.Name)
				}
			}
			got[generation] = strings.Join(methods, " ")
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.what, d)
		}
	}
}

// TestChooseForTracing: a function that tracing itself calls gets no trampoline, where there
// are few and where there are many.
func TestChooseForTracing(t *testing.T) {
	for _, c := range []struct {
		n    int
		has  []Capability
		want string
	}{
		{2, nil, "kprobe fentry"}, {2, []Capability{CapKprobeMulti, CapKprobeSession, CapFsession}, "session fsession"},
		{17, []Capability{CapKprobeMulti, CapKprobeSession, CapTracingMulti}, "session tracing_multi"},
	} {
		p := chosenPlan(t, c.n, "($duration, return < 0)", false)
		p.Probes[0].Func.Name = "_raw_spin_lock_irqsave"
		p, _, err := choose(p, false, func(needs Capability) error {
			if slices.Contains(c.has, needs) {
				return nil
			}
			return ebpf.ErrNotSupported
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Probes[0].Method.String() + " " + p.Probes[1].Method.String(); got != c.want {
			t.Errorf("%d functions, %v: %s, want %s", c.n, c.has, got, c.want)
		}
	}
}
