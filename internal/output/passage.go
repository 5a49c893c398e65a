// SPDX-License-Identifier: Apache-2.0

package output

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// A liner tells which source lines a function's code comes from. *symbols.Resolver
// implements it.
type liner interface {
	Lines(dst []debuginfo.Row, addr uint64) []debuginfo.Row
}

// A passage is a way through one function. If all branches are recorded, the CPU executed
// everything from the target of one branch to the source of the next. So it is known which
// lines were passed and which were not.
type passage struct {
	rows   []debuginfo.Row
	states []code.State // for each row
	lines  []passedLine
}

type passedLine struct {
	line  uint32
	state code.State
}

// appendPassage appends which lines a way through a function passed, and which lines in
// between it did not; nothing if there are none of the latter. branches are those of the
// way, oldest first: the first leads into the function, or from one place in it to another.
func (p *passage) appendPassage(dst []byte, l liner, function string, branches []event.Branch, enters, leaves bool) []byte {
	inside := branches[0].To
	p.rows = l.Lines(p.rows[:0], inside)
	if len(p.rows) == 0 {
		return dst
	}
	p.states = append(p.states[:0], make([]code.State, len(p.rows))...)
	if !enters {
		p.pass(branches[0].From, branches[0].From)
	}
	for i, b := range branches[:len(branches)-1] {
		p.pass(b.To, branches[i+1].From)
	}
	if !leaves {
		last := branches[len(branches)-1].To
		p.pass(last, last)
	}
	file := p.fileAt(inside)
	p.collect(file)
	if !slices.ContainsFunc(p.lines, func(l passedLine) bool { return l.state == code.NotPassed }) {
		return dst
	}
	dst = append(terminal.AppendName(append(dst, "in "...), function), ", "...)
	dst = terminal.AppendName(dst, file)
	dst = p.appendLines(append(dst, ": passed "...), code.Passed)
	return p.appendLines(append(dst, "; not passed "...), code.NotPassed)
}

// pass marks the rows of the code from one address up to the instruction at another.
func (p *passage) pass(from, to uint64) {
	for i, r := range p.rows {
		end := to + 1
		if i+1 < len(p.rows) {
			end = p.rows[i+1].Addr
		}
		if r.Addr <= to && end > from {
			p.states[i] = code.Passed
		}
	}
}

// fileAt returns the source file of the code at addr.
func (p *passage) fileAt(addr uint64) string {
	n, found := slices.BinarySearchFunc(p.rows, addr, func(r debuginfo.Row, a uint64) int { return cmp.Compare(r.Addr, a) })
	if !found {
		n = max(n-1, 0)
	}
	return p.rows[n].File
}

// collect fills p.lines with the rows that belong to a source file, between the first and the
// last line passed there. A line counts as passed if any part of it was, and else as unsure if
// that is not known of some part.
func (p *passage) collect(file string) {
	p.lines = p.lines[:0]
	for i, r := range p.rows {
		if r.File == file && r.Line != 0 {
			p.lines = append(p.lines, passedLine{r.Line, p.states[i]})
		}
	}
	rank := [...]int{code.Passed: 0, code.Unsure: 1, code.NotPassed: 2}
	slices.SortFunc(p.lines, func(a, b passedLine) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(rank[a.state], rank[b.state]))
	})
	p.lines = slices.CompactFunc(p.lines, func(a, b passedLine) bool { return a.line == b.line })
	first := slices.IndexFunc(p.lines, func(l passedLine) bool { return l.state == code.Passed })
	if first < 0 {
		p.lines = p.lines[:0]
		return
	}
	last := len(p.lines) - 1
	for p.lines[last].state != code.Passed {
		last--
	}
	p.lines = p.lines[first : last+1]
}

// appendLines appends the lines of a state, as "53-54, 57".
func (p *passage) appendLines(dst []byte, state code.State) []byte {
	start := len(dst)
	for i := 0; i < len(p.lines); i++ {
		if p.lines[i].state != state {
			continue
		}
		first := i
		for i+1 < len(p.lines) && p.lines[i+1].state == state {
			i++
		}
		if len(dst) > start {
			dst = append(dst, ", "...)
		}
		dst = strconv.AppendUint(dst, uint64(p.lines[first].line), 10)
		if i > first {
			dst = strconv.AppendUint(append(dst, '-'), uint64(p.lines[i].line), 10)
		}
	}
	return dst
}
