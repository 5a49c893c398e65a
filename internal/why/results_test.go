// SPDX-License-Identifier: Apache-2.0

package why

import (
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
)

// returning is a function that returns a type.
func returning(name string, addr uint64, t btf.Type) kernel.Function {
	return kernel.Function{Name: name, Addr: addr, Type: &btf.Func{Name: name, Type: &btf.FuncProto{Return: t}}}
}

var (
	boolean = &btf.Int{Name: "_Bool", Size: 1, Encoding: btf.Bool}
	integer = &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	pointer = &btf.Pointer{Target: &btf.Struct{Name: "pid"}}
)

// TestCalledIn: results are told of functions that have returned the same each time, in as many
// bytes as their type has.
func TestCalledIn(t *testing.T) {
	const entry = -1 // is its caller
	call := func(f kernel.Function, parent int, result uint64) session.Call {
		return session.Call{Func: &plan.Probe{Func: f}, Parent: parent, Result: result, Finished: true}
	}
	check, find, other, lost := returning("proc_ns_file", 1, boolean), returning("pidfd_pid", 2, pointer), returning("other", 3, integer), returning("lost", 4, integer)
	calls := []session.Call{
		call(returning("__x64_sys_setns", 9, integer), entry, 0xffffffffffffffea),
		call(check, 0, 0xabcdef00),
		call(find, 0, 0xfffffffffffffff7),
		call(other, 2, 7), // by pidfd_pid
		call(check, 0, 0x12300),
		call(other, 0, 1),
		call(other, 0, 2),
		call(lost, 0, 5),
		call(returning("void", 5, &btf.Void{}), 0, 3),
		call(kernel.Function{Name: "untyped", Addr: 6}, 0, 3),
	}
	calls = append(calls, session.Call{Func: calls[7].Func, Parent: 0})
	want := []code.Called{{Addr: 1, Result: 0, Size: 1, Calls: 2}, {Addr: 2, Result: 0xfffffffffffffff7, Size: 8, Calls: 1}}
	if d := cmp.Diff(want, calledIn(calls)); d != "" {
		t.Error(d)
	}
}

// TestTellingSpecs: what returns nothing, or has no type, tells nothing; nor does what prints.
func TestTellingSpecs(t *testing.T) {
	got := tellingSpecs([]kernel.Function{returning("pidfd_pid", 1, pointer), returning("fput", 2, &btf.Void{}), {Name: "check.isra.0", Addr: 3},
		returning("_printk", 4, integer), returning("capable", 5, boolean), returning("fdget", 6, &btf.Struct{Name: "fd", Size: 16})})
	if d := cmp.Diff([]string{"capable", "pidfd_pid"}, got); d != "" {
		t.Error(d)
	}
}

// TestResultTaker: results are those of the nth session, and of none if that was not seen, or if it is not known which it is.
func TestResultTaker(t *testing.T) {
	entry, check := &plan.Probe{Func: returning("__x64_sys_setns", 9, integer)}, &plan.Probe{Func: returning("check", 1, integer)}
	ended := func(result uint64) *session.Session {
		return &session.Session{State: session.Returned, Trace: []session.Step{{Func: entry, Depth: 0}, {Func: check, Depth: 1}, {Func: check, Depth: 1, Kind: session.StepExit, Result: result}, {Func: entry, Depth: 0, Kind: session.StepExit}}}
	}
	holes := ended(5)
	holes.Lost.Returns = 1
	missing, exited := &session.Session{State: session.Missing}, &session.Session{State: session.Exited}
	five := []code.Called{{Addr: 1, Result: 5, Size: 4, Calls: 1}}
	for _, tt := range []struct {
		name     string
		sessions []*session.Session
		want     []code.Called
	}{
		{"the second", []*session.Session{ended(3), exited, ended(5), ended(7)}, five},
		{"it never came", []*session.Session{ended(5)}, nil},
		{"one is missing before", []*session.Session{ended(3), missing, ended(5)}, nil},
		{"one is missing behind", []*session.Session{ended(3), ended(5), missing}, five},
		{"it has holes", []*session.Session{ended(5), holes}, nil},
	} {
		c := resultTaker{nth: 1}
		for _, s := range tt.sessions {
			c.add(s)
		}
		if d := cmp.Diff(tt.want, c.results()); d != "" {
			t.Errorf("%s: %s", tt.name, d)
		}
	}
}
