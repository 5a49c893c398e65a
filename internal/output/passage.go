// SPDX-License-Identifier: Apache-2.0

package output

import (
	"cmp"
	"slices"
	"strconv"

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
	passed []bool // for each row
	lines  []passedLine
}

type passedLine struct {
	line   uint32
	passed bool
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
	p.passed = append(p.passed[:0], make([]bool, len(p.rows))...)
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
	file, skipped := p.collect(inside)
	if !skipped {
		return dst
	}
	dst = append(terminal.AppendName(append(dst, "in "...), function), ", "...)
	dst = terminal.AppendName(dst, file)
	dst = p.appendLines(append(dst, ": passed "...), true)
	return p.appendLines(append(dst, "; not passed "...), false)
}

// pass marks the rows of the code from one address up to the instruction at another.
func (p *passage) pass(from, to uint64) {
	for i, r := range p.rows {
		end := to + 1
		if i+1 < len(p.rows) {
			end = p.rows[i+1].Addr
		}
		if r.Addr <= to && end > from {
			p.passed[i] = true
		}
	}
}

// collect fills p.lines with the rows that belong to the source file of the code at addr,
// between the first and the last line passed there. A line counts as passed if any part of
// it was.
func (p *passage) collect(addr uint64) (file string, skipped bool) {
	n, found := slices.BinarySearchFunc(p.rows, addr, func(r debuginfo.Row, a uint64) int { return cmp.Compare(r.Addr, a) })
	if !found {
		n = max(n-1, 0)
	}
	file = p.rows[n].File
	p.lines = p.lines[:0]
	for i, r := range p.rows {
		if r.File == file && r.Line != 0 {
			p.lines = append(p.lines, passedLine{r.Line, p.passed[i]})
		}
	}
	slices.SortFunc(p.lines, func(a, b passedLine) int {
		if a.line == b.line && a.passed != b.passed {
			return map[bool]int{true: -1, false: 1}[a.passed]
		}
		return cmp.Compare(a.line, b.line)
	})
	p.lines = slices.CompactFunc(p.lines, func(a, b passedLine) bool { return a.line == b.line })
	isPassed := func(l passedLine) bool { return l.passed }
	first := slices.IndexFunc(p.lines, isPassed)
	if first < 0 {
		return file, false
	}
	last := len(p.lines) - 1
	for !p.lines[last].passed {
		last--
	}
	p.lines = p.lines[first : last+1]
	return file, slices.ContainsFunc(p.lines, func(l passedLine) bool { return !l.passed })
}

// appendLines appends the lines that were passed, or those that were not, as "53-54, 57".
func (p *passage) appendLines(dst []byte, passed bool) []byte {
	start := len(dst)
	for i := 0; i < len(p.lines); i++ {
		if p.lines[i].passed != passed {
			continue
		}
		first := i
		for i+1 < len(p.lines) && p.lines[i+1].passed == passed {
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
