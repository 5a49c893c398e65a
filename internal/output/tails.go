// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/internal/unwind"
)

// A Process names the addresses of one process. *process.Process implements it.
type Process interface {
	// AppendFrame appends an address and what is known of it: nothing but the number if it is in no mapping.
	AppendFrame(dst []byte, addr uint64, returnAddress bool) []byte
	// Missing says why addresses have no names; "" if they have.
	Missing() string
}

// A lineTeller is a Process that also knows source lines and inlined functions, as of debug info.
type lineTeller interface {
	AppendLines(dst []debuginfo.Frame, addr uint64, returnAddress bool) []debuginfo.Frame
}

// A callTeller is a Process that also knows code.
type callTeller interface {
	// NoCaller reports whether an address is known to be no return address.
	NoCaller(addr uint64) bool
}

// Tails prints what follows the values of a record: stacks and branches.
type Tails struct {
	Kernel Resolver
	// User returns the names of addresses for the thread of an event, which was called
	// comm.
	User     func(e *bpf.Event, comm string) Process
	Branches BranchOptions
	names    Names // of keys

	rows     []byte
	addrs    []uint64
	users    []bpf.UserFrame
	sources  []debuginfo.Frame
	list     []event.Branch
	branches branchView
	passage  passage
	frames   []symbols.Frame // of one address
	stack    []symbols.Frame
	table    table
}

// append appends the sections of a record, each followed by an empty line.
func (t *Tails) append(dst []byte, e *event.Event) []byte {
	if s, ok := e.Tail.Section(bpf.SectionStack); ok {
		dst = t.appendStack(dst, e, s)
	}
	if s, ok := e.Tail.Section(bpf.SectionUserStack); ok {
		dst = t.AppendUserStack(dst, e, s)
	}
	if s, ok := e.Tail.Section(bpf.SectionBranches); ok {
		dst = t.appendBranches(dst, e, s)
	}
	if p, ok := e.Path(); ok {
		dst = t.AppendPath(dst, e, &p)
	}
	return dst
}

// appendStack appends the kernel's stack from the caller of the traced function on.
func (t *Tails) appendStack(dst []byte, e *event.Event, s bpf.Section) []byte {
	addrs := t.Callers(e, s)
	title, cut, inlined := "stack", s.Cut, e.Probe.Hook.Inlined
	if s.Caller {
		title, cut = "caller", len(addrs) == 0 && s.Cut && !inlined
		addrs = addrs[:min(len(addrs), 1)]
	}
	if len(addrs) == 0 && !cut && !inlined {
		return appendNothing(dst, title, s)
	}
	dst = append(append(append(dst, sectionIndent...), title...), ":\n"...)
	t.table.columns = append(t.table.columns[:0], column{gap: 2}, column{})
	t.table.reset()
	t.stack = t.appendCallers(t.stack[:0], e, s, addrs)
	for i := range t.stack {
		t.table.row()
		t.table.setFrame(0, &t.stack[i])
	}
	dst = t.appendRows(dst, rowIndent)
	return append(appendCut(dst, cut), '\n')
}

// AppendStack appends the frames of the kernel's stack from the caller of the traced function
// on, innermost first; of a caller's section that one alone. Inlined functions are frames
// too.
func (t *Tails) AppendStack(dst []symbols.Frame, e *event.Event, s bpf.Section) []symbols.Frame {
	addrs := t.Callers(e, s)
	if s.Caller {
		addrs = addrs[:min(len(addrs), 1)]
	}
	return t.appendCallers(dst, e, s, addrs)
}

// appendCallers appends the frames of addresses, and before them those between an inlined copy
// and the function that contains it.
func (t *Tails) appendCallers(dst []symbols.Frame, e *event.Event, s bpf.Section, addrs []uint64) []symbols.Frame {
	if e.Probe.Hook.Inlined {
		dst = append(dst, t.inliners(e.Probe)...)
		if s.Caller {
			return dst
		}
	}
	return t.appendAddresses(dst, addrs)
}

// appendAddresses appends the frames of return addresses.
func (t *Tails) appendAddresses(dst []symbols.Frame, addrs []uint64) []symbols.Frame {
	for _, addr := range addrs {
		dst = t.Kernel.Frames(dst, addr, true)
	}
	return dst
}

// appendNothing says that there is no stack, and why.
func appendNothing(dst []byte, title string, s bpf.Section) []byte {
	dst = append(append(append(dst, sectionIndent...), title...), ": none"...)
	if name := errno.Name(uint64(s.Errno)); s.Errno != 0 && name != "" {
		dst = append(append(append(dst, " (-"...), name...), ')')
	}
	return append(dst, "\n\n"...)
}

// appendCut says that a stack is deeper than what was taken.
func appendCut(dst []byte, cut bool) []byte {
	if cut {
		dst = append(dst, rowIndent+"... and more, which were not taken\n"...)
	}
	return dst
}

// Callers returns the addresses of a stack of the kernel from the caller of the traced
// function on, innermost first. They are valid until the next call.
func (t *Tails) Callers(e *event.Event, s bpf.Section) []uint64 {
	t.addrs = event.AppendAddresses(t.addrs[:0], s)
	if isPoint(e.Probe) {
		return t.pointCallers(t.addrs)
	}
	addrs, _ := t.callers(t.addrs, e.Probe)
	return addrs
}

// callers returns the part of a stack below the traced function, in place, and which of the probes is on that function;
// nil if the stack does not tell. What is above belongs to the tracing. The function itself is only the innermost frame that
// does not, at its entry or, of an instruction, anywhere: one further out is another call of it. It has no frame where a
// kprobe sees it return, nor below a trampoline that was jumped to.
func (t *Tails) callers(addrs []uint64, probes ...*plan.Probe) ([]uint64, *plan.Probe) {
	addrs, trampoline := t.withoutPrograms(addrs, probes)
	if len(addrs) == 0 {
		return addrs, nil
	}
	innermost := t.symbol(addrs[0])
	for _, p := range probes {
		if inProbe(innermost, p) && (innermost.Offset <= entryCode || p.Hook.Kind == expr.Instruction) {
			return t.withoutTrampolines(addrs[1:]), p
		}
	}
	if trampoline && t.entry(addrs[0]) {
		addrs = addrs[1:]
	}
	return t.withoutTrampolines(addrs), nil
}

// withoutPrograms removes what the tracing adds to the begin of a stack, and reports whether a trampoline did.
func (t *Tails) withoutPrograms(addrs []uint64, probes []*plan.Probe) (rest []uint64, trampoline bool) {
	own := beginOf(len(addrs), func(i int) symbols.Frame { return t.symbol(addrs[i]) })
	own.programs = own.programs || slices.ContainsFunc(probes, func(p *plan.Probe) bool { return p.Method.Trampoline() })
	for len(addrs) > 0 && !trampoline {
		s := t.symbol(addrs[0])
		if !own.has(&s) {
			break
		}
		addrs, trampoline = addrs[1:], isTrampoline(&s) && s.Name != ""
	}
	return addrs, trampoline
}

// pointCallers is callers for the stack of a tracepoint: it begins with the function that the tracepoint is in.
func (t *Tails) pointCallers(addrs []uint64) []uint64 {
	for len(addrs) > 0 {
		if s := t.symbol(addrs[0]); !isTracing(&s) && !callsPrograms(&s) {
			break
		}
		addrs = addrs[1:]
	}
	return t.withoutTrampolines(addrs)
}

// isPoint reports whether a probe is on a tracepoint.
func isPoint(p *plan.Probe) bool {
	return p.Hook.Kind == expr.Tracepoint || p.Hook.Kind == expr.RawTracepoint
}

// callsPrograms reports whether a function runs between a tracepoint and its programs: bpf_trace_run2, for several
// programs below __traceiter_sys_enter, or for a system call's own tracepoint below perf_syscall_enter.
func callsPrograms(f *symbols.Frame) bool {
	for _, prefix := range [...]string{"bpf_trace_run", "__bpf_trace_", "__traceiter_", "perf_syscall_enter", "perf_syscall_exit"} {
		if strings.HasPrefix(f.Name, prefix) {
			return true
		}
	}
	return false
}

// withoutTrampolines removes what tracing of outer functions adds to a stack: a trampoline,
// and the place near the start of the function that calls it.
func (t *Tails) withoutTrampolines(addrs []uint64) []uint64 {
	kept := addrs[:0]
	for i := 0; i < len(addrs); i++ {
		s := t.symbol(addrs[i])
		if isTrampoline(&s) {
			called := i+1 < len(addrs) && t.entry(addrs[i+1])
			if called {
				i++
			}
			if called || s.Name != "" {
				continue
			}
		}
		kept = append(kept, addrs[i])
	}
	return kept
}

// entry reports whether an address is where a function's entry calls its trampoline.
func (t *Tails) entry(addr uint64) bool {
	s := t.symbol(addr)
	return s.Name != "" && s.Offset <= entryCode
}

func (t *Tails) symbol(addr uint64) symbols.Frame {
	t.frames = t.Kernel.Frames(t.frames[:0], addr, false)
	return t.frames[len(t.frames)-1]
}

// inliners returns the frames of the function that contains an inlined copy, and those between
// the two.
func (t *Tails) inliners(p *plan.Probe) []symbols.Frame {
	t.frames = t.Kernel.Frames(t.frames[:0], p.Func.Addr+p.Hook.Offset, false)
	// A function that it calls may be inlined at its start too.
	own := slices.IndexFunc(t.frames, func(f symbols.Frame) bool { return f.Inlined && f.Name == p.Hook.Name })
	return t.frames[own+1:]
}

// appendRows appends the rows of the table.
func (t *Tails) appendRows(dst []byte, indent string) []byte {
	for row := range len(t.table.cells) / len(t.table.columns) {
		dst = t.table.appendRow(append(dst, indent...), row)
	}
	return dst
}

// userEnd is above all addresses of processes.
const userEnd = 1 << 56

// UserFrames returns the frames of the stack of a process, innermost first, and why there are no
// more; "" if that is not known, or nothing is missing. They are valid until the next call.
func (t *Tails) UserFrames(s bpf.Section) (frames []bpf.UserFrame, end string) {
	var why uint8
	t.users, why = event.AppendUserFrames(t.users[:0], s)
	return t.users, unwind.End(why).String()
}

// userAddresses returns those of t.addrs that can be addresses of a process.
func (t *Tails) userAddresses() []uint64 {
	// Without frame pointers, the unwinder may be led anywhere.
	if end := slices.IndexFunc(t.addrs, func(a uint64) bool { return a == 0 || a >= userEnd }); end >= 0 {
		t.addrs = t.addrs[:end]
	}
	return t.addrs
}

// AppendUserStack appends the stack of the process, named by its maps and symbols.
func (t *Tails) AppendUserStack(dst []byte, e *event.Event, s bpf.Section) []byte {
	frames, end := t.UserFrames(s)
	if len(frames) == 0 {
		return appendNothing(dst, "user stack", s)
	}
	dst = append(dst, sectionIndent+"user stack:\n"...)
	process := t.User(&e.Event, string(cString(e.Comm[:])))
	within := callersOf(process, frames)
	wrong := len(within) < len(frames)
	if !s.Unwound {
		within = withinCode(dst, process, within)
	}
	for _, f := range within {
		lines := t.UserLines(process, f)
		for i := range lines[:max(len(lines), 1)-1] {
			inlined := &lines[i]
			dst = appendLine(terminal.AppendName(append(dst, rowIndent+". "...), inlined.Func), inlined)
			dst = append(dst, '\n')
		}
		dst = process.AppendFrame(append(dst, rowIndent...), f.Addr(), !f.Exact())
		if n := len(lines); n > 0 {
			dst = appendLine(dst, &lines[n-1])
		}
		if way := unwind.Way(f.Way()); s.Unwound && way > unwind.ByTable {
			dst = append(append(append(dst, "  ["...), way.String()...), ']')
		}
		dst = append(dst, '\n')
	}
	switch {
	case wrong && unwind.Way(frames[len(within)].Way()) == unwind.ByCall:
		dst = append(append(append(dst, rowIndent+"... "...), unwind.EndUnmapped.String()...), '\n')
	case wrong:
		dst = append(dst, rowIndent+noCaller+"\n"...)
	case len(within) < len(frames):
		dst = append(dst, rowIndent+NoCode+"\n"...)
	default:
		dst = appendCut(dst, s.Cut)
	}
	if end != "" && !wrong {
		dst = append(append(append(dst, rowIndent+"... "...), end...), '\n')
	}
	if why := process.Missing(); why != "" {
		dst = append(append(append(dst, rowIndent+"/* "...), why...), " */\n"...)
	}
	return append(dst, '\n')
}

// NoCode stands at the end of a stack of a process that leaves its code.
const NoCode = "... no code above, since a function has no frame pointer"

// noCaller stands where a stack of a process comes to an address in code that no call is before.
const noCaller = "... no caller above, since a function has no frame pointer"

// callersOf returns frames up to the first one that was found by a frame pointer, or because the one below has no code, and is no
// caller's: what led there was no frame pointer or no call, and leads on to nothing.
func callersOf(process Process, frames []bpf.UserFrame) []bpf.UserFrame {
	code, ok := process.(callTeller)
	if !ok {
		return frames
	}
	for i, f := range frames {
		if way := unwind.Way(f.Way()); !f.Exact() && (way == unwind.ByPointer || way == unwind.ByCall) && code.NoCaller(f.Addr()) {
			return frames[:i]
		}
	}
	return frames
}

// withinCode returns frames without those at the end that are in no mapping: a function has used the register of frame
// pointers for something else, which may lead to itself again and again. If no frame is in a mapping, none is known, and all are
// returned. What dst has room for is written to.
func withinCode(dst []byte, process Process, frames []bpf.UserFrame) []bpf.UserFrame {
	n := len(dst)
	for end := len(frames); end > 0; end-- {
		f := frames[end-1]
		dst = strconv.AppendUint(append(dst[:n], "0x"...), f.Addr(), 16)
		bare := len(dst)
		if dst = process.AppendFrame(dst, f.Addr(), !f.Exact()); !bytes.Equal(dst[n:bare], dst[bare:]) {
			return frames[:end]
		}
	}
	return frames
}

// UserLines returns where in the source a frame of a process is: the functions that were inlined
// there, innermost first, and the function itself; nothing if that is not known. They are valid until
// the next call.
func (t *Tails) UserLines(process Process, f bpf.UserFrame) []debuginfo.Frame {
	t.sources = t.sources[:0]
	if l, ok := process.(lineTeller); ok {
		t.sources = l.AppendLines(t.sources, f.Addr(), !f.Exact())
	}
	return t.sources
}

// appendLine appends a place in the source, as "  (a.c:12:3)".
func appendLine(dst []byte, f *debuginfo.Frame) []byte {
	if f.File == "" {
		return dst
	}
	at := sourceOf(f)
	return append(at.AppendSource(append(dst, "  ("...)), ')')
}

// sourceOf returns the place of a frame in the source.
func sourceOf(f *debuginfo.Frame) symbols.Frame {
	return symbols.Frame{File: f.File, Line: int(f.Line), Column: int(f.Column)}
}
