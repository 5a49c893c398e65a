// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"encoding/binary"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/layout"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fakeResolver knows the functions at addresses; the line of a function is its
// call into the next one.
type fakeResolver map[uint64][]symbols.Frame

func (r fakeResolver) Frames(dst []symbols.Frame, addr uint64, _ bool) []symbols.Frame {
	if f, ok := r[addr]; ok {
		return append(dst, f...)
	}
	return append(dst, symbols.Frame{Addr: addr})
}

// add makes up an address in a function, with what is inlined there, given as
// "function file:line:column", the outermost first, and returns it.
func (r fakeResolver) add(function string, offset uint64, places ...string) uint64 {
	addr := 0xffffffff81000000 + uint64(len(r)+1)<<16 + offset
	name, module, _ := strings.Cut(function, "@")
	frames := []symbols.Frame{{Addr: addr, Name: name, Module: module, Offset: offset}}
	for i, p := range places {
		name, source, _ := strings.Cut(p, " ")
		if i > 0 {
			frames = append([]symbols.Frame{{Addr: addr, Name: name, Inlined: true}}, frames...)
		}
		var f symbols.Frame
		parts := strings.Split(source, ":")
		f.File, f.Line, f.Column = parts[0], number(parts[1]), number(parts[2])
		frames[0].File, frames[0].Line, frames[0].Column = f.File, f.Line, f.Column
	}
	r[addr] = frames
	return addr
}

func number(s string) (n int) {
	for _, c := range s {
		n = 10*n + int(c-'0')
	}
	return n
}

var (
	typePtr   = &btf.Pointer{Target: &btf.Void{}}
	minusE    = func(errno uint64) uint64 { return -errno }
	boot      = time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC)
	at        = func(minutes, micros uint64) uint64 { return (minutes*60e6 + micros) * 1e3 }
	fnSyscall = &plan.Probe{Func: kernel.Function{Name: "__x64_sys_bpf"}, Probe: layout.Probe{Name: "__x64_sys_bpf", Result: &btf.Int{Size: 8, Encoding: btf.Signed}, Class: layout.FailsInt64, Role: layout.RoleEntry}}
	fnBPF     = function("__sys_bpf", typeInt)
	fnAlloc   = function("array_map_alloc", typePtr)
	fnPercpu  = function("bpf_map_alloc_percpu", typePtr)
)

func function(name string, result btf.Type) *plan.Probe {
	name, module, _ := strings.Cut(name, "@")
	f := &plan.Probe{Func: kernel.Function{Name: name, Module: module}, Probe: layout.Probe{Name: name, Result: result, Role: layout.RoleInside}}
	switch result.(type) {
	case *btf.Pointer:
		f.Class = layout.FailsPointer
	case *btf.Int:
		f.Class = layout.FailsInt32
	}
	return f
}

func frame(f *plan.Probe, micros, result uint64) session.Frame {
	return session.Frame{Func: f, Duration: micros*1e3 + 999, Result: result, Finished: true}
}

func stitched(f session.Frame) session.Frame { f.Stitched = true; return f }

// values are the values of `send(items)`, recorded as probe plans it.
func values(t *testing.T, items string, data []byte, faults uint64) session.Values {
	t.Helper()
	e := new(event.Event)
	head := bpf.Event{Kind: bpf.KindCall, Faults: faults}
	if err := event.Decode(probe(t, "send("+items+", return < 0)"), append(bpf.AppendEvent(nil, &head), data...), e); err != nil {
		t.Fatal(err)
	}
	return session.Values{Event: e}
}

// arguments are what -A records of __sys_bpf.
func arguments() []session.Arg {
	cmd := &btf.Enum{Name: "bpf_cmd", Size: 4, Values: []btf.EnumValue{{Name: "BPF_MAP_CREATE", Value: 0}}}
	attr := &btf.Struct{Name: "bpf_attr", Size: 8, Members: []btf.Member{{Name: "map_type", Type: typeUint}, {Name: "key_size", Type: typeUint, Offset: 32}}}
	param := func(name string, t btf.Type) *layout.Param {
		return &layout.Param{Param: expr.Param{Name: name, Type: t}}
	}
	pointer := binary.LittleEndian.AppendUint64(nil, 0xffff888100001000)
	return []session.Arg{
		{Param: param("cmd", cmd), Value: make([]byte, 4)},
		{Param: param("uattr", &btf.Pointer{Target: attr}), Value: pointer, Target: []byte{2, 0, 0, 0, 4, 0, 0, 0}, TargetType: attr},
		{Param: param("size", typeUint), Value: []byte{72, 0, 0, 0}},
		{Param: param("name", &btf.Pointer{Target: typeChar}), Value: pointer, Target: []byte("a\x1b[2Jb"), Text: true, Cut: true},
		{Param: param("gone", &btf.Pointer{Target: attr}), Value: pointer, TargetType: attr},
		{Param: param("lost", typeUint)},
		{Param: param("far", typeUint), Beyond: true},
		{Param: param("none", &btf.Pointer{Target: attr}), Value: make([]byte, 8), TargetType: attr},
	}
}

// tour is the session that retsnoop's tour begins with.
func tour(r fakeResolver) *session.Session {
	inner := []uint64{r.add("bpf_prog_6deef7357e7b4530_ret@bpf", 0x40), r.add("kprobe_multi_link_prog_run", 0x90),
		r.add("rethook_trampoline_handler", 0x8a), r.add("arch_rethook_trampoline", 0)}
	stack := append(inner,
		r.add("__sys_bpf", 0x38b, "__sys_bpf kernel/bpf/syscall.c:4947:9", "map_create kernel/bpf/syscall.c:1106:8", "find_and_alloc_map kernel/bpf/syscall.c:132:5"),
		r.add("__x64_sys_bpf", 0x1a, "__x64_sys_bpf kernel/bpf/syscall.c:5067:1"),
		r.add("do_syscall_64", 0x35, "do_syscall_64 arch/x86/entry/common.c:80:7", "do_syscall_x64 arch/x86/entry/common.c:50:12"),
		r.add("entry_SYSCALL_64_after_hwframe", 0x63, "entry_SYSCALL_64_after_hwframe arch/x86/entry/entry_64.S:120:0"))
	return &session.Session{PID: 8346, TID: 8346, Comm: "simfail", Leader: "simfail", Start: at(19, 36_372607), End: at(19, 36_372682), Failed: true,
		Func: fnSyscall, Chain: session.Chain{Stack: stack, Frames: []session.Frame{frame(fnSyscall, 73, minusE(12)), frame(fnBPF, 70, minusE(12)),
			frame(fnAlloc, 50, minusE(12)), stitched(frame(fnPercpu, 2, 0))}}}
}

func sessionCases(t *testing.T) map[string]func(r fakeResolver) (SessionOptions, []*session.Session) {
	fnLoad, fnProgAlloc, fnStats, fnKsym := function("bpf_prog_load", typeInt), function("bpf_prog_alloc", typePtr), function("bpf_prog_alloc_no_stats", typePtr), function("bpf_ksym_add", nil)
	trace := []session.Step{
		{Kind: session.StepEntry, Func: fnLoad},
		{Kind: session.StepEntry, Depth: 1, Func: fnProgAlloc},
		{Kind: session.StepLeaf, Depth: 2, Func: fnStats, Duration: 5539, Result: 0xffffc9000031e000},
		{Kind: session.StepExit, Depth: 1, Func: fnProgAlloc, Duration: 10265, Result: 0xffffc9000031e000},
		{Kind: session.StepProbe, Depth: 1, Probe: "kprobe:bpf_check+0x10"},
		{Kind: session.StepLeaf, Depth: 1, Func: fnKsym, Duration: 2046},
		{Kind: session.StepLost, Depth: 1},
		{Kind: session.StepExit, Func: fnLoad, Duration: 374_697, Result: 5},
	}
	withValues := func(form ArgsForm) func(r fakeResolver) (SessionOptions, []*session.Session) {
		return func(r fakeResolver) (SessionOptions, []*session.Session) {
			s := tour(r)
			s.Chain.Frames[1].Values.Args = arguments()
			s.Chain.Frames[2].Values = values(t, "skb->len, *skb, str(name)", data(84, []byte{84, 0, 0, 0, 3, 0, 0, 0}, "eth0", -1), 0)
			s.Chain.Frames[3].Values = values(t, "skb->len, skb", data(84, 0xdead, make([]byte, 8), -1), 1<<2)
			s.Trace = []session.Step{
				{Kind: session.StepEntry, Func: fnBPF, Values: s.Chain.Frames[1].Values},
				{Kind: session.StepLeaf, Depth: 1, Func: fnAlloc, Duration: 50_000, Result: minusE(12), Values: s.Chain.Frames[2].Values},
				{Kind: session.StepExit, Func: fnBPF, Duration: 70_000, Result: minusE(12)},
			}
			return SessionOptions{Args: form, Trace: true}, []*session.Session{s}
		}
	}
	return map[string]func(r fakeResolver) (SessionOptions, []*session.Session){
		"tour": func(r fakeResolver) (SessionOptions, []*session.Session) {
			return SessionOptions{}, []*session.Session{tour(r), tour(r)}
		},
		"trace": func(r fakeResolver) (SessionOptions, []*session.Session) {
			s := &session.Session{PID: 8385, TID: 8386, Comm: "thread\x1b[31m", Leader: "simfail", Start: at(33, 58_438961), End: at(33, 58_439338), Func: fnLoad, Trace: trace,
				Chain: session.Chain{Frames: []session.Frame{frame(fnLoad, 1374, 5), frame(fnKsym, 2, 0)}, Stack: []uint64{
					r.add("__sys_bpf", 0x11a4), r.add("__x64_sys_bpf", 0x1a), r.add("entry_SYSCALL_64_after_hwframe", 0x63)}},
				Lost: session.Lost{Deep: 3, Returns: 12, Chunk: 1, Args: 2, Room: 5, Reasons: 6, Chains: 4, Stack: true}}
			s.Trace = append([]session.Step{{Kind: session.StepLeft, Count: 1234}}, trace...)
			return SessionOptions{Trace: true}, []*session.Session{s}
		},
		"compact": withValues(ArgsCompact), "multiline": withValues(ArgsMultiline), "verbose": withValues(ArgsVerbose),
		"narrow": narrow(withValues(ArgsCompact)), "narrow-multiline": narrow(withValues(ArgsMultiline)),
		"states": func(r fakeResolver) (SessionOptions, []*session.Session) {
			open := func(f *plan.Probe, micros uint64) session.Frame {
				return session.Frame{Func: f, Duration: micros * 1e3}
			}
			hung := &session.Session{PID: 1, TID: 2, Comm: "a", Leader: "b", Start: at(1, 0), End: at(1, 5_000000), State: session.Hung, Func: fnSyscall,
				Chain: session.Chain{Frames: []session.Frame{open(fnSyscall, 5_000_000), open(fnBPF, 4_999_998)}}}
			exited := &session.Session{PID: 1, TID: 2, Comm: "a", Leader: "b", Start: at(2, 0), End: at(2, 5), State: session.Exited, Func: fnSyscall,
				Chain: session.Chain{Frames: []session.Frame{open(fnSyscall, 5)}}}
			interim := tour(r)
			interim.Interim = []session.Chain{{Frames: []session.Frame{frame(fnSyscall, 9, 3), frame(fnBPF, 8, minusE(22))}}}
			return SessionOptions{}, []*session.Session{hung, exited, interim}
		},
		"live": func(r fakeResolver) (SessionOptions, []*session.Session) {
			piece := func(tid uint32, state session.State, steps ...session.Step) *session.Session {
				s := &session.Session{PID: 1, TID: tid, Comm: "a", Leader: "a", Start: at(1, 0), End: at(1, 9), State: state, Func: fnLoad, Trace: steps}
				if state == session.Returned {
					s.Chain.Frames = []session.Frame{frame(fnLoad, 374, 5)}
				}
				return s
			}
			return SessionOptions{Trace: true, Live: true}, []*session.Session{
				piece(7, session.Running, trace[:2]...), piece(7, session.Running, trace[2]), piece(8, session.Running, trace[0]),
				piece(7, session.Running, trace[3:5]...), piece(7, session.Returned, trace[5:]...), piece(8, session.Returned, trace[7])}
		},
		"fexit": func(r fakeResolver) (SessionOptions, []*session.Session) {
			// fentry and fexit leave a trampoline and the begin of the traced function in each frame.
			stack := []uint64{r.add("bpf_prog_1_ks_take_stack@bpf", 0x10), r.add("bpf_trampoline_64@bpf", 0x6c), r.add("array_map_alloc", 9),
				r.add("find_and_alloc_map", 0x77), r.add("__sys_bpf", 0x38b), r.add("bpf_trampoline_63", 0x57), r.add("__sys_bpf", 9),
				r.add("bpf_prog_of_others@bpf", 0x66), r.add("cgroup_hook", 5), r.add("nft_do_chain@nf_tables", 0x1f0)}
			return SessionOptions{}, []*session.Session{{Comm: "swapper/0", Leader: "swapper/0", Start: at(1, 0), End: at(1, 9),
				Chain: session.Chain{Stack: stack, Frames: []session.Frame{frame(fnBPF, 70, minusE(12)), frame(fnPercpu, 1, 1), frame(fnAlloc, 50, 0)}}}}
		},
		"addresses": func(r fakeResolver) (SessionOptions, []*session.Session) {
			return SessionOptions{Addresses: true}, []*session.Session{tour(r)}
		},
		// What is traced by fexit calls a trampoline as its first instruction, in which it goes on. The last has returned.
		"unfiltered": func(r fakeResolver) (SessionOptions, []*session.Session) {
			stack := []uint64{r.add("bpf_prog_1_ks_take_stack@bpf", 0x10), r.add("bpf_trampoline_64@bpf", 0x6c), r.add("array_map_alloc", 9),
				r.add("__sys_bpf", 0x38b, "__sys_bpf kernel/bpf/syscall.c:4947:9", "map_create kernel/bpf/syscall.c:1106:8"), r.add("bpf_trampoline_63", 0x57), r.add("__sys_bpf", 9), r.add("do_syscall_64", 0x35)}
			return SessionOptions{Unfiltered: true}, []*session.Session{{Comm: "a", Leader: "b", Start: at(1, 0), End: at(1, 9),
				Chain: session.Chain{Stack: stack, Frames: []session.Frame{frame(fnBPF, 70, minusE(12)), frame(fnAlloc, 50, 0)}}}}
		},
		"no-stack": func(r fakeResolver) (SessionOptions, []*session.Session) {
			s := tour(r)
			s.Trace = trace[:5]
			s.Interim = []session.Chain{s.Chain}
			return SessionOptions{Trace: true, NoStack: true}, []*session.Session{s, s}
		},
		"recursion": func(r fakeResolver) (SessionOptions, []*session.Session) {
			f, g := function("f", typeInt), function("g@mod", typeInt)
			stack := []uint64{0xffffc90000001000, r.add("f", 9), r.add("h", 0x30), r.add("f", 0x20), r.add("g@mod", 0x40), r.add("f", 0x20)}
			return SessionOptions{}, []*session.Session{{Comm: "x", Leader: "x", Start: at(1, 0), End: at(1, 9),
				Chain: session.Chain{Stack: stack, Frames: []session.Frame{frame(f, 5, minusE(1)), frame(g, 4, minusE(1)), frame(f, 3, minusE(1)), frame(f, 2, minusE(1)), frame(g, 1, minusE(1))}}}}
		},
	}
}

// narrow prints a case to a terminal of 100 columns, values to 30.
func narrow(of func(r fakeResolver) (SessionOptions, []*session.Session)) func(r fakeResolver) (SessionOptions, []*session.Session) {
	return func(r fakeResolver) (SessionOptions, []*session.Session) {
		o, s := of(r)
		o.ArgsWidth, o.Columns = 30, func() int { return 100 }
		return o, s
	}
}

// TestSessions compares with golden files; that of the tour is the tour's own
// but for the mark of a stitched call.
func TestSessions(t *testing.T) {
	for name, make := range sessionCases(t) {
		t.Run(name, func(t *testing.T) {
			r := fakeResolver{}
			o, sessions := make(r)
			o.Resolver, o.Boot = r, boot
			p := NewSessions(o)
			var got []byte
			for _, s := range sessions {
				var err error
				if got, err = p.AppendSession(got, s); err != nil {
					t.Fatal(err)
				}
			}
			for line := range bytes.Lines(got) {
				if text := bytes.TrimSuffix(line, []byte("\n")); bytes.HasSuffix(text, []byte(" ")) || bytes.ContainsRune(text, 0x1b) {
					t.Errorf("blanks at the end, or an escape: %q", line)
				}
			}
			golden(t, filepath.Join("testdata", "session-"+name+".txt"), got)
		})
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s:\n%s", file, d)
	}
}

// A line says what is missing where it stands, in the middle of a live trace as well.
func TestSessionsMissing(t *testing.T) {
	p := NewSessions(SessionOptions{Trace: true, Live: true, Boot: boot})
	piece := &session.Session{TID: 7, PID: 7, Comm: "c", Start: 1, State: session.Running,
		Trace: []session.Step{{Kind: session.StepEntry, Func: fnBPF}}}
	out, err := p.AppendSession(nil, piece)
	if err != nil {
		t.Fatal(err)
	}
	out = p.AppendLoss(out, event.Loss{Cause: bpf.LostSession, Count: 3})
	if out, err = p.AppendSession(out, piece); err != nil {
		t.Fatal(err)
	}
	const line = "--- 3 sessions not recorded because too many were open at once ---\n"
	head, tail, ok := strings.Cut(string(out), line)
	if !ok || strings.Count(head, "TID/PID 7/7") != 1 || strings.Contains(tail, "TID/PID") || !strings.Contains(tail, "__sys_bpf") {
		t.Errorf("got\n%s", out)
	}
}

// TestSessionsClock: the time of day is that of now, if the clock was set while sessions are printed.
func TestSessionsClock(t *testing.T) {
	now := boot
	p := NewSessions(SessionOptions{Boot: boot, Booted: func() time.Time { return now }})
	s := &session.Session{TID: 7, PID: 7, Comm: "c", Leader: "c", Start: at(1, 0), End: at(2, 0)}
	for _, want := range []string{"20:01:00.000000 -> 20:02:00.000000 ", "23:01:00.000000 -> 23:02:00.000000 "} {
		if line := string(p.appendHeader(nil, s)); !strings.HasPrefix(line, want) {
			t.Errorf("%q, want %s", line, want)
		}
		now = boot.Add(3 * time.Hour)
	}
}

// Values that come late are no beginning of a trace: they stand below what was printed, without another header.
func TestSessionsOpen(t *testing.T) {
	p := NewSessions(SessionOptions{Trace: true, Live: true, Args: ArgsCompact, Boot: boot})
	out, err := p.AppendSession(nil, &session.Session{TID: 7, PID: 7, Comm: "c", Start: 1, State: session.Running, Trace: []session.Step{{Kind: session.StepEntry, Func: fnBPF}}})
	if err != nil {
		t.Fatal(err)
	}
	late := session.Step{Kind: session.StepOpen, Func: fnBPF, Values: values(t, "skb->len", data(84, make([]byte, 8), -1), 0)}
	if out, err = p.AppendSession(out, &session.Session{TID: 7, PID: 7, Comm: "c", Start: 1, State: session.Exited, Trace: []session.Step{late}}); err != nil {
		t.Fatal(err)
	}
	if text := string(out); strings.Count(text, "FUNCTION CALLS") != 1 || !regexp.MustCompile(`→ __sys_bpf *\n… __sys_bpf +skb->len = 84\n`).MatchString(text) {
		t.Errorf("got\n%s", out)
	}
}

func TestSessionsAllocate(t *testing.T) {
	r := fakeResolver{}
	s := tour(r)
	s.Chain.Frames[1].Values.Args = arguments()
	p := NewSessions(SessionOptions{Resolver: r, Boot: boot})
	buf, err := p.AppendSession(nil, s)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { buf, _ = p.AppendSession(buf[:0], s) }); n != 0 {
		t.Errorf("%v allocations for a session", n)
	}
}

// TestSessionUserStack: the stack of the process is below that of the kernel.
func TestSessionUserStack(t *testing.T) {
	r := fakeResolver{}
	s := tour(r)
	plain, err := NewSessions(SessionOptions{Resolver: r, Boot: boot}).AppendSession(nil, s)
	if err != nil {
		t.Fatal(err)
	}
	section := stackSection(bpf.SectionUserStack, 100, 200)
	s.User = &event.Event{Event: bpf.Event{PID: s.PID}, Tail: bpf.AppendSection(nil, &section)}
	o := SessionOptions{Resolver: r, Boot: boot, User: func(*bpf.Event, string) Process { return testProcess("") }}
	got, err := NewSessions(o).AppendSession(nil, s)
	if want := string(plain) + "        user stack:\n            u100\n            u199\n\n"; err != nil || string(got) != want {
		t.Errorf("%v, got\n%swant\n%s", err, got, want)
	}
	o.NoStack = true
	if got, err = NewSessions(o).AppendSession(nil, s); err != nil || strings.Contains(string(got), "user stack") {
		t.Errorf("%v, without stacks\n%s", err, got)
	}
}
