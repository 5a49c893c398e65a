// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/symbols"
)

// letters is a resolver for which an address is a function of one letter, some
// of them belonging to tracing.
type letters struct{}

func (letters) Frames(dst []symbols.Frame, addr uint64, _ bool) []symbols.Frame {
	f := symbols.Frame{Addr: addr, Name: string(rune('a' + addr>>8&7)), Offset: addr & 0xff}
	switch addr >> 8 & 7 {
	case 6:
		f.Name = "bpf_trampoline_6442"
	case 7:
		f.Name = "rethook_trampoline_handler"
	case 0:
		dst = append(dst, symbols.Frame{Addr: addr, Name: "inlined", Inlined: true})
	}
	return append(dst, f)
}

// asked notes how addresses are asked for last.
type asked map[uint64]bool

func (a asked) Frames(dst []symbols.Frame, addr uint64, returnAddress bool) []symbols.Frame {
	a[addr] = returnAddress
	return append(dst, symbols.Frame{Addr: addr, Name: "f", Offset: addr & 0xff})
}

// TestUserFirst: functions of user space are above all of the kernel's stack, also if one of the kernel has
// the same name.
func TestUserFirst(t *testing.T) {
	user, inner := &plan.Probe{Func: kernel.Function{Name: "b"}}, &plan.Probe{Func: kernel.Function{Name: "c"}}
	user.Kind = expr.UserFunction
	m := merger{resolver: letters{}}
	rows := m.merge(&session.Chain{Stack: []uint64{0x210, 0x110}, Frames: []session.Frame{{Func: user}, {Func: inner}}})
	var got []string
	for _, r := range rows {
		switch {
		case r.call != nil && r.symbol != nil:
			got = append(got, "both "+r.symbol.Name)
		case r.call != nil:
			got = append(got, "call "+r.call.Func.Func.Name)
		default:
			got = append(got, "frame "+r.symbol.Name)
		}
	}
	if want := []string{"call b", "frame b", "both c"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestReturnAddresses reads the begin of a stack as a call's return, unless a
// function begins there.
func TestReturnAddresses(t *testing.T) {
	for _, test := range []struct {
		stack []uint64
		want  []bool
	}{
		{[]uint64{0x120, 0x21a}, []bool{true, true}},
		{[]uint64{0x100, 0x21a}, []bool{false, true}},
		{[]uint64{0x104, 0x205}, []bool{false, true}},
		{[]uint64{0x109}, []bool{true}},
	} {
		a := asked{}
		m := merger{resolver: a}
		m.merge(&session.Chain{Stack: test.stack})
		for i, addr := range test.stack {
			if a[addr] != test.want[i] {
				t.Errorf("%#x: address %d is read as a return address: %v", test.stack, i, a[addr])
			}
		}
	}
}

// brief names the function of each row: "f" of a frame, "!f" of a call, "f*" of both.
func brief(rows []stackRow) string {
	var names []string
	for _, r := range rows {
		switch {
		case r.symbol == nil:
			names = append(names, "!"+r.call.Func.Func.Name)
		case r.call != nil:
			names = append(names, r.symbol.Name+"*")
		default:
			names = append(names, r.symbol.Name)
		}
	}
	return strings.Join(names, " ")
}

// stackNames is a resolver for which an address is an index in it.
type stackNames []string

func (n stackNames) Frames(dst []symbols.Frame, addr uint64, _ bool) []symbols.Frame {
	return append(dst, symbols.Frame{Addr: addr, Name: n[addr], Offset: 0x40})
}

// TestOwnFrames: frames from which the first call was made, or that an interrupt has interrupted, are of no call, be they of the
// same functions or traced.
func TestOwnFrames(t *testing.T) {
	for _, test := range []struct {
		interrupt          bool
		calls, stack, want string // outermost first; "f." has returned
	}{
		{true, "recv kfree", "send skb_out bpf_trampoline_1 kfree handle_softirqs recv kfree", "send skb_out kfree handle_softirqs recv* kfree*"},
		{true, "recv queue", "send bpf_trampoline_1 skb_out handle_softirqs deliver bpf_trampoline_2 do_recv", "send skb_out handle_softirqs deliver !recv do_recv !queue"},
		{true, "send kfree", "kfree sysvec_call handle_softirqs send kfree", "kfree sysvec_call handle_softirqs send* kfree*"},
		{true, "timer kfree", "kfree common_interrupt handle_softirqs rx sysvec_timer bpf_trampoline_1 do_timer", "kfree common_interrupt handle_softirqs rx sysvec_timer !timer do_timer !kfree"},
		{true, "kfree", "kfree sysvec_call handle_softirqs run", "kfree sysvec_call handle_softirqs run !kfree"},
		{true, "kfree", "kfree el1h_64_irq_handler hrtimer", "kfree el1h_64_irq_handler hrtimer !kfree"},
		{true, "recv kfree", "recv kfree fred_sysvec_call __do_softirq.constprop.0 do_recv", "recv kfree fred_sysvec_call __do_softirq.constprop.0 do_recv !recv !kfree"},
		{true, "handle_softirqs run kfree", "kfree sysvec_call handle_softirqs run", "kfree sysvec_call handle_softirqs* run* !kfree"},
		// Of a thread, which runs soft interrupts as well or was preempted after an interrupt.
		{false, "sys_send send ip_rcv", "syscall send bh_enable handle_softirqs run", "syscall !sys_send send* bh_enable handle_softirqs run !ip_rcv"},
		{false, "sys_read ksys sched deq", "syscall ksys sysvec_apic irqentry_exit sched", "syscall !sys_read ksys* sysvec_apic irqentry_exit sched* !deq"},
		{false, "open walk", "walk syscall open walk", "walk syscall open* walk*"},
		{false, "open walk", "walk syscall open", "walk syscall open* !walk"},
		{false, "open walk.", "walk syscall do_open", "walk syscall do_open !open !walk"},
		{false, "walk.", "walk syscall do_walk", "walk syscall do_walk !walk"},
		{false, "open open walk", "syscall open open walk", "syscall open* open* walk*"},
		{false, "z e z x", "c d e z", "c d !z e* z* !x"},
		{false, "e", "b c bpf_trampoline_1 d", "b c d !e"},
	} {
		names := stackNames(strings.Fields(test.stack))
		slices.Reverse(names)
		m := merger{resolver: names}
		c := session.Chain{Interrupt: test.interrupt}
		for i := range names {
			c.Stack = append(c.Stack, uint64(i))
		}
		for name := range strings.FieldsSeq(test.calls) {
			name, returned := strings.CutSuffix(name, ".")
			c.Frames = append(c.Frames, session.Frame{Func: &plan.Probe{Func: kernel.Function{Name: name}}, Finished: returned})
		}
		if s := brief(m.merge(&c)); s != test.want {
			t.Errorf("%s, stack %s:\n%s, want\n%s", test.calls, test.stack, s, test.want)
		}
	}
}

// TestJumped puts calls that have left the kernel's stack by a jump below what has
// called them: by where they return to, or by the trampoline at their begin, which is
// skipped like the trampoline itself.
func TestJumped(t *testing.T) {
	calls := func(names ...string) (frames []session.Frame) {
		for _, name := range names {
			fn := &plan.Probe{}
			fn.Func.Name = name
			frames = append(frames, session.Frame{Func: fn})
		}
		return frames
	}
	returning := func(frames []session.Frame, to ...uint32) []session.Frame {
		for i := range to {
			frames[i].Returned = to[i]
		}
		return frames
	}
	const trampoline = 0x610
	for _, test := range []struct {
		name  string
		calls []session.Frame
		stack []uint64 // innermost first
		want  string
	}{
		{"it returns to c", returning(calls("z", "e"), 0x220, 0x330), []uint64{0x330, 0x220, 0x140}, "b c !z d !e"},
		{"not known", calls("z", "e"), []uint64{0x330, 0x220, 0x140}, "b c d !z !e"},
		{"it is in the stack", returning(calls("d", "e"), 0x220, 0x330), []uint64{0x330, 0x220, 0x140}, "b c d* !e"},
		{"two", returning(calls("y", "z", "e"), 0x220, 0x220, 0x330), []uint64{0x330, 0x220, 0x140}, "b c !y !z d !e"},
		{"a trampoline calls it", calls("c", "e"), []uint64{0x330, trampoline, 0x209, 0x140}, "b !c d !e"},
		{"a trampoline that was jumped to", calls("z", "e"), []uint64{0x330, trampoline, 0x220, 0x140}, "b c !z d !e"},
		{"one of what is in the stack", calls("c", "e"), []uint64{0x330, 0x210, trampoline, 0x140}, "b c* d !e"},
		{"a trampoline calls what is in the stack", calls("c", "e"), []uint64{0x330, 0x220, trampoline, 0x209, 0x140}, "b c* d !e"},
		{"a trampoline of a function that is traced for something else", calls("y", "e"), []uint64{0x330, 0x220, trampoline, 0x209, 0x140}, "b c d !y !e"},
		{"of one that is in the stack further in", calls("d", "e"), []uint64{0x330, 0x220, trampoline, 0x140}, "b c d* !e"},
		{"it is called again further in", returning(calls("b", "e", "d", "e", "c"), 0, 0x220), []uint64{0x430, 0x330, 0x530, 0x220, 0x140}, "b* c !e f d* e* !c"},
	} {
		m := merger{resolver: letters{}}
		if s := brief(m.merge(&session.Chain{Frames: test.calls, Stack: test.stack})); s != test.want {
			t.Errorf("%s: %s, want %s", test.name, s, test.want)
		}
	}
}

// TestTracing tells the frames of tracing from the kernel's own functions with similar names. Those
// are in kernel/bpf.
func TestTracing(t *testing.T) {
	frames := []symbols.Frame{
		{Name: "bpf_prog_6deef7357e7b4530_ks_take_stack", Module: "bpf"}, {Name: "__bpf_prog_exit_recur"}, {Name: "bpf_trampoline_6442492247"},
		{Name: "bpf_prog_load", Offset: 0x712}, {Name: "__bpf_prog_put_noref", Offset: 0x40}, {Name: "bpf_trampoline_get", Offset: 0x50},
	}
	for own := 3; own < len(frames); own++ {
		m := merger{frames: append(slices.Clone(frames[:3]), frames[own]), starts: []int{0, 1, 2, 3, 4}}
		m.skipTracing()
		if want := []bool{true, true, true, false}; !slices.Equal(m.skip, want) {
			t.Errorf("%s: %v", frames[own].Name, m.skip)
		}
	}
}

// TestSkippedPrograms: only the programs that took the stack are skipped. Others are traced, or call what is. Of the stack
// that a kprobe took these are the first.
func TestSkippedPrograms(t *testing.T) {
	frame := func(name string, offset uint64) symbols.Frame {
		f := symbols.Frame{Name: name, Offset: offset}
		if strings.HasPrefix(name, "bpf_prog_") || isTrampoline(&f) {
			f.Module = bpfModule
		}
		return f
	}
	own, trampoline := frame("bpf_prog_4fb19054ecfa9720_ks_take_stack", 0x28), frame("bpf_trampoline_21474836486", 0xb9)
	weigh, target, run := frame("bpf_prog_69e49e82d887d9d4_weigh", 9), frame("bpf_prog_5e0bb915b7831965_target_xdp", 0x6e), frame("bpf_test_run", 0x179)
	multi, returning := frame("kprobe_multi_link_prog_run", 0x90), frame("__kretprobe_trampoline", 0)
	entry := target
	entry.Offset = 9
	for name, test := range map[string]struct {
		frames []symbols.Frame
		want   string // ends of the names that are not skipped
	}{
		"trampolines that were called":    {[]symbols.Frame{own, trampoline, weigh, target, trampoline, entry, run}, "xdp run"},
		"trampolines that were jumped to": {[]symbols.Frame{own, own, trampoline, target, trampoline, run}, "xdp run"},
		"kprobe":                          {[]symbols.Frame{target, trampoline, entry, run}, "xdp run"},
		"kprobe, and its program":         {[]symbols.Frame{frame("bpf_prog_6deef7357e7b4530_ret", 0x40), frame("kprobe_multi_link_prog_run", 0x90), frame("send", 0x40), run}, "send run"},
		"kprobe.multi at a return":        {[]symbols.Frame{own, multi, returning, target, run}, "xdp run"},
		"kprobe.multi in the program":     {[]symbols.Frame{own, own, multi, frame("rethook_trampoline_handler", 0x60), frame("arch_rethook_trampoline", 0x30), target, trampoline, entry, run}, "xdp run"},
		"a helper takes the stack":        {[]symbols.Frame{frame("bpf_get_stack_raw_tp", 0x30), own, trampoline, target, run}, "xdp run"},
		"a helper, below kprobe.multi":    {[]symbols.Frame{frame("get_perf_callchain", 0x30), frame("bpf_get_stack", 0x30), own, multi, returning, target, run}, "xdp run"},
		"a helper, and a program":         {[]symbols.Frame{frame("bpf_get_stack", 0x30), frame("bpf_prog_6deef7357e7b4530_ret", 0x40), multi, target, run}, "xdp run"},
		"what kprobes add, and a program": {[]symbols.Frame{returning, target, run}, "xdp run"},
		"names of programs are hidden":    {[]symbols.Frame{{}, {}, {}, frame("send", 5), run}, "run"},
	} {
		m := merger{frames: test.frames}
		for i := range len(m.frames) + 1 {
			m.starts = append(m.starts, i)
		}
		m.skipTracing()
		var kept []string
		for i, skipped := range m.skip {
			if !skipped {
				n := m.frames[i].Name
				kept = append(kept, n[strings.LastIndex(n, "_")+1:])
			}
		}
		if got := strings.Join(kept, " "); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// FuzzMerge makes chains and stacks of random bytes. Whatever they are, every
// call is there once and in its order, as is everything of the stack that is
// not left out.
func FuzzMerge(f *testing.F) {
	f.Add([]byte{1, 2, 3}, []byte{7, 6, 3, 2, 5, 1})
	f.Add([]byte{1, 1, 0x81}, []byte{1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, calls, stack []byte) {
		if len(calls) > 200 || len(stack) > 200 {
			return
		}
		functions := map[byte]*plan.Probe{}
		var c session.Chain
		for _, b := range calls {
			fn := functions[b&7]
			if fn == nil {
				fn = &plan.Probe{}
				fn.Func.Name = string(rune('a' + b&7))
				functions[b&7] = fn
			}
			// Some have returned to what may be in the stack.
			c.Frames = append(c.Frames, session.Frame{Func: fn, Returned: uint32(b>>4&7) << 8})
		}
		for _, b := range stack {
			c.Stack = append(c.Stack, uint64(b&7)<<8|uint64(b>>1&0xfc))
		}
		for _, unfiltered := range []bool{false, true} {
			m := merger{resolver: letters{}, unfiltered: unfiltered}
			rows := m.merge(&c)
			next := 0
			var shown []uint64
			for _, r := range rows {
				if r.call != nil {
					if next >= len(c.Frames) || r.call != &c.Frames[next] {
						t.Fatalf("call %v is not the next one", r.call)
					}
					if r.tracing {
						t.Error("a call at a frame of tracing itself")
					}
					next++
				}
				if r.symbol != nil && !r.symbol.Inlined {
					shown = append(shown, r.symbol.Addr)
				}
			}
			if next != len(c.Frames) {
				t.Errorf("%d of %d calls", next, len(c.Frames))
			}
			var want []uint64
			for i, addr := range slices.Backward(c.Stack) {
				if unfiltered || !m.skip[i] {
					want = append(want, addr)
				}
			}
			if fmt.Sprint(shown) != fmt.Sprint(want) || unfiltered && len(want) != len(c.Stack) {
				t.Errorf("rows %x, stack %x", shown, want)
			}
		}
	})
}
