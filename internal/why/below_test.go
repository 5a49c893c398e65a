// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/decide"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// TestHidden: what a function calls and nobody can trace, by the code and by where pointers led to.
func TestHidden(t *testing.T) {
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	f := &fakeText{code: map[string][]byte{}, types: map[string]btf.Type{}}
	f.add("caller", integer, "traced", "untraceable_one", "*", "refused", "__x86_indirect_thunk_array")
	for _, name := range []string{"traced", "untraceable_one", "refused", "untraceable_pointed", "traced_pointed", "untraceable_elsewhere"} {
		f.add(name, integer)
	}
	g := f.graph()
	calls := g.node(f.addr("caller")).pointers
	if len(calls) != 2 || calls[0] != f.addr("caller")+11 || calls[1] != f.addr("caller")+18 { // the second one takes no kprobe that reads the register
		t.Fatalf("calls through pointers: %#x", calls)
	}
	pointed := map[uint64][]uint64{calls[0]: {f.addr("untraceable_pointed"), f.addr("traced_pointed")}, 1: {f.addr("untraceable_elsewhere")}}
	hidden, err := g.hidden(f.addr("caller"), pointed, map[uint64]bool{f.addr("refused"): true})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range hidden {
		names = append(names, n)
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "refused untraceable_one untraceable_pointed" {
		t.Error(got)
	}
}

// TestSettle: whose error it is, by the verdict on the way of the function that has called.
func TestSettle(t *testing.T) {
	const direct, pointed, strcmp, silent, call, missed = 1, 2, 3, 4, 10, 11
	known := below{calling: "caller", hidden: map[uint64]string{direct: "import_iovec", pointed: "probes_write", strcmp: "strcmp", silent: "silent"}, pointers: []uint64{call},
		pointed: map[uint64][]uint64{call: {pointed, 5}}}
	open := known
	open.pointers = []uint64{call, missed}
	single := below{calling: "caller", hidden: map[uint64]string{direct: "import_iovec", strcmp: "strcmp"}}
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	describe := func(addrs []uint64) (all []kernel.Function, err error) {
		for _, a := range addrs {
			f := kernel.Function{Name: known.hidden[a], Addr: a}
			if a != silent {
				f.Type = &btf.Func{Name: f.Name, Type: &btf.FuncProto{Return: integer}}
			}
			all = append(all, f)
		}
		return all, nil
	}
	const suspected = "caller calls functions on which the kernel lets nobody put a probe, and one of them may have refused: import_iovec or probes_write"
	for _, tt := range []struct {
		name    string
		b       below
		verdict *decide.Verdict
		told    bool
		where   string
		note    string
	}{
		{"it has made the error", known, &decide.Verdict{}, false, "in caller", ""},
		{"a function has returned it", known, &decide.Verdict{From: direct, Unsure: true}, false, "in or below import_iovec, on which the kernel lets nobody put a probe, called by caller", ""},
		{"a function that can be traced", known, &decide.Verdict{From: 5}, false, "in caller", ""},
		{"through a pointer", known, &decide.Verdict{From: call}, false, "in or below probes_write, on which the kernel lets nobody put a probe, called by caller", ""},
		{"through a pointer that was not read", open, &decide.Verdict{From: missed}, false, "in caller, or in what that calls through a pointer, which was not followed", ""},
		{"the way is not known", known, nil, false, "in caller", suspected},
		{"the way does not tell", open, &decide.Verdict{Unsure: true}, false, "in caller, or in what that calls through a pointer, which was not followed", suspected},
		{"one function may have made it", single, nil, false, "in caller", "caller calls import_iovec, on which the kernel lets nobody put a probe, and which may have refused"},
		{"something else tells", open, nil, true, "in caller", ""},
	} {
		p := Place{Chain: []Link{{Function: kernel.Function{Name: "caller"}}}, Whole: true, below: tt.b}
		p.verdict = tt.verdict
		if err := p.settle(tt.told, describe); err != nil {
			t.Fatal(err)
		}
		if got, note := p.refusal().where(), p.Suspected(); got != tt.where || note != tt.note {
			t.Errorf("%s: %s; %s", tt.name, got, note)
		}
	}
	inside := Place{Chain: []Link{{Function: kernel.Function{Name: "__x64_sys_setns"}}}, Whole: true, Inside: "__do_sys_setns", below: open}
	if err := inside.settle(false, describe); err != nil {
		t.Fatal(err)
	}
	const want = "in __do_sys_setns, on which the kernel lets nobody put a probe, or in what that calls through a pointer, which was not followed, called by __x64_sys_setns"
	if got := inside.refusal().where(); got != want {
		t.Error(got)
	}
}

// TestCollectorProbes: what the kernel has not taken was not looked at.
func TestCollectorProbes(t *testing.T) {
	probe := func(id int, name string, addr uint64, role layout.Role) *plan.Probe {
		return &plan.Probe{Probe: layout.Probe{ID: id, Name: name, Role: role}, Func: kernel.Function{Addr: addr}}
	}
	p := &plan.Plan{Probes: []*plan.Probe{probe(0, "a", 1, layout.RoleEntry), probe(1, "b", 2, layout.RoleInside), probe(2, "kprobe:a+0x1", 1, layout.RoleInjected), probe(3, "kprobe:b+0x1", 2, layout.RoleInjected)}}
	c := collector{sites: map[string]site{"kprobe:a+0x1": {call: 10}, "kprobe:b+0x1": {call: 20}}}
	recorded, looked := c.probes(p, []attach.Failure{{Probe: p.Probes[1]}, {Probe: p.Probes[3]}})
	if _, ok := looked[10]; !recorded[1] || recorded[2] || !ok || len(looked) != 1 {
		t.Errorf("%v %v", recorded, looked)
	}
}
