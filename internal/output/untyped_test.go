// SPDX-License-Identifier: Apache-2.0

package output

import (
	"encoding/binary"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/layout"
)

// untyped is a function of which there are no types, in a session that captures
// all arguments.
func untyped(t *testing.T) *plan.Probe {
	t.Helper()
	p, err := plan.Restore(nil, []plan.Recorded{{Func: kernel.Function{Name: "untyped"}, Role: layout.RoleInside, Method: layout.MethodKprobe}}, true, true, plan.Options{Arch: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	return p.Probes[0]
}

// What a register holds that may be an int, a long or anything else: MAX_ERRNO
// is 4095 (linux/err.h), and an int leaves the upper half of the register 0.
func TestUntypedResult(t *testing.T) {
	f := untyped(t)
	for v, want := range map[uint64]string{
		0xfffffffe: "-ENOENT", 1<<64 - 2: "-ENOENT", 0xffffffea: "-EINVAL", 1<<64 - 524: "-ENOTSUPP",
		0: "0", 2: "2", 0x1fffffffe: "0x1fffffffe", 0x7fffffff: "0x7fffffff", 0xfffffff0_fffffffe: "0xfffffff0fffffffe",
		1<<32 - 4096: "0xfffff000", 1<<64 - 4096: "0xfffffffffffff000", 0xffff888100001000: "0xffff888100001000",
	} {
		if got := string(appendResult(nil, f, v)); got != "["+want+"]" {
			t.Errorf("%#x: %s, want [%s]", v, got, want)
		}
	}
}

func TestUntypedArguments(t *testing.T) {
	f := untyped(t)
	words := []uint64{1, 0xffff888100001000, 0, 0xfffffffe, 5, 6}
	var v session.Values
	for i := range f.Args {
		v.Args = append(v.Args, session.Arg{Param: f.Args[i].Param, Value: binary.LittleEndian.AppendUint64(nil, words[i])})
	}
	got, err := newValuePrinter(&SessionOptions{Args: ArgsCompact}).append(nil, &v, wholeCall)
	if want := "arg1=1 arg2=0xffff888100001000 arg3=0 arg4=0xfffffffe arg5=5 arg6=6"; err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

func TestUntypedCalls(t *testing.T) {
	spec, err := expr.Parse("untyped(return)")
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.NewProbe(kernel.Open(fstest.MapFS{}), spec, kernel.Function{Name: "untyped"}, plan.Options{Arch: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	for v, want := range map[uint64][2]string{
		0xfffffffe: {"(long unsigned int)4294967294 /* -ENOENT */", "-ENOENT"},
		1<<64 - 2:  {"(long unsigned int)18446744073709551614 /* -ENOENT */", "-ENOENT"},
		7:          {"(long unsigned int)7", "7"},
	} {
		var ev event.Event
		if err := event.Decode(&plan.Plan{Probes: []*plan.Probe{p}}, append(bpf.AppendEvent(nil, &bpf.Event{Kind: bpf.KindReturn}), data(v)...), &ev); err != nil {
			t.Fatal(err)
		}
		for i, printer := range []*Calls{NewCalls(Names{}), NewCompactCalls(Names{}, 160)} {
			got, err := printer.AppendCall(nil, &calls.Call{Entry: &ev, End: calls.Whole})
			if _, value, _ := strings.Cut(string(got), "return = "); err != nil || strings.TrimRight(value, "\n);") != want[i] {
				t.Errorf("%#x: %q, %v, want %s", v, got, err, want[i])
			}
		}
	}
}
