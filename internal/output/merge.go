// SPDX-License-Identifier: Apache-2.0

package output

import (
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/symbols"
)

// A Resolver names the functions at an address, as symbols.Resolver does.
type Resolver interface {
	Frames(dst []symbols.Frame, addr uint64, returnAddress bool) []symbols.Frame
}

// A stackRow is a line of an error stack: a frame of the kernel's stack, a recorded call,
// or both.
type stackRow struct {
	symbol *symbols.Frame // nil if the kernel's stack does not have the call
	call   *session.Frame // nil if the function was not recorded
	// tracing says that the frame exists because of the tracing.
	tracing bool
}

// A merger merges the kernel's stack with the recorded calls. Its memory is reused.
type merger struct {
	resolver   Resolver
	unfiltered bool // show the frames of tracing too
	rows       []stackRow
	frames     []symbols.Frame // of the whole stack, innermost first
	starts     []int           // index in frames of each address's first frame, and the end
	skip       []bool          // of each address
	matched    []int           // of each address, the index of its call; -1 for none
	most       []uint8         // what match works with
}

// begins reports whether a function starts at an address, which is where a stack taken at a
// function's entry starts. A stack taken at a return starts where the function returns to,
// after the call.
func (m *merger) begins(addr uint64) bool {
	n := len(m.frames)
	m.frames = m.resolver.Frames(m.frames, addr, false)
	f := m.frames[len(m.frames)-1]
	m.frames = m.frames[:n]
	const probed = 5 // bytes: after a landing pad or the call of a tracer, before the function's own code
	return f.Name != "" && f.Offset <= probed
}

// merge returns the rows of a chain, outermost first. The kernel's stack also knows the
// functions between the recorded ones. The innermost call of the chain has already returned
// when the stack is taken, so its row comes last without a frame.
func (m *merger) merge(c *session.Chain) []stackRow {
	m.rows = m.rows[:0]
	m.resolve(c.Stack)
	calls := c.Frames
	for len(calls) > 0 && calls[0].Func.Kind == expr.UserFunction {
		m.rows = append(m.rows, stackRow{call: &calls[0]}) // from where the kernel was entered
		calls = calls[1:]
	}
	own := len(c.Stack)
	if c.Interrupt {
		own = m.interrupt(calls)
	}
	m.match(calls, own)
	next := 0
	for i := len(c.Stack) - 1; i >= 0; i-- {
		if m.skip[i] && !m.unfiltered {
			continue
		}
		group := m.frames[m.starts[i]:m.starts[i+1]]
		row := stackRow{symbol: &group[len(group)-1], tracing: m.skip[i]}
		if at := m.matched[i]; at >= 0 {
			for ; next < at; next++ {
				m.rows = append(m.rows, stackRow{call: &calls[next]})
			}
			row.call, row.tracing = &calls[next], false
			next++
		}
		m.rows = append(m.rows, row)
		for j := len(group) - 2; j >= 0; j-- {
			m.rows = append(m.rows, stackRow{symbol: &group[j]})
		}
		if m.skip[i] || i >= own {
			continue
		}
		for range m.jumped(c.Stack[i], calls, i, next) {
			m.rows = append(m.rows, stackRow{call: &calls[next]})
			next++
		}
	}
	for ; next < len(calls); next++ {
		m.rows = append(m.rows, stackRow{call: &calls[next]})
	}
	return m.rows
}

// resolve names the addresses of a stack, and marks those of the tracing.
func (m *merger) resolve(stack []uint64) {
	m.frames, m.starts = m.frames[:0], m.starts[:0]
	for i, addr := range stack {
		m.starts = append(m.starts, len(m.frames))
		m.frames = m.resolver.Frames(m.frames, addr, i > 0 || !m.begins(addr))
	}
	m.starts = append(m.starts, len(m.frames))
	m.skipTracing()
}

// A ChainFrame is a frame of the kernel's stack of a session, or a call of its chain that is
// not in the stack, or both.
type ChainFrame struct {
	Symbol *symbols.Frame // nil if the kernel's stack does not have the call
	Call   *session.Frame // nil if the function was not recorded
}

// A Merger merges the kernel's stacks with the calls of chains. Its memory is reused.
type Merger struct {
	merger merger
	frames []ChainFrame
}

// NewMerger returns a Merger that leaves out the frames of tracing itself.
func NewMerger(r Resolver) *Merger { return &Merger{merger: merger{resolver: r}} }

// Merge returns the frames of a chain, outermost first. They are valid until the next call.
func (m *Merger) Merge(c *session.Chain) []ChainFrame {
	m.frames = m.frames[:0]
	for _, row := range m.merger.merge(c) {
		m.frames = append(m.frames, ChainFrame{row.symbol, row.call})
	}
	return m.frames
}

// WithoutTracing returns the addresses of a session's stack that are not there because of
// the tracing.
func WithoutTracing(r Resolver, stack []uint64) []uint64 {
	m := merger{resolver: r}
	m.resolve(stack)
	var kept []uint64
	for i, addr := range stack {
		if !m.skip[i] {
			kept = append(kept, addr)
		}
	}
	return kept
}

// outer returns the function at address i, into which others may be inlined there.
func (m *merger) outer(i int) *symbols.Frame { return &m.frames[m.starts[i+1]-1] }

// interrupt returns how many of the innermost addresses are not of what the interrupt has interrupted, whose calls may
// be of the same functions.
func (m *merger) interrupt(calls []session.Frame) int {
	for i, skipped := range m.skip {
		if f := m.outer(i); !skipped && isInterrupt(f) && !slices.ContainsFunc(calls, func(c session.Frame) bool { return isCallOf(c.Func, f) }) {
			return i + 1
		}
	}
	return len(m.skip)
}

// isInterrupt reports whether a function is where the kernel begins with an interrupt, or with what soft interrupts
// have put off.
func isInterrupt(f *symbols.Frame) bool {
	name, _, _ := strings.Cut(f.Name, ".") // of copies, .constprop.0
	switch name {
	case "handle_softirqs", "__do_softirq", // the former since Linux 6.10
		"common_interrupt", "fred_extint": // of amd64
		return true
	}
	return strings.HasPrefix(name, "sysvec_") || strings.HasPrefix(name, "fred_sysvec_") ||
		strings.HasPrefix(name, "el") && (strings.HasSuffix(name, "_irq_handler") || strings.HasSuffix(name, "_fiq_handler")) // el1h_64_irq_handler of arm64
}

// match finds out which call each of the innermost own addresses belongs to: as many as there can be in the order of both, and
// of several ways the one with frames furthest in. A recorded function that is on the stack once more was called before the session.
func (m *merger) match(calls []session.Frame, own int) {
	m.matched = slices.Grow(m.matched[:0], len(m.skip))[:len(m.skip)]
	for i := range m.matched {
		m.matched[i] = -1
	}
	// most[a*width+b] is how many of the calls but for the a innermost ones match with the addresses from b on.
	width := own + 1
	size := (len(calls) + 1) * width
	m.most = slices.Grow(m.most[:0], size)[:size]
	clear(m.most)
	is := func(a, b int) bool {
		c := &calls[len(calls)-1-a]
		return !m.skip[b] && (a > 0 || !c.Finished) && isCallOf(c.Func, m.outer(b)) // the last has left the stack if it has returned
	}
	for a := len(calls) - 1; a >= 0; a-- {
		for b := own - 1; b >= 0; b-- {
			n := max(m.most[(a+1)*width+b], m.most[a*width+b+1])
			if is(a, b) {
				n = max(n, 1+m.most[(a+1)*width+b+1])
			}
			m.most[a*width+b] = n
		}
	}
	for a, b := 0, 0; b < own && m.most[a*width+b] > 0; b++ {
		for k := len(calls) - 1; k >= a; k-- { // of several calls the outermost: those further in may have left the stack
			if 1+m.most[(k+1)*width+b+1] == m.most[a*width+b] && is(k, b) {
				m.matched[b], a = len(calls)-1-k, k+1
				break
			}
		}
	}
	if m.unfiltered {
		m.matchEntries(calls, own)
	}
}

// matchEntries matches calls that have no frame but the place from where their function has called its trampoline.
func (m *merger) matchEntries(calls []session.Frame, own int) {
	limit := len(calls)
	for i := range own {
		if m.skip[i] && !isTrampoline(m.outer(i)) {
			first := 0 // that is not of an address further out
			if at := slices.IndexFunc(m.matched[i:], func(call int) bool { return call >= 0 }); at >= 0 {
				first = m.matched[i+at] + 1
			}
			for k := limit - 1; k >= first && m.matched[i] < 0; k-- {
				if isCallOf(calls[k].Func, m.outer(i)) {
					m.matched[i] = k
				}
			}
		}
		if m.matched[i] >= 0 {
			limit = m.matched[i]
		}
	}
}

// limit returns the first call that belongs to an address further in than i; all if there is none.
func (m *merger) limit(i, all int) int {
	for i--; i >= 0; i-- {
		if m.matched[i] >= 0 {
			return m.matched[i]
		}
	}
	return all
}

// jumped returns how many of the calls from next on were made by frame i, at addr, but are not in the
// stack: they ended with a jump to another function, which took their place. Their return
// addresses tell, or the trampolines that trace them.
func (m *merger) jumped(addr uint64, calls []session.Frame, i, next int) (n int) {
	trampolines, inner := 0, i-1
	var entered *symbols.Frame // what calls the trampoline, if that shows
	for ; inner >= 0 && m.skip[inner]; inner-- {
		f := m.outer(inner)
		if !isTrampoline(f) {
			entered = f
			continue
		}
		if entered == nil || slices.ContainsFunc(calls[next:], func(c session.Frame) bool { return isCallOf(c.Func, entered) }) {
			trampolines++ // else it is of a function that is traced for something else
		}
		entered = nil
	}
	if inner < 0 {
		trampolines = 0 // those belong to what took the stack
	}
	last := len(calls) - 1 // its trampoline is among those of what took the stack, when it returned
	for _, call := range calls[next:m.limit(i, len(calls))] {
		if call.Returned != 0 && call.Returned != uint32(addr) || call.Returned == 0 && (n >= trampolines || next+n == last) {
			break
		}
		n++
	}
	return n
}

// isCallOf compares addresses if they are known, since functions may share a name and one
// function may have several. A rarely used part of a function may be elsewhere, under a
// name of its own.
func isCallOf(fn *plan.Probe, f *symbols.Frame) bool {
	name, cold := strings.CutSuffix(f.Name, ".cold")
	if fn.Kind == expr.UserFunction {
		return false // whose namesakes are the kernel's
	}
	if fn.Func.Addr != 0 && f.Name != "" && !cold {
		return fn.Func.Addr == f.Addr-f.Offset
	}
	return fn.Func.Name == name && fn.Func.Module == f.Module
}

// skipTracing marks the addresses that are in the stack because of the tracing. These are
// the program that took the stack and what called it, up to a trampoline; and, further out, the trampolines of
// traced functions with the place near the start of the function that leads there.
func (m *merger) skipTracing() {
	m.skip = m.skip[:0]
	own := beginOf(len(m.starts)-1, func(i int) symbols.Frame { return *m.outer(i) })
	innermost, called := true, false // called: the current frame was called by a trampoline
	for _, end := range m.starts[1:] {
		f := &m.frames[end-1]
		var skip bool
		switch {
		case isTrampoline(f):
			skip, called = true, true
			innermost = innermost && f.Name == ""
		case innermost && own.has(f):
			skip, called = true, false
		default:
			skip = called && f.Offset <= entryCode
			innermost, called = innermost && skip, false
		}
		m.skip = append(m.skip, skip)
	}
}

// A begin is what the tracing adds to the begin of a stack. Frames are asked for innermost first.
type begin struct {
	programs bool // BPF programs that come now are those of the tracing; others are traced, or have called what is
}

// beginOf returns the begin of a stack of n frames. Its programs are the tracing's if the engine has taken the stack, or if a
// kprobe has called them: some kernels have them in its stack, below kprobe_multi_link_prog_run. In most, the stack that a kprobe
// takes begins with a caller.
func beginOf(n int, frame func(i int) symbols.Frame) begin {
	programs := false
	for i := range n {
		switch f := frame(i); {
		case f.Module == bpfModule && isEngine(&f):
			return begin{true}
		case f.Module == bpfModule:
			programs = true
		case programs || !servesProgram(&f):
			return begin{programs && f.Name != "" && isTracing(&f)}
		}
	}
	return begin{}
}

// has reports whether the next frame is there because of the tracing.
func (b *begin) has(f *symbols.Frame) bool {
	if f.Module == bpfModule {
		return b.programs
	}
	if !isTracing(f) {
		return false
	}
	if f.Name != "" && !servesProgram(f) {
		b.programs = false // it has called those of the tracing
	}
	return true
}

// isEngine reports whether a function is one of the engine: bpf_prog_4fb19054ecfa9720_ks_take_stack.
func isEngine(f *symbols.Frame) bool {
	return f.Module == bpfModule && strings.Contains(f.Name, "_ks_")
}

// entryCode bounds, in bytes, how far into a function the call of its trampoline returns:
// after a landing pad, on arm64 an instruction that saves the link register, and the call
// itself. Since Linux 6.19 the call may be a jump; the stack then looks as if the
// function's caller had called the trampoline.
const entryCode = 12

// bpfModule is the module that kallsyms gives for BPF programs.
const bpfModule = "bpf"

func isTrampoline(f *symbols.Frame) bool {
	key, ok := strings.CutPrefix(f.Name, "bpf_trampoline_") // a number; bpf_trampoline_get is the kernel's own
	return ok && key != "" && key[0] >= '0' && key[0] <= '9' || strings.HasPrefix(f.Name, "ftrace_trampoline") || f.Name == ""
}

// isTracing reports whether a function runs between a traced function and the program
// attached to it, or for that program.
func isTracing(f *symbols.Frame) bool {
	return f.Module == bpfModule || f.Name == "" || servesProgram(f) || strings.HasPrefix(f.Module, "__builtin__") || hasAnyPrefix(f.Name, callerPrefixes[:])
}

// servesProgram reports whether a function runs for a program, or runs it.
func servesProgram(f *symbols.Frame) bool { return hasAnyPrefix(f.Name, programPrefixes[:]) }

func hasAnyPrefix(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// These are never changed. They must not begin names of functions that serve bpf(), which
// people trace: bpf_prog_load, __bpf_prog_put.
var (
	programPrefixes = [...]string{
		"bpf_get_stack", "__bpf_get_stack", "bpf_get_task_stack", "get_perf_callchain", "perf_callchain_kernel",
		"__bpf_prog_enter", "__bpf_prog_exit", "__bpf_prog_run", "___bpf_prog_run",
	}
	callerPrefixes = [...]string{
		"trace_call_bpf", "ftrace_", "arch_ftrace_", "fprobe_", "rethook_", "arch_rethook_", "kprobe_", "kretprobe_", "__kretprobe_",
		"arch_kretprobe_", "kprobe_multi_link_", "aggr_pre_handler", "opt_pre_handler", "optimized_callback",
		"pre_handler_kretprobe", "trampoline_probe_handler", "exc_int3", "asm_exc_int3", "do_int3",
	}
)
