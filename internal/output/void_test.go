// SPDX-License-Identifier: Apache-2.0

package output

import (
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// TestVoid has the words of the original ksnoop for a call without arguments and
// for the return of a function that returns nothing (trace_handler: "special
// cases; function with (void) argument or void return value").
func TestVoid(t *testing.T) {
	n := []btf.FuncParam{{Name: "n", Type: typeInt}}
	const value, result = "        n = (int)5", "        return = (int)0"
	for _, c := range []struct {
		spec                   string
		result                 btf.Type
		params                 []btf.FuncParam
		entry, ret, whole      string // of the two records, and of both joined; "-": none is sent
		line, retLine, oneLine string
	}{
		{"send", &btf.Void{}, nil, "        void", "        return;", "        return;", "void", "return;", "return;"},
		{"send", &btf.Void{}, n, value, "        return;", value + ",\n\n        return;", "n = 5", "return;", "n = 5, return;"},
		{"send", typeInt, nil, "        void", result, result, "void", "return = 0", "return = 0"},
		{"send", typeInt, n, value, result, value + ",\n\n" + result, "n = 5", "return = 0", "n = 5, return = 0"},
		{"send()", &btf.Void{}, nil, "", "-", "", "", "", ""},
		{"send()", &btf.Void{}, n, "", "-", "", "", "", ""},
		{"send(n)", &btf.Void{}, n, value, "-", value, "n = 5", "", "n = 5"},
	} {
		spec, err := expr.Parse(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		f := kernel.Function{Name: "send", Type: &btf.Func{Name: "send", Type: &btf.FuncProto{Return: c.result, Params: c.params}}}
		probe, err := plan.NewProbe(kernel.Open(fstest.MapFS{}), spec, f, plan.Options{Arch: "amd64"})
		if err != nil {
			t.Fatal(err)
		}
		p := &plan.Plan{Probes: []*plan.Probe{probe}}
		decoded := func(kind bpf.Kind, data []byte) *event.Event {
			e := &event.Event{}
			head := bpf.Event{Time: 251523_617250_999, PID: 3833, TID: 3834, CPU: 1, Kind: kind, Comm: [16]byte{'p', 'i', 'n', 'g'}}
			if err := event.Decode(p, append(bpf.AppendEvent(nil, &head), data...), e); err != nil {
				t.Fatalf("%s: %v", c.spec, err)
			}
			return e
		}
		check := func(what string, call calls.Call, block, line string) {
			if block != "" {
				block += "\n\n"
			}
			got, err := NewCalls(Names{}).AppendCall(nil, &call)
			if want := head + "\n" + block + ");\n"; err != nil || string(got) != want {
				t.Errorf("%s of %v, %s: %v\n%q, want\n%q", c.spec, c.result, what, err, got, want)
			}
			got, err = NewCompactCalls(Names{}, 160).AppendCall(nil, &call)
			if want := head + line + ")\n"; err != nil || string(got) != want {
				t.Errorf("%s of %v, %s, compact: %v\n%q, want\n%q", c.spec, c.result, what, err, got, want)
			}
		}
		entry := decoded(bpf.KindEntry, data(5))
		check("entry", calls.Call{Return: entry, End: calls.Whole}, c.entry, c.line)
		if c.ret == "-" {
			if probe.Return != nil {
				t.Errorf("%s of %v has a return", c.spec, c.result)
			}
			check("call", calls.Call{Entry: entry, End: calls.Whole}, c.whole, c.oneLine)
			continue
		}
		ret := decoded(bpf.KindReturn, data(0))
		check("return", calls.Call{Return: ret, End: calls.Whole}, c.ret, c.retLine)
		check("call", calls.Call{Entry: entry, Return: ret}, c.whole, c.oneLine)
	}
}
