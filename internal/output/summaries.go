// SPDX-License-Identifier: Apache-2.0

package output

import (
	"time"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// Summaries prints what aggregations have added up: a table for each item.
//
//	vfs_read: count()[return, $comm]
//	    return   $comm  count()
//	    4096     "cat"    1,234
//	    -EAGAIN  "ssh"       12
type Summaries struct {
	run     Run
	columns func() int
	style   *style
	forms   map[*summary.Table]*tableForm
	table   table
	tails   Tails
	lines   table // of one stack
	frames  []symbols.Frame
	started bool // a summary was printed
}

// NewSummaries returns a printer of a run. columns returns the width of the terminal that bars
// fill; nil or 0 means none. With colour text is marked for a terminal.Writer with colours.
func NewSummaries(run Run, columns func() int, colour bool) *Summaries {
	s := lineStyle(run.Names(), 0)
	s.named, s.colour = true, colour
	return &Summaries{run: run, columns: columns, style: s, forms: map[*summary.Table]*tableForm{}, table: table{colour: colour},
		tails: SummaryTails(run)}
}

// SummaryTails returns what names the stacks in keys of a run's tables.
func SummaryTails(run Run) Tails {
	t := Tails{Kernel: run.Resolver, User: run.User, names: run.Names()}
	if t.Kernel == nil {
		t.Kernel = symbols.New(run.Kernel, nil, symbols.LevelNone)
	}
	return t
}

// AppendHeader appends nothing.
func (s *Summaries) AppendHeader(dst []byte) ([]byte, error) { return dst, nil }

// AppendLoss appends that calls are missing.
func (s *Summaries) AppendLoss(dst []byte, l event.Loss) []byte {
	return appendMark(dst, l.Cause, l.Count, s.style.colour)
}

// AppendEnd appends nothing.
func (s *Summaries) AppendEnd(dst []byte, _ *Totals) ([]byte, error) { return dst, nil }

// AppendSummary appends all tables, and what they lack. If there are several summaries, each
// begins with its time.
func (s *Summaries) AppendSummary(dst []byte, x *summary.Summary) ([]byte, error) {
	if s.started || !x.Last {
		boot := s.run.BootNow()
		dst = append(appendDayTime(append(appendDayTime(dst, boot, x.Start), " to "...), boot, x.End), '\n')
	}
	s.started = true
	for i := range x.Tables {
		var err error
		if dst, err = s.appendTable(dst, &x.Tables[i], x.Stacks); err != nil {
			return dst, err
		}
	}
	for _, l := range x.Lost {
		dst = s.AppendLoss(dst, l)
	}
	return dst, nil
}

// appendDayTime appends a time of day, or of CLOCK_MONOTONIC if that is not known.
func appendDayTime(dst []byte, boot time.Time, ns uint64) []byte {
	if boot.IsZero() {
		return appendSeconds(dst, ns)
	}
	return boot.Add(time.Duration(ns)).Local().AppendFormat(dst, "15:04:05.000")
}

func (s *Summaries) appendTable(dst []byte, t *summary.Filled, stacks summary.Stacks) ([]byte, error) {
	f, err := s.form(t.Table)
	if err != nil {
		return dst, err
	}
	dst = append(appendPainted(dst, []byte(f.title), s.painted(terminal.Strong)), '\n')
	alike := s.tails.Alike(t, stacks)
	rows := alike.Sorted()
	if len(rows) == 0 {
		return append(dst, tableIndent+"no calls\n\n"...), nil
	}
	if hasBars(t.Agg) {
		dst = s.appendHistograms(dst, f, rows, stacks)
	} else {
		dst = s.appendRows(dst, f, rows, stacks)
	}
	return append(dst, '\n'), nil
}

func (s *Summaries) painted(as terminal.Style) terminal.Style {
	if s.style.colour {
		return as
	}
	return terminal.Plain
}

func (s *Summaries) form(t *summary.Table) (*tableForm, error) {
	f := s.forms[t]
	if f != nil {
		return f, nil
	}
	f, err := newTableForm(t, s.style)
	if err == nil {
		s.forms[t] = f
	}
	return f, err
}

// appendRows appends rows in columns: the keys that are no stacks, and the numbers. The stacks of
// a row are below it.
func (s *Summaries) appendRows(dst []byte, f *tableForm, rows []summary.Row, stacks summary.Stacks) []byte {
	t := &s.table
	names := valueColumns(f.table.Agg)
	t.columns = t.columns[:0]
	for i := range f.keys {
		if !f.keys[i].isStack() {
			t.columns = append(t.columns, column{gap: 2, right: f.isNumber(i)})
		}
	}
	keys := len(t.columns)
	for i := range names {
		t.columns = append(t.columns, column{gap: 2, right: i > 0 || f.table.Agg.Fn != expr.AggTop})
	}
	t.reset()
	head := keys > 0 || len(names) > 1
	if head {
		s.setHead(f, names, keys)
	}
	first := make([]int, len(rows)+1) // of each row's lines
	for i := range rows {
		first[i] = len(t.cells) / len(t.columns)
		s.addRow(f, &rows[i], keys)
	}
	first[len(rows)] = len(t.cells) / len(t.columns)
	if head {
		dst = t.appendRow(append(dst, tableIndent...), 0)
	}
	for i := range rows {
		for line := first[i]; line < first[i+1]; line++ {
			dst = t.appendRow(append(dst, tableIndent...), line)
		}
		dst = s.appendStacks(dst, f, &rows[i], stacks)
	}
	return dst
}

// isNumber reports whether a key is a plain number, which stands at the right of its column.
func (f *tableForm) isNumber(key int) bool {
	k := &f.keys[key]
	_, special := k.special()
	_, _, scalar := expr.Number(k.typ)
	return !special && !k.withheld && k.target == nil && scalar && !k.result && k.view == expr.ViewDefault
}

func (s *Summaries) setHead(f *tableForm, names []string, keys int) {
	t := &s.table
	t.row()
	at := 0
	for i := range f.keys {
		if !f.keys[i].isStack() {
			t.put(at, f.keys[i].label)
			t.paint(at, terminal.Faint)
			at++
		}
	}
	for i, name := range names {
		t.put(keys+i, terminal.Name(name))
		t.paint(keys+i, terminal.Faint)
	}
}

// addRow adds the lines of a row to the table: one, or one for each value of top().
func (s *Summaries) addRow(f *tableForm, r *summary.Row, keys int) {
	for _, cells := range f.cells(r.Words) {
		s.table.row()
		at := 0
		for i := range f.keys {
			if f.keys[i].isStack() {
				continue
			}
			start := len(s.table.text)
			s.table.text = s.appendKey(s.table.text, f, i, r)
			s.table.set(at, start)
			at++
		}
		for i, text := range cells {
			s.table.put(keys+i, text)
		}
	}
}

// appendKey appends a key of a row as captures are printed.
func (s *Summaries) appendKey(dst []byte, f *tableForm, i int, r *summary.Row) []byte {
	k := &f.keys[i]
	if v, ok := k.special(); ok && v == expr.ContextFunc {
		return appendProbeName(dst, s.run.Plan, keyWord(k, r))
	}
	e := rowEvent(f.table, r)
	return k.appendContent(dst, &e)
}

// appendStacks appends the stacks among the keys of a row.
func (s *Summaries) appendStacks(dst []byte, f *tableForm, r *summary.Row, stacks summary.Stacks) []byte {
	for i := range f.keys {
		if k := &f.keys[i]; k.isStack() {
			v, _ := k.special()
			dst = s.appendStack(dst, f, keyWord(k, r), v == expr.ContextUserStack, stacks)
		}
	}
	return dst
}
