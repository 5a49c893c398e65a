// SPDX-License-Identifier: Apache-2.0

package exprfuzz_test

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/exprfuzz/kmod"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
	"github.com/ksnoop/ksnoop/layout"
)

// A trap is a predicate on one call, and what must come of it: a record, none,
// or none and a counted fault.
type trap struct {
	name   string
	items  string
	result btf.Type
	value  uint64 // what the function returns
	arg    uint64 // the object, 0 for the good one
	want   outcome
}

type outcome uint8

const (
	matches outcome = iota
	differs
	faults
)

// noObject is an argument that is meant to be 0.
const noObject = ^uint64(0) - 1<<62

// TestLiveTraps has the mistakes that tools of this kind have made, each as a
// predicate in a running kernel, with both methods.
func TestLiveTraps(t *testing.T) {
	guest.Require(t)
	integer := func(name string, size uint32, enc btf.IntEncoding) btf.Type {
		return &btf.Int{Name: name, Size: size, Encoding: enc}
	}
	i32, u32 := integer("int", 4, btf.Signed), integer("unsigned int", 4, 0)
	i64, u64 := integer("long int", 8, btf.Signed), integer("long unsigned int", 8, 0)
	s8, boolean := integer("signed char", 1, btf.Signed), integer("_Bool", 1, btf.Bool)
	node := &btf.Struct{Name: "trap_node", Size: 40}
	node.Members = []btf.Member{
		{Name: "flags", Type: u32}, {Name: "low", Type: u32, Offset: 32, BitfieldSize: 3}, {Name: "rest", Type: u32, Offset: 35, BitfieldSize: 7},
		{Type: &btf.Union{Size: 8, Members: []btf.Member{{Name: "big", Type: u64},
			{Type: &btf.Struct{Size: 8, Members: []btf.Member{{Name: "a", Type: u32}, {Name: "b", Type: i32, Offset: 32}}}}}}, Offset: 64},
		{Name: "next", Type: &btf.Pointer{Target: node}, Offset: 128}, {Name: "zero", Type: u32, Offset: 192}, {Name: "name", Type: &btf.Array{Type: integer("char", 1, btf.Char), Index: u32, Nelems: 8}, Offset: 256},
	}
	const minus = ^uint64(0)
	mem, err := kmod.NewMemory(memorySize)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	unmapped := mem.Addr + memorySize
	traps := []trap{
		{"negative int", "return < 0", i32, 0xffff_ffea, 0, matches},
		{"positive int under garbage", "return < 0", i32, 0xffff_ffff_0000_0001, 0, differs},
		{"errno of an int", "return == -EINVAL", i32, 0xffff_ffea, 0, matches},
		{"negative long", "return < 0", i64, minus, 0, matches},
		{"long with bit 31", "return < 0", i64, 1 << 31, 0, differs},
		{"negative s8 under garbage", "return < 0", s8, 0x1280, 0, matches},
		{"positive s8 under garbage", "return < 0", s8, 0xff7f, 0, differs},
		{"bool is never negative", "return < 0", boolean, 0xffff_ff01, 0, differs},
		{"bool under garbage", "return == 1", boolean, 0xffff_ff01, 0, matches},
		{"unsigned against negative int", "n->flags > -1", i64, 0, 0, differs},
		{"unsigned return against int", "return > -1", u32, 5, 0, differs},
		{"64-bit constant", "n->big == 0x123456789a", i64, 0, 0, matches},
		{"low half of a constant", "n->big == 0x3456789a", i64, 0, 0, differs},
		{"low half against a constant", "n->a == 0x123456789a", i64, 0, 0, differs},
		{"& binds less than ==", "(n->flags & 4 == 4) == 0", i64, 0, 0, matches},
		{"& in parentheses", "(n->flags & 4) == 4", i64, 0, 0, matches},
		{"NULL is NULL", "n == NULL", i64, 0, noObject, matches},
		{"object is not NULL", "n != NULL", i64, 0, 0, matches},
		{"member is not NULL", "n->next != NULL", i64, 0, 0, matches},
		{"&& does not read on", "n && n->flags == 4", i64, 0, noObject, differs},
		{"|| does not read on", "!n || n->flags == 4", i64, 0, noObject, matches},
		{"NULL", "n->zero == 0", i64, 0, noObject, faults},
		{"NULL is unequal to nothing", "n->zero != 1", i64, 0, noObject, faults},
		{"error pointer", "n->zero == 0", i64, 0, minus - 13, faults},
		{"user address", "n->zero == 0", i64, 0, userAddr, faults},
		{"unmapped kernel address", "n->zero == 0", i64, 0, unmapped, faults},
		{"unmapped through a member", "n->next->zero == 0", i64, 0, mem.Addr + 512, faults},
		{"zero is zero", "n->zero == 0", i64, 0, 0, matches},
		{"parameter called cpu", "cpu == 77", i64, 0, 0, matches},
		{"union in place", "n->b == 18 && n->big > n->a", i64, 0, 0, matches},
		{"bitfield alone", "n->low == 5 && n->rest == 127", i64, 0, 0, matches},
		{"narrow bitfield is an int", "n->low - 6 < 0", i64, 0, 0, matches},
		{"name", `n->name == "pin"`, i64, 0, 0, differs},
		{"whole name", `n->name == "ping"`, i64, 0, 0, matches},
		{"division by zero", "1 / n->zero == 0", i64, 0, 0, faults},
		{"stash", "return != cpu && cpu == 77", i64, 76, 0, matches},
		{"memory of entry", "return && n->flags == 4", i64, 1, 0, matches},
		{"memory of return", "exit(n->flags) == 6", i64, 0, 0, matches},
		{"both", "entry(n->flags) + 2 == exit(n->flags)", i64, 0, 0, matches},
		{"memory of return through a parameter", "exit(n)->flags == 6 && n->flags == 4", i64, 0, 0, matches},
		{"struct of return", "(*exit(n)).flags == 6 && exit((int *)n)[0] == 6", i64, 0, 0, matches},
		{"string of return", `str(exit(n)) == "\x06" && str(n) == "\x04"`, i64, 0, 0, matches},
		{"parameter of entry", "exit(n) == n && exit(cpu) == 77", i64, 0, 0, matches},
		{"NULL at return", "exit(n)->flags == 6", i64, 0, noObject, faults},
	}
	m := &kmod.Module{Name: "traps"}
	for i, tr := range traps {
		m.Funcs = append(m.Funcs, &btf.Func{Name: fmt.Sprintf("trap_%d", i), Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: tr.result,
			Params: []btf.FuncParam{{Name: "n", Type: &btf.Pointer{Target: node}}, {Name: "cpu", Type: u32}}}})
	}
	if err := m.Load(); err != nil {
		t.Fatal(err)
	}
	addrs, err := m.Addresses()
	if err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	le.PutUint32(mem.Bytes[4:], 5|127<<3|0xfffffc00)
	le.PutUint64(mem.Bytes[8:], 0x123456789a)
	le.PutUint64(mem.Bytes[16:], mem.Addr)
	copy(mem.Bytes[32:], "ping")
	le.PutUint64(mem.Bytes[512+16:], unmapped)
	c := newCaller(t, m, mem)
	view := kernel.Open(os.DirFS("/"))
	theirs, _ := theirMethods(t)
	for _, method := range theirs {
		p := &plan.Plan{}
		for i, tr := range traps {
			p.Probes = append(p.Probes, trapProbe(t, view, m, i, tr.items, method))
			p.Probes[i].ID = i
		}
		tracer, err := attach.Attach(p, attach.Options{Settings: bpf.Settings{RingSize: 1 << 16}, Code: target(t, view), Kernel: view, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range tracer.Failed() {
			t.Errorf("%s: %v", f.Probe.Spec.Text, f.Err)
		}
		if err := tracer.Start(); err != nil {
			t.Fatal(err)
		}
		for i, tr := range traps {
			t.Run(method.String()+"/"+tr.name, func(t *testing.T) {
				le.PutUint32(mem.Bytes, 4)
				call := kmod.Call{Func: addrs[i], Result: tr.value, Flip: mem.Addr, Mask: 2}
				call.Args[0], call.Args[1] = mem.Addr, 0xdead_0000_004d
				switch tr.arg {
				case 0:
				case noObject:
					call.Args[0] = 0
				default:
					call.Args[0] = tr.arg
				}
				before, err := tracer.Counters()
				if err != nil {
					t.Fatal(err)
				}
				c.call(t, &call)
				got := records(t, tracer)
				after, err := tracer.Counters()
				if err != nil {
					t.Fatal(err)
				}
				faulted := after[bpf.Fault] - before[bpf.Fault]
				is := differs
				switch {
				case len(got) > 0:
					is = matches
				case faulted > 0:
					is = faults
				}
				if is != tr.want {
					t.Errorf("%s: %d records, %d faults, want outcome %d", tr.items, len(got), faulted, tr.want)
				}
			})
		}
		if err := tracer.Close(); err != nil {
			t.Error(err)
		}
	}
}

func trapProbe(t *testing.T, view *kernel.View, m *kmod.Module, i int, items string, method layout.Method) *plan.Probe {
	t.Helper()
	found, err := view.Match(m.Funcs[i].Name, m.Name)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", m.Funcs[i].Name, found, err)
	}
	spec, err := expr.Parse(m.Funcs[i].Name + "(" + items + ")")
	if err != nil {
		t.Fatal(err)
	}
	probe, err := plan.NewProbe(view, spec, found[0], plan.Options{Arch: runtime.GOARCH, Method: func(*plan.Probe) layout.Method { return method }})
	if err != nil {
		t.Fatal(err)
	}
	return probe
}
