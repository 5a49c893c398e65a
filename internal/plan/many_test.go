// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/livetest"
)

// manyView has as many functions as a kernel, f0, f1 and so on.
func manyView(t testing.TB) (view *kernel.View, names []string) {
	proto := &btf.FuncProto{Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}}
	var types []btf.Type
	for i := range 30_000 {
		names = append(names, fmt.Sprintf("f%d", i))
		types = append(types, &btf.Func{Name: names[i], Type: proto, Linkage: btf.StaticFunc})
	}
	return viewOf(t, types...), names
}

// TestManyNames: a list may name each function of a kernel, as what to trace and as what
// to leave out, and may have the same names and globs again and again. None of it takes more
// than some passes over the functions.
func TestManyNames(t *testing.T) {
	view, names := manyView(t)
	list := func(names []string) (specs []*expr.Spec) {
		for _, name := range names {
			specs = append(specs, parse(t, name))
		}
		return specs
	}
	selectors := func(names []string) (s []expr.Selector) {
		for _, spec := range list(names) {
			s = append(s, spec.Selector)
		}
		return s
	}
	same := strings.Split(strings.Repeat(" f1", 25_000), " ")[1:]
	globs := strings.Split(strings.Repeat(" *", 100), " ")[1:]
	var stars []string
	for i := range 4 {
		stars = append(stars, "f"+strings.Repeat("*", i+1))
	}
	entry := list([]string{"f0"})
	session := func(r SessionRequest) func() (int, error) {
		return func() (int, error) {
			s, _, err := ResolveSession(view, r, Options{Arch: "amd64"})
			if err != nil {
				return 0, err
			}
			return len(s.Probes), nil
		}
	}
	calls := func(specs []*expr.Spec, deny []expr.Selector) func() (int, error) {
		return func() (int, error) {
			p, _, err := Resolve(view, specs, Options{Arch: "amd64", Deny: deny})
			if err != nil {
				return 0, err
			}
			return len(p.Probes), nil
		}
	}
	for _, c := range []struct {
		name string
		run  func() (int, error)
		want int // functions; 0: refused
	}{
		{"calls of all names", calls(list(names), nil), len(names)},
		{"calls of all names but all", calls(list(names[:10_000]), selectors(names[1:])), 0},
		{"calls of a glob but all names", calls(list([]string{"*"}), selectors(names[1:])), 1},
		{"calls of too many globs", calls(list(globs), nil), 0},
		{"sessions of all names", session(SessionRequest{Entry: entry, Allow: list(names)}), len(names)},
		{"sessions without all names", session(SessionRequest{Entry: entry, Allow: list([]string{"*"}), Deny: selectors(names[1:])}), 1},
		{"sessions of one name", session(SessionRequest{Entry: entry, Allow: list(same)}), 2},
		{"sessions of one glob", session(SessionRequest{Entry: entry, Allow: list(globs)}), len(names)},
		{"sessions of many globs", session(SessionRequest{Entry: entry, Allow: list(stars)}), len(names)},
	} {
		begun := livetest.CPUTime(t)
		got, err := c.run()
		if took := livetest.CPUTime(t) - begun; took > 10*time.Second {
			t.Errorf("%s: it took %v", c.name, took)
		}
		if got != c.want || (err != nil) != (c.want == 0) {
			t.Errorf("%s: %d functions, want %d; %.200v", c.name, got, c.want, err)
		}
	}
}

// TestSpared: of very many functions a glob leaves out those that tracing itself calls. A smaller one
// does not, nor does a SPEC that has the name.
func TestSpared(t *testing.T) {
	proto := &btf.FuncProto{Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}}
	types := []btf.Type{&btf.Func{Name: "bpf_ringbuf_reserve", Type: proto, Linkage: btf.StaticFunc}, &btf.Func{Name: "irq_enter", Type: proto, Linkage: btf.StaticFunc}}
	for i := range Many {
		types = append(types, &btf.Func{Name: fmt.Sprintf("f%d", i), Type: proto, Linkage: btf.StaticFunc})
	}
	view := viewOf(t, types...)
	for _, c := range []struct {
		specs   []string
		probes  int
		skipped string
	}{
		{[]string{"*"}, Many, "bpf_ringbuf_reserve irq_enter"},
		{[]string{"*", "irq_enter"}, Many + 1, "bpf_ringbuf_reserve irq_enter"},
		{[]string{"f*"}, Many, ""},
		{[]string{"f1*", "*r*"}, 1111 + 2, ""},
	} {
		var specs []*expr.Spec
		for _, s := range c.specs {
			specs = append(specs, parse(t, s))
		}
		p, skipped, err := Resolve(view, specs, Options{Arch: "amd64"})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range skipped {
			if s.Why != errUsedByTracing {
				t.Errorf("%v: %v", c.specs, s.Why)
			}
			names = append(names, s.Func.Name)
		}
		if got := strings.Join(names, " "); len(p.Probes) != c.probes || got != c.skipped {
			t.Errorf("%v: %d functions without %q, want %d without %q", c.specs, len(p.Probes), got, c.probes, c.skipped)
		}
		for i, probe := range p.Probes {
			if probe.ID != i {
				t.Fatalf("%v: probe %d has number %d", c.specs, i, probe.ID)
			}
		}
	}
}
