// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/unwind"
	"github.com/ksnoop/ksnoop/layout"
)

// kernelBase is where the test kernel's functions begin, 0x1000 apart.
const kernelBase = 0xffffffff81000000

// testKernel is a kernel whose functions are numbered.
type testKernel []symbols.Frame

var testFunctions = testKernel{{Name: "_text"}, {Name: "send"}, {Name: "caller", File: "net/a.c", Line: 10}, {Name: "inliner", File: "net/b.c", Line: 20, Column: 5},
	{Name: "bpf_prog_1", Module: "bpf"}, {Name: "bpf_trampoline_2", Module: "bpf"}, {Name: "__kretprobe_trampoline"}, {Name: "nf", Module: "nf_tables"}, {Name: "__bpf_prog_enter"},
	{Name: "bpf_trace_run2"}, {Name: "__traceiter_send"}, {Name: "perf_syscall_enter"}, {Name: "kprobe_multi_link_prog_run"}}

// place returns the address at an offset of a function.
func place(name string, offset uint64) uint64 {
	for i, f := range testFunctions {
		if f.Name == name {
			return kernelBase + uint64(i)<<12 + offset
		}
	}
	panic("no function " + name)
}

func (k testKernel) Frames(dst []symbols.Frame, addr uint64, returnAddress bool) []symbols.Frame {
	lookup := addr
	if returnAddress {
		lookup--
	}
	i := (lookup - kernelBase) >> 12
	if i >= uint64(len(k)) {
		return append(dst, symbols.Frame{Addr: addr})
	}
	f := k[i]
	f.Addr, f.Offset = addr, addr-kernelBase-i<<12
	if f.Name == "inliner" {
		dst = append(dst, symbols.Frame{Addr: addr, Name: "inlined", File: "net/c.h", Line: 3, Inlined: true})
	}
	return append(dst, f)
}

// testProcess has code from 100 on, and names no address of it.
type testProcess string

func (p testProcess) Missing() string { return string(p) }

func (p testProcess) AppendFrame(dst []byte, addr uint64, returnAddress bool) []byte {
	if addr < 100 {
		return strconv.AppendUint(append(dst, "0x"...), addr, 16)
	}
	if returnAddress {
		addr--
	}
	return strconv.AppendUint(append(dst, "u"...), addr, 10)
}

func testTails() *Tails {
	return &Tails{Kernel: testFunctions, User: func(e *bpf.Event, comm string) Process {
		if e.PID == 3833 && comm == "ping" {
			return testProcess("")
		}
		return testProcess("ended")
	}}
}

func stackSection(kind bpf.SectionKind, addrs ...uint64) bpf.Section {
	s := bpf.Section{Kind: kind}
	for _, a := range addrs {
		s.Data = append(s.Data, data(a)...)
	}
	return s
}

// printTail prints the return of send() with a tail.
func printTail(t *testing.T, tails *Tails, pid uint32, sections ...bpf.Section) string {
	t.Helper()
	p := probe(t, "send(return)")
	raw := bpf.AppendEvent(nil, &bpf.Event{Time: 251523617250000, PID: pid, CPU: 1, Kind: bpf.KindReturn, HasTail: true, Comm: [16]byte{'p', 'i', 'n', 'g'}})
	raw = append(raw, data(0)...)
	for i := range sections {
		raw = bpf.AppendSection(raw, &sections[i])
	}
	var e event.Event
	if err := event.Decode(p, raw, &e); err != nil {
		t.Fatal(err)
	}
	printer := NewCalls(Names{})
	printer.Tails = tails
	got, err := printer.AppendCall(nil, &calls.Call{Return: &e})
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// TestStackOfInlined: the first caller of a function that was inlined is the one
// that it is a part of.
func TestStackOfInlined(t *testing.T) {
	p := probe(t, "send(return)").Probes[0]
	p.Func = kernel.Function{Name: "inliner", Addr: place("inliner", 0)}
	e := event.Event{Probe: p}
	s := stackSection(bpf.SectionStack, place("inliner", 0x21), place("caller", 0x30))
	caller := s
	caller.Caller = true
	const inliner, outer = "            inliner+0x20  (net/b.c:20:5)\n", "            caller+0x30   (net/a.c:10)\n"
	for _, c := range []struct {
		name    string
		section bpf.Section
		want    string
	}{
		{"inlined", s, "        stack:\n" + inliner + outer + "\n"},
		{"inlined", caller, "        caller:\n" + inliner + "\n"},
		{"other", caller, "        caller:\n            . inlined     (net/c.h:3)\n" + inliner + "\n"},
	} {
		p.Hook = plan.Hook{Kind: expr.Instruction, Name: c.name, Offset: 0x20, Inlined: true}
		if d := cmp.Diff(c.want, string(testTails().appendStack(nil, &e, c.section))); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

// names returns the functions of frames, and their offsets.
func names(frames []symbols.Frame) string {
	var all []string
	for _, f := range frames {
		if !f.Inlined {
			all = append(all, fmt.Sprintf("%s+%#x", f.Name, f.Offset))
		}
	}
	return strings.Join(all, " ")
}

// stackOf returns what is shown of a call's stack, and of the same one as a key of a table.
func stackOf(p *plan.Probe, addrs ...uint64) (call, summed string) {
	s := stackSection(bpf.SectionStack, addrs...)
	call = names(testTails().AppendStack(nil, &event.Event{Probe: p}, s))
	return call, names(testTails().AppendSummed(nil, &summary.Table{Probes: []*plan.Probe{p}}, &summary.Stack{Addresses: addrs}))
}

// TestStackOfPoint: the stack of a tracepoint begins with the function that it is in. That has another name than the
// tracepoint, and a function that has the tracepoint's name may be what has called it.
func TestStackOfPoint(t *testing.T) {
	const want = "nf+0x40 send+0x30 caller+0x20"
	for _, c := range []struct {
		kind  expr.Kind
		above []uint64 // of tracing, as Linux 6.1, 6.12 and 7.3 have it
	}{
		{expr.Tracepoint, nil},
		{expr.Tracepoint, []uint64{place("__traceiter_send", 0x31)}},
		{expr.Tracepoint, []uint64{place("perf_syscall_enter", 0xfd)}},
		{expr.RawTracepoint, []uint64{place("bpf_prog_1", 0x5b), place("bpf_prog_1", 0x97), place("bpf_trace_run2", 0x4a)}},
		{expr.RawTracepoint, []uint64{place("bpf_prog_1", 0x97), place("bpf_trace_run2", 0x4a), place("__traceiter_send", 0x31)}},
	} {
		p := &plan.Probe{Func: kernel.Function{Name: "send"}, Hook: plan.Hook{Kind: c.kind, Name: "send"}, Probe: layout.Probe{Kind: c.kind}}
		call, summed := stackOf(p, append(c.above, place("nf", 0x40), place("send", 0x30), place("caller", 0x20))...)
		if call != want || summed != want {
			t.Errorf("%s below %x: %q, and in a table %q, want %q", c.kind, c.above, call, summed, want)
		}
	}
}

// TestStackOfTraced: the traced function is where its method has put it, or nowhere. Further out it is another call, and
// BPF programs there are those that are traced, or call what is.
func TestStackOfTraced(t *testing.T) {
	const program = "bpf_prog_1"
	tracing := []uint64{place(program, 0x40), place(program, 0x97), place("bpf_trampoline_2", 0x50)}
	again := []uint64{place("send", 0x30), place("caller", 0x20)}
	const recursive = "send+0x30 caller+0x20"
	kprobe, multi, session, fentry := layout.MethodKprobe, layout.MethodKprobeMulti, layout.MethodKprobeSession, layout.MethodFentry
	for _, c := range []struct {
		name   string
		method layout.Method
		addrs  []uint64
		want   string
	}{
		{"return", kprobe, again, recursive},
		{"return", multi, again, recursive},
		{"return", session, again, recursive},
		{"entry", kprobe, append([]uint64{place("send", 1)}, again...), recursive},
		{"trampoline that was called", fentry, slices.Concat(tracing, []uint64{place("send", 5)}, again[:1], tracing[2:], []uint64{place("send", 5)}, again[1:]), recursive},
		{"trampoline that was jumped to", fentry, slices.Concat(tracing, again[:1], tracing[2:], again[1:]), recursive},
		{"trampoline that was jumped to", layout.MethodFsession, slices.Concat(tracing, again), recursive},
		{"trampoline that was jumped to", layout.MethodTracingMulti, slices.Concat(tracing, again), recursive},
		{"called by a program", kprobe, []uint64{place(program, 0x6e), place("caller", 0x20)}, "bpf_prog_1+0x6e caller+0x20"},
		{"in which the program is", multi, append([]uint64{place(program, 0x97), place("kprobe_multi_link_prog_run", 0x90), place("__kretprobe_trampoline", 0)}, again...), recursive},
		{"in which the program is, called by another", multi, []uint64{place(program, 0x97), place("kprobe_multi_link_prog_run", 0x90), place("__kretprobe_trampoline", 0), place(program, 0x6e), place("caller", 0x20)},
			"bpf_prog_1+0x6e caller+0x20"},
		{"called by a traced program", kprobe, []uint64{place(program, 0x6e), place("bpf_trampoline_2", 0x71), place(program, 9), place("caller", 0x20)}, "bpf_prog_1+0x6e caller+0x20"},
		{"called by a program", fentry, slices.Concat(tracing, []uint64{place(program, 0x6e), place("caller", 0x20)}), "bpf_prog_1+0x6e caller+0x20"},
		{"a function of a program", fentry, slices.Concat(tracing, []uint64{place(program, 9), place(program, 0x6e), place("caller", 0x20)}), "bpf_prog_1+0x6e caller+0x20"},
		{"names of programs are hidden", fentry, []uint64{1, 2, 3, place("send", 5), place("caller", 0x20)}, "caller+0x20"},
	} {
		p := &plan.Probe{Func: kernel.Function{Name: "send"}, Probe: layout.Probe{Method: c.method}}
		call, summed := stackOf(p, c.addrs...)
		if call != c.want || summed != "send+0x0 "+c.want {
			t.Errorf("%s, %s: %q, and in a table %q, want %q", c.method, c.name, call, summed, c.want)
		}
	}
}

// TestStackOfSeveral: which of a table's functions was traced is said only if its place in the stack tells, at its begin.
func TestStackOfSeveral(t *testing.T) {
	table := summary.Table{}
	for _, name := range []string{"send", "caller"} {
		table.Probes = append(table.Probes, &plan.Probe{Func: kernel.Function{Name: name}, Probe: layout.Probe{Method: layout.MethodKprobeMulti}})
	}
	for _, c := range []struct {
		addrs []uint64
		want  string
	}{
		{[]uint64{place("caller", 0x20), place("_text", 1)}, "caller+0x20 _text+0x1"},
		{[]uint64{place("_text", 1)}, "_text+0x1"},
		{[]uint64{place("send", 5), place("caller", 0x20), place("_text", 1)}, "send+0x0 caller+0x20 _text+0x1"},
		{nil, ""},
	} {
		if got := names(testTails().AppendSummed(nil, &table, &summary.Stack{Addresses: c.addrs})); got != c.want {
			t.Errorf("%x: %q, want %q", c.addrs, got, c.want)
		}
	}
}

func TestStacks(t *testing.T) {
	const user = bpf.SectionUserStack
	cut := stackSection(bpf.SectionStack, place("send", 5), place("caller", 0x20))
	cut.Cut = true
	caller := stackSection(bpf.SectionStack, place("send", 5), place("inliner", 0x20), place("caller", 0x30))
	caller.Caller, caller.Cut = true, true
	looped, unwound := stackSection(user, 100, 2, 2, 2), stackSection(user, 100, 2)
	looped.Cut, unwound.Unwound = true, true
	for _, c := range []struct {
		name     string
		pid      uint32
		sections []bpf.Section
		want     string
	}{
		{"fentry", 3833, []bpf.Section{stackSection(bpf.SectionStack, place("bpf_prog_1", 0x40), place("bpf_trampoline_2", 0x50), place("send", 5), place("caller", 0x20), place("nf", 0x1f0))},
			"        stack:\n            caller+0x20           (net/a.c:10)\n            nf+0x1f0 [nf_tables]\n\n"},
		{"kprobe", 3833, []bpf.Section{stackSection(bpf.SectionStack, place("send", 0), place("inliner", 0x20), place("caller", 0x30))},
			"        stack:\n            . inlined     (net/c.h:3)\n            inliner+0x20  (net/b.c:20:5)\n            caller+0x30   (net/a.c:10)\n\n"},
		{"return probe", 3833, []bpf.Section{stackSection(bpf.SectionStack, place("__kretprobe_trampoline", 0), place("caller", 0x20))},
			"        stack:\n            caller+0x20  (net/a.c:10)\n\n"},
		{"recursion", 3833, []bpf.Section{stackSection(bpf.SectionStack, place("send", 5), place("caller", 0x20), place("send", 0x30), place("_text", 1))},
			"        stack:\n            caller+0x20  (net/a.c:10)\n            send+0x30\n            _text+0x1\n\n"},
		{"a call at a function's end", 3833, []bpf.Section{stackSection(bpf.SectionStack, place("send", 0), place("nf", 0))},
			"        stack:\n            __kretprobe_trampoline+0x1000\n\n"},
		{"no symbol", 3833, []bpf.Section{stackSection(bpf.SectionStack, place("send", 0), 0xffffffffc0a1e010)},
			"        stack:\n            0xffffffffc0a1e010\n\n"},
		{"callers traced as well", 3833, []bpf.Section{stackSection(bpf.SectionStack, place("send", 5), place("caller", 0x20), place("bpf_trampoline_2", 0x50), place("caller", 9), 0xffffffffc0a1e010, place("nf", 9), place("_text", 0x40))},
			"        stack:\n            caller+0x20  (net/a.c:10)\n            _text+0x40\n\n"},
		{"cut", 3833, []bpf.Section{cut}, "        stack:\n            caller+0x20  (net/a.c:10)\n            ... and more, which were not taken\n\n"},
		{"none", 3833, []bpf.Section{{Kind: bpf.SectionStack, Errno: 14}}, "        stack: none (-EFAULT)\n\n"},
		{"caller", 3833, []bpf.Section{caller}, "        caller:\n            . inlined     (net/c.h:3)\n            inliner+0x20  (net/b.c:20:5)\n\n"},
		{"user", 3833, []bpf.Section{stackSection(user, 100, 200)}, "        user stack:\n            u100\n            u199\n\n"},
		{"lost way", 3833, []bpf.Section{stackSection(user, 100, 0xfe8948e5894855ff, 200)}, "        user stack:\n            u100\n\n"},
		{"outside of code", 3833, []bpf.Section{stackSection(user, 100, 2, 200, 2, 2, 3)}, "        user stack:\n            u100\n            0x2\n            u199\n            " + NoCode + "\n\n"},
		{"outside, and cut", 3833, []bpf.Section{looped}, "        user stack:\n            u100\n            " + NoCode + "\n\n"},
		{"no code known", 3833, []bpf.Section{stackSection(user, 2, 2)}, "        user stack:\n            0x2\n            0x2\n\n"},
		{"unwound", 3833, []bpf.Section{unwound}, "        user stack:\n            u99\n            0x2\n\n"},
		{"kernel thread", 3833, []bpf.Section{{Kind: user, Errno: 14}}, "        user stack: none (-EFAULT)\n\n"},
		{"too late", 7, []bpf.Section{stackSection(user, 100)}, "        user stack:\n            u100\n            /* ended */\n\n"},
		{"both", 3833, []bpf.Section{stackSection(bpf.SectionStack, place("send", 5), place("nf", 1)), stackSection(user, 100)},
			"        stack:\n            nf+0x1 [nf_tables]\n\n        user stack:\n            u100\n\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			comm := "            ping    "
			pid := strconv.Itoa(int(c.pid))
			first := comm + "    "[len(pid):] + pid + "    1    251523.617250 send(\n        return = (int)0\n\n"
			if d := cmp.Diff(first+c.want+");\n", printTail(t, testTails(), c.pid, c.sections...)); d != "" {
				t.Error(d)
			}
		})
	}
}

// codeProcess is a testProcess of whose addresses odd ones are known to be no return addresses.
type codeProcess struct{ testProcess }

func (codeProcess) NoCaller(addr uint64) bool { return addr%2 == 1 }

// TestUserStackOfCallers: a stack ends before the first address that was found by a frame pointer and that no call is before. What
// is found otherwise is not tested, and recursion stays.
func TestUserStackOfCallers(t *testing.T) {
	tails := &Tails{User: func(*bpf.Event, string) Process { return codeProcess{} }}
	frame := func(addr uint64, way unwind.Way) uint64 {
		return uint64(bpf.NewUserFrame(addr, uint8(way), way == 0))
	}
	for name, tt := range map[string]struct {
		section bpf.Section
		want    []string
	}{
		"all called":         {stackSection(bpf.SectionUserStack, 101, 202, 302), []string{"u101", "u201", "u301"}},
		"one is not":         {stackSection(bpf.SectionUserStack, 101, 202, 303, 404), []string{"u101", "u201", noCaller}},
		"the first is not":   {stackSection(bpf.SectionUserStack, 101, 203), []string{"u101", noCaller}},
		"recursion":          {stackSection(bpf.SectionUserStack, 101, 202, 202, 202), []string{"u101", "u201", "u201", "u201"}},
		"outside before":     {stackSection(bpf.SectionUserStack, 101, 202, 2, 303), []string{"u101", "u201", noCaller}},
		"outside":            {stackSection(bpf.SectionUserStack, 101, 202, 2), []string{"u101", "u201", NoCode}},
		"cut":                {bpf.Section{Data: stackSection(0, 101, 203, 204).Data, Cut: true}, []string{"u101", noCaller}},
		"unwound":            {bpf.Section{Data: stackSection(0, frame(101, 0), frame(203, unwind.ByTable)).Data, Unwound: true}, []string{"u101", "u202"}},
		"unwound by pointer": {bpf.Section{Data: stackSection(0, frame(101, 0), frame(203, unwind.ByPointer), uint64(bpf.UserStackEnd(uint8(unwind.EndNoInfo)))).Data, Unwound: true}, []string{"u101", noCaller}},
	} {
		got := strings.Split(strings.TrimSpace(string(tails.AppendUserStack(nil, &event.Event{}, tt.section))), "\n")[1:]
		for i := range got {
			got[i] = strings.TrimSpace(got[i])
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
