// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/symbols"
)

// appendBranches appends the section with branches, and how many of them belong to the
// tracing.
func (t *Tails) appendBranches(dst []byte, e *event.Event, s bpf.Section) []byte {
	t.branches.resolver = t.Kernel
	t.list = event.AppendBranches(t.list[:0], s)
	if len(t.list) == 0 {
		return appendNoBranches(dst, s)
	}
	t.branches.all = s.All
	rows, own := t.branches.appendChosen(t.rows[:0], t.list, e.Probe, e.Kind != bpf.KindEntry, t.Branches, rowIndent)
	t.rows = rows
	dst = append(dst, sectionIndent+"branches:"...)
	switch {
	case own == 1:
		dst = append(dst, " /* the newest is the tracing's own */"...)
	case own > 1:
		dst = fmt.Appendf(dst, " /* the newest %d are the tracing's own */", own)
	}
	dst = append(append(dst, '\n'), rows...)
	return append(dst, '\n')
}

// BranchOptions say which branches to show.
type BranchOptions struct {
	Max        int  // the newest so many; 0 means all
	Unfiltered bool // include branches that belong to the tracing itself
}

// appendChosen appends the branches to show. Branches come newest first; it returns how
// many of the newest it left out. p is on the function that returned or, if returned is false,
// was called.
func (v *branchView) appendChosen(dst []byte, branches []event.Branch, p *plan.Probe, returned bool, o BranchOptions, indent string) ([]byte, int) {
	first, end := 0, len(branches)
	if !o.Unfiltered {
		first = v.ownTail(branches, p, returned)
	}
	if o.Max > 0 {
		end = min(end, first+o.Max)
	}
	return v.append(dst, branches[first:end], first, indent), first
}

// appendNoBranches says why there are no branches.
func appendNoBranches(dst []byte, s bpf.Section) []byte {
	dst = appendWhyNoBranches(append(dst, sectionIndent+"branches: none"...), s.Errno)
	return append(dst, "\n\n"...)
}

// appendWhyNoBranches explains an error number of the branch snapshot.
func appendWhyNoBranches(dst []byte, no uint32) []byte {
	switch unix.Errno(no) {
	case 0, unix.ENOENT: // as the kernel answers if the recorder is empty
		return dst
	case unix.ENODEV:
		return append(dst, ", this CPU does not record them"...)
	case unix.EBUSY:
		return append(dst, ", others took their place too soon"...)
	}
	return append(append(append(dst, " (-"...), errno.Name(uint64(no))...), ')')
}

// Columns of branches.
const (
	branchNumber = iota
	branchFrom
	branchFromSource
	branchArrow
	branchTo
	branchToSource
	branchFlags
)

// A branchView prints branches, oldest first, each with the functions inlined at either
// end:
//
//	[#04] array_map_alloc_check+0x74 (kernel/bpf/arraymap.c:79:1)  ->  __sys_bpf+0xca0      (kernel/bpf/syscall.c:4629:9)
//	                                                                   . map_create         (kernel/bpf/syscall.c:863:8)
//	                                                                   . find_and_alloc_map (kernel/bpf/syscall.c:123:6)
//
// Branches have the CPU's numbers: 0 is the newest.
type branchView struct {
	resolver Resolver
	all      bool // no branch is missing between two of them
	table    table
	from, to []symbols.Frame
	ordered  []event.Branch // oldest first
	passage  passage
	notes    []byte
	ends     []noteEnd
}

// A noteEnd is a note that follows a row of the table.
type noteEnd struct {
	row int
	end int // where its text ends in notes
}

// append prints branches, which come newest first. newest is the number of the first.
func (v *branchView) append(dst []byte, branches []event.Branch, newest int, indent string) []byte {
	t := &v.table
	t.columns = append(t.columns[:0], column{gap: 1}, column{gap: 1}, column{gap: 2}, column{gap: 2}, column{gap: 1}, column{gap: 2}, column{})
	t.reset()
	v.notes, v.ends = v.notes[:0], v.ends[:0]
	v.ordered = append(v.ordered[:0], branches...)
	slices.Reverse(v.ordered)
	begin := 0
	for i, b := range v.ordered {
		v.add(newest+len(branches)-1-i, b)
		if i+1 == len(v.ordered) || v.start(b.To) != v.start(v.ordered[i+1].From) {
			v.note(v.ordered[begin : i+1])
			begin = i + 1
			continue
		}
		if i > begin && v.start(b.From) != v.start(b.To) {
			v.note(v.ordered[begin : i+1])
			begin = i
		}
	}
	for _, source := range [...]int{branchFromSource, branchToSource} {
		if t.columns[source].width == 0 { // there are no lines to show
			t.columns[source-1].gap = 0
		}
	}
	note, start := 0, 0
	for row := range len(t.cells) / len(t.columns) {
		dst = t.appendRow(append(dst, indent...), row)
		for ; note < len(v.ends) && v.ends[note].row == row; note++ {
			dst = append(append(append(dst, indent...), "      "...), v.notes[start:v.ends[note].end]...)
			dst = append(dst, '\n')
			start = v.ends[note].end
		}
	}
	return dst
}

// start returns the start of the function at an address, or 0.
func (v *branchView) start(addr uint64) uint64 {
	s := v.symbol(addr)
	if s.Name == "" {
		return 0
	}
	return s.Addr - s.Offset
}

// note adds, after the last row, which lines a way through a function has passed. The first
// branch of a way may come from another function, and the last may lead to one.
func (v *branchView) note(way []event.Branch) {
	l, ok := v.resolver.(liner)
	if !ok || !v.all || len(way) < 2 {
		return
	}
	inside, last := v.start(way[0].To), way[len(way)-1]
	enters, leaves := v.start(way[0].From) != inside, v.start(last.To) != inside
	before := len(v.notes)
	v.notes = v.passage.appendPassage(v.notes, l, v.symbol(way[0].To).Name, way, enters, leaves)
	if len(v.notes) > before {
		v.ends = append(v.ends, noteEnd{len(v.table.cells)/len(v.table.columns) - 1, len(v.notes)})
	}
}

// add adds the rows of a branch: as many as there are functions at the end that has more of
// them.
func (v *branchView) add(number int, b event.Branch) {
	t := &v.table
	v.from = v.resolver.Frames(v.from[:0], b.From, false)
	v.to = v.resolver.Frames(v.to[:0], b.To, false)
	for i := range max(len(v.from), len(v.to)) {
		t.row()
		if i == 0 {
			start := len(t.text)
			t.text = append(t.text, "[#"...)
			if number < 10 {
				t.text = append(t.text, '0')
			}
			t.text = append(strconv.AppendInt(t.text, int64(number), 10), ']')
			t.set(branchNumber, start)
			t.put(branchArrow, "->")
			v.addFlags(b)
		}
		// The resolver lists the innermost function first.
		if n := len(v.from) - 1 - i; n >= 0 {
			t.setFrame(branchFrom, &v.from[n])
		}
		if n := len(v.to) - 1 - i; n >= 0 {
			t.setFrame(branchTo, &v.to[n])
		}
	}
}

// addFlags sets the cell with what else the CPU tells about a branch.
func (v *branchView) addFlags(b event.Branch) {
	t := &v.table
	start := len(t.text)
	say := func(what string) {
		if len(t.text) > start {
			t.text = append(t.text, ", "...)
		}
		t.text = append(t.text, what...)
	}
	if miss, _ := b.Mispredicted(); miss {
		say("mispredicted")
	}
	if n := b.Cycles(); n > 0 {
		say("")
		t.text = append(strconv.AppendUint(t.text, uint64(n), 10), " cycles"...)
	}
	if b.InTransaction() {
		say("in a transaction")
	}
	if b.Aborted() {
		say("aborted")
	}
	t.set(branchFlags, start)
}

// ownTail returns how many of the newest branches belong to the tracing: they come after
// the traced function returned or, if atReturn is false, after it began. If the function
// does not occur among the branches, this is unknown, and the result is 0.
func (v *branchView) ownTail(branches []event.Branch, p *plan.Probe, atReturn bool) int {
	newest := -1
	for i, b := range branches {
		if inProbe(v.symbol(b.From), p) || inProbe(v.symbol(b.To), p) {
			newest = i
			break
		}
	}
	if newest <= 0 || !atReturn {
		return max(newest, 0)
	}
	// The function may be left from other code: a return thunk, or a function that it
	// jumped to at its end. The return's target is then the first address of the tracing.
	for i := newest; ; i-- {
		if to := v.symbol(branches[i].To); isLanding(to) {
			return i
		}
		if i == 0 {
			return newest
		}
		if from := v.symbol(branches[i-1].From); isTracing(&from) {
			return i
		}
	}
}

// symbol returns the function whose code is at an address.
func (v *branchView) symbol(addr uint64) symbols.Frame {
	v.from = v.resolver.Frames(v.from[:0], addr, false)
	return v.from[len(v.from)-1]
}

// inProbe reports whether a symbol is of the function that a probe is on. A tracepoint is on none: its name may be
// that of a function that has called it, as tcp_retransmit_skb is.
func inProbe(s symbols.Frame, p *plan.Probe) bool {
	switch p.Hook.Kind {
	case expr.Tracepoint, expr.RawTracepoint, expr.UserFunction, expr.StaticProbe:
		return false
	}
	return p.Func.Name != "" && within(s, p.Func)
}

// within reports whether a symbol is of a function, or of the part of it that the compiler
// moved away as rarely used.
func within(s symbols.Frame, f kernel.Function) bool {
	name, _, _ := strings.Cut(s.Name, ".cold")
	return s.Name != "" && (name == f.Name && s.Module == f.Module || f.Addr != 0 && s.Addr-s.Offset == f.Addr)
}

// isLanding reports whether traced functions return to this address instead of to their
// callers.
func isLanding(s symbols.Frame) bool {
	switch s.Name {
	case "__kretprobe_trampoline", "kretprobe_trampoline", "arch_rethook_trampoline", "return_to_handler":
		return true
	}
	return isTrampoline(&s)
}
