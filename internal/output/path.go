// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// AppendPath appends the way that a call took: which lines it has passed, or without debug info
// which code, and then each decision.
func (t *Tails) AppendPath(dst []byte, e *event.Event, p *event.Path) []byte {
	if p.Way == nil {
		return append(dst, sectionIndent+"path: not known, there was no room to keep it\n\n"...)
	}
	dst = append(dst, sectionIndent+"path:"...)
	dst = append(t.appendPathNote(dst, p), '\n')
	dst = append(t.AppendPassed(append(dst, rowIndent...), e, p), '\n')
	t.table.columns = append(t.table.columns[:0], column{gap: 2}, column{gap: 2}, column{gap: 2}, column{gap: 2}, column{})
	t.table.reset()
	shown, left := shownDecisions(p)
	for _, i := range shown {
		t.addDecision(e, &p.Decisions[i])
	}
	dst = t.appendRows(dst, rowIndent)
	if left > 0 {
		dst = fmt.Appendf(dst, "%s... and %s before the last %d\n", rowIndent, plural.Of(left, "decision{s}"), shownAtEnd)
	}
	return append(appendDecided(dst, e, p), '\n')
}

// appendPathNote appends what is to be known about a path.
func (t *Tails) appendPathNote(dst []byte, p *event.Path) []byte {
	if p.Missing > 0 {
		dst = fmt.Appendf(dst, " /* %s behind the first %d %s not kept */", plural.Of(p.Missing, "step{s}"), p.Gap, plural.Text(p.Missing, "{was|were}"))
	}
	if p.Way.Broken > 0 {
		dst = append(dst, " /* some steps were not seen */"...)
	}
	return dst
}

// How many decisions are shown: loops may make very many.
const (
	shownAtStart = 48
	shownAtEnd   = 48
)

// shownDecisions returns which decisions are shown, and how many are not.
func shownDecisions(p *event.Path) (shown []int, left int) {
	n := len(p.Decisions)
	left = max(n-shownAtStart-shownAtEnd, 0)
	for i := range n {
		if left == 0 || i < shownAtStart || i >= n-shownAtEnd {
			shown = append(shown, i)
		}
	}
	return shown, left
}

// AppendPassed appends which source lines a call has passed and which it has not or, where they
// are not known, which code.
func (t *Tails) AppendPassed(dst []byte, e *event.Event, p *event.Path) []byte {
	if l, ok := t.Kernel.(liner); ok {
		if file, ok := t.passage.ofWay(l, e.Probe.Way.Graph(), &e.Probe.Way.Code, p.Way); ok {
			dst = append(terminal.AppendName(append(dst, "in "...), e.Probe.Func.Name), ", "...)
			dst = append(terminal.AppendName(dst, file), ": "...)
			return appendStates(dst, t.passage.appendLines)
		}
	}
	dst = append(terminal.AppendName(append(dst, "in "...), e.Probe.Func.Name), ": "...)
	return appendStates(dst, func(dst []byte, s code.State) []byte {
		return appendCode(dst, &e.Probe.Way.Code, e.Probe.Way.Graph(), p.Way, s)
	})
}

// appendStates appends "passed 53-54; not passed 55; unknown 57" by what appends those of one
// state.
func appendStates(dst []byte, of func(dst []byte, s code.State) []byte) []byte {
	start := len(dst)
	for _, s := range [...]struct {
		state code.State
		title string
	}{{code.Passed, "passed "}, {code.NotPassed, "not passed "}, {code.Unsure, "unknown "}} {
		before := len(dst)
		if before > start {
			dst = append(dst, "; "...)
		}
		dst = append(dst, s.title...)
		titled := len(dst)
		if dst = of(dst, s.state); len(dst) == titled {
			dst = dst[:before]
		}
	}
	return dst
}

// appendCode appends the code of a state, as "+0x0 to +0x1c, +0x40 to +0x45".
func appendCode(dst []byte, f *code.Function, g *code.Graph, way *code.Way, state code.State) []byte {
	start := len(dst)
	for i := 0; i < len(g.Blocks); i++ {
		if way.Blocks[i] != state {
			continue
		}
		first := i
		for i+1 < len(g.Blocks) && way.Blocks[i+1] == state && g.Blocks[i+1].Start == g.Blocks[i].End {
			i++
		}
		if len(dst) > start {
			dst = append(dst, ", "...)
		}
		dst = append(append(append(dst, f.Place(g.Blocks[first].Start)...), " to "...), f.Place(g.Blocks[i].End-1)...)
	}
	return dst
}

// ofWay fills p.lines with the lines of a function. ok is false if they are not known.
func (p *passage) ofWay(l liner, g *code.Graph, f *code.Function, way *code.Way) (file string, ok bool) {
	p.rows, p.states = p.rows[:0], p.states[:0]
	for i := range f.Parts {
		part := &f.Parts[i]
		begin := len(p.rows)
		p.rows = l.Lines(p.rows, part.Addr)
		rows := p.rows[begin:]
		if i == 0 {
			if len(rows) == 0 {
				return "", false
			}
			file = rows[0].File
		}
		for j := range rows {
			end := part.Addr + uint64(len(part.Bytes))
			if j+1 < len(rows) {
				end = rows[j+1].Addr
			}
			p.states = append(p.states, stateOf(g, way, rows[j], end))
		}
	}
	p.collect(file)
	return file, true
}

// stateOf returns the state of the code of a row.
func stateOf(g *code.Graph, way *code.Way, row debuginfo.Row, end uint64) code.State {
	state := code.NotPassed
	first, _ := slices.BinarySearchFunc(g.Blocks, row.Addr, func(b code.Block, a uint64) int {
		if b.End <= a {
			return -1
		}
		return 1
	})
	for i := first; i < len(g.Blocks) && g.Blocks[i].Start < end; i++ {
		switch way.Blocks[i] {
		case code.Passed:
			return code.Passed
		case code.Unsure:
			state = code.Unsure
		}
	}
	return state
}

// Columns of decisions.
const (
	decisionPlace = iota
	decisionCompare
	decisionValues
	decisionJump
	decisionSource
)

// addDecision adds a row: where, what was compared with which values, and where it led to.
func (t *Tails) addDecision(e *event.Event, d *event.Decision) {
	f := &e.Probe.Way.Code
	t.table.row()
	t.table.put(decisionPlace, f.Place(d.Site.Addr))
	if d.Site.Compare != 0 && d.Site.Compare != d.Site.Addr {
		t.table.put(decisionCompare, f.Text(d.Site.Compare))
	}
	t.table.put(decisionValues, string(appendOperands(nil, d)))
	t.table.put(decisionJump, jumpText(f, e.Probe.Way.Graph(), d))
	start := len(t.table.text)
	if n := e.Probe.Way.Note(d.Site.Addr); n != nil && len(n.Lines) > 0 {
		t.table.text = terminal.AppendName(t.table.text, n.Lines[0].Place)
	} else {
		t.frames = t.Kernel.Frames(t.frames[:0], d.Site.Addr, false)
		t.table.text = t.frames[0].AppendSource(t.table.text)
	}
	t.table.set(decisionSource, start)
}

// appendOperands appends the operands of a decision: "%eax = 0x3, 0x8(%rdi) = ?".
func appendOperands(dst []byte, d *event.Decision) []byte {
	for i, o := range d.Site.Operands {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(append(dst, o.Text...), " = "...)
		if i >= len(d.Values) || d.Unreadable[i] {
			dst = append(dst, '?')
			continue
		}
		dst = strconv.AppendUint(append(dst, "0x"...), d.Values[i], 16)
	}
	return dst
}

// jumpText says which way a jump went: "jne to +0x40", "jne not taken".
func jumpText(f *code.Function, g *code.Graph, d *event.Decision) string {
	if !d.Taken {
		return f.Mnemonic(d.Site.Addr) + " not taken"
	}
	return f.Mnemonic(d.Site.Addr) + " to " + f.Place(g.JumpTarget(d.Site.Block))
}
