// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/layout"
)

// Without parentheses both ends of a call are sent, as by the original ksnoop: "we
// want to record function entry/return with no arguments or return values; in
// those cases trace data length is 0 but we want the entry/return events to be
// sent regardless". With them that is sent which is asked for.
func TestEverything(t *testing.T) {
	view := testView(t)
	long := &btf.Int{Name: "long int", Size: 8, Encoding: btf.Signed}
	n := []btf.FuncParam{{Name: "n", Type: long}}
	for _, tt := range []struct {
		spec   string
		result btf.Type
		params []btf.FuncParam
		want   string
	}{
		{"f", &btf.Void{}, n, " | 0=n; send | send"},
		{"f", &btf.Void{}, nil, " | send | send"},
		{"f", long, nil, " | send | 0=return; send"},
		{"f", long, n, " | 0=n; send | 0=return; send"},
		{"f()", &btf.Void{}, n, " | send | -"},
		{"f()", long, nil, " | send | -"},
		{"f(n)", &btf.Void{}, n, " | 0=n; send | -"},
		{"f(return)", long, nil, " | - | 0=return; send"},
		{"do_exit", &btf.Void{}, n, " | 0=n; send | -"}, // does not return
		{"syscall:f", &btf.Void{}, nil, " | send | 0=return; send"},
	} {
		spec, err := expr.Parse(tt.spec)
		if err != nil {
			t.Fatal(err)
		}
		name := spec.Selector.Name
		f := kernel.Function{Name: name, Type: &btf.Func{Name: name, Type: &btf.FuncProto{Return: tt.result, Params: tt.params}}}
		target := Hook{Kind: spec.Selector.Kind, Name: name, Fields: []kernel.Field{}}
		for _, m := range []layout.Method{layout.MethodFentry, layout.MethodKprobe, layout.MethodKprobeMulti, layout.MethodKprobeSession, layout.MethodFsession, layout.MethodTracingMulti} {
			for _, paired := range []bool{false, true} {
				p, err := newProbeOn(view, spec, f, target, Options{Arch: "amd64", Paired: paired, Method: func(*Probe) layout.Method { return m }})
				if err != nil {
					t.Fatal(err)
				}
				want := tt.want
				if paired && strings.Count(want, "send") == 2 {
					want = "stashed" + want
				}
				if got := describe(p); got != want {
					t.Errorf("%s of %v by %s, paired: %v:\n got %s\nwant %s", tt.spec, f.Type.Type, m, paired, got, want)
				}
			}
		}
	}
}
