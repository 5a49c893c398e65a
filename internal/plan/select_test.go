// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/glob"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// Two files have a function of the same name, and a.c one that the compiler
// copied.
const namesakes = `ffffffff81001000 t init
ffffffff81001100 t check.isra.0
ffffffff81001200 T open_a
ffffffff81002000 t init
ffffffff81002100 T open_b
ffffffffc0001000 t open_m	[m]
`

// filesOf tells functions by their addresses, as debug info does.
func filesOf(pattern string) (func(kernel.Function) bool, error) {
	files := map[uint64]string{0xffffffff81001: "lib/a.c", 0xffffffff81002: "lib/b.c", 0xffffffffc0001: "lib/m/m.c"}
	return func(f kernel.Function) bool { return glob.Match(pattern, files[f.Addr>>12]) }, nil
}

var errNoDebugInfo = errors.New("no debug info")

func TestSelect(t *testing.T) {
	view := kernel.Open(fstest.MapFS{"proc/kallsyms": {Data: []byte(namesakes)}})
	noInfo := func(string) (func(kernel.Function) bool, error) { return nil, errNoDebugInfo }
	for _, test := range []struct {
		spec    string
		deny    string
		sources Sources
		want    string // names and pages of addresses
		fault   string
	}{
		{":lib/a.c", "", filesOf, "check.isra.0@1 init@1 open_a@1", ""},
		{":lib/b.c", "", filesOf, "init@2 open_b@2", ""},
		{":lib/?.c", "", filesOf, "check.isra.0@1 init@1 init@2 open_a@1 open_b@2", ""},
		{":lib/*", "open*", filesOf, "check.isra.0@1 init@1 init@2", ""},
		{"init", ":lib/a.c", filesOf, "init@2", ""},
		{"open_*", ":lib/m/*", filesOf, "open_a@1 open_b@2", ""},
		{":lib/c.c", "", filesOf, "", "no function that can be traced is defined in lib/c.c"},
		{":lib/a.c", ":lib/*.c", filesOf, "", "all 3 functions that match are denied"},
		{":lib/a.c", "", nil, "", "looking for :lib/a.c: only the debug info"},
		{":lib/a.c", "", noInfo, "", "looking for :lib/a.c: no debug info"},
		{"init", ":lib/a.c", noInfo, "", "leaving out :lib/a.c: no debug info"},
		{"init", ":lib/a.c", nil, "", "leaving out :lib/a.c: only the debug info"},
	} {
		o := Options{Sources: test.sources}
		if test.deny != "" {
			o.Deny = []expr.Selector{parse(t, test.deny).Selector}
		}
		funcs, err := Select(view, parse(t, test.spec), o)
		var got []string
		for _, f := range funcs {
			got = append(got, f.Name+"@"+string(rune('0'+f.Addr>>12&15)))
		}
		name := test.spec + " without " + test.deny
		if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if test.fault == "" && err != nil || test.fault != "" && (err == nil || !strings.Contains(err.Error(), test.fault)) {
			t.Errorf("%s: %v, want %q", name, err, test.fault)
		}
	}
}

func parse(t *testing.T, text string) *expr.Spec {
	t.Helper()
	spec, err := expr.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// TestEndless: functions that the kernel calls on the way out of each trampoline get none.
func TestEndless(t *testing.T) {
	proto := &btf.FuncProto{Return: &btf.Void{}}
	for name, want := range map[string]bool{"rcu_read_unlock_special": true, "rcu_preempt_deferred_qs_irqrestore": true, "rcu_read_unlock_strict": false, "vfs_read": false} {
		f := kernel.Function{Name: name, Type: &btf.Func{Name: name, Type: proto}}
		p := &Probe{Func: f}
		if endless(f) != want || p.fentryPossible() == want || p.TracingMultiPossible() == want || want && !UsedByTracing(f) {
			t.Errorf("%s: endless %t, fentry %t, used %t", name, endless(f), p.fentryPossible(), UsedByTracing(f))
		}
	}
}
