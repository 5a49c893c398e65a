// SPDX-License-Identifier: Apache-2.0

package jsonlines

import (
	"encoding/binary"
	"strconv"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/summary"
)

// A tableForm says how the rows of a table are written.
type tableForm struct {
	keys  []column
	value *column // nil for count()
	sum   scalar  // of sums and bounds: 64 bits with the sign of the value
	head  []byte  // of each line, which is the same for all
}

// AppendSummary appends a line for each table, before it the stacks that are new, and behind all
// of them what is missing.
func (p *Printer) AppendSummary(dst []byte, x *summary.Summary) ([]byte, error) {
	for i := range x.Tables {
		var err error
		if dst, err = p.appendTable(dst, x, &x.Tables[i]); err != nil {
			return dst, err
		}
	}
	for _, l := range x.Lost {
		dst = p.AppendLoss(dst, l)
	}
	return dst, nil
}

func (p *Printer) appendTable(dst []byte, x *summary.Summary, t *summary.Filled) ([]byte, error) {
	f, err := p.tableForm(t.Table)
	if err != nil {
		return dst, err
	}
	alike := p.tails.Alike(t, x.Stacks)
	rows := alike.Sorted()
	dst, stacks := p.newStacks(dst, f, t.Table, rows, x.Stacks)
	dst = p.clock.appendTime(p.open(dst, "summary"), x.End)
	dst = append(appendComma(appendUint(dst, "start", x.Start)), f.head...)
	for i := range rows {
		dst = p.appendRow(append(appendComma(dst), `{"keys":{`...), f, t.Table, &rows[i], &stacks[i], x.Stacks)
	}
	return append(dst, "]}\n"...), nil
}

// tableForm works out how a table is written.
func (p *Printer) tableForm(t *summary.Table) (*tableForm, error) {
	if f := p.tables[t]; f != nil {
		return f, nil
	}
	keys, value, err := p.records.fields.Keys(t)
	if err != nil {
		return nil, err
	}
	f := &tableForm{}
	for _, k := range keys {
		c, err := p.records.column(k)
		if err != nil {
			return nil, err
		}
		f.keys = append(f.keys, c)
	}
	if value != nil {
		c, err := p.records.column(*value)
		if err != nil {
			return nil, err
		}
		f.value = &c
		f.sum = scalar{form: formNumber, size: 8, signed: summary.Signed(t.Agg), quoted: p.records.options.Strings64}
	}
	f.head = appendTableHead([]byte{'{'}, t)[1:]
	p.tables[t] = f
	return f, nil
}

// appendTableHead appends what says which table it is, up to its rows.
func appendTableHead(dst []byte, t *summary.Table) []byte {
	dst = append(appendText(appendText(dst, "spec", t.Spec), "item", t.Agg.Label), `,"keys":[`...)
	for i := range t.Agg.Keys {
		dst = appendString(appendComma(dst), t.Agg.Keys[i].Label)
	}
	dst = append(dst, `],"functions":[`...)
	for _, probe := range t.Probes {
		dst = strconv.AppendInt(appendComma(dst), int64(probe.ID), 10)
	}
	dst = append(dst, ']')
	if t.Agg.Value != nil {
		dst = appendType(appendText(dst, "of", t.Agg.Of), "type", t.Agg.Value.Type())
	}
	switch t.Agg.Unit {
	case expr.UnitNanos:
		dst = appendText(dst, "unit", "ns")
	case expr.UnitBytes:
		dst = appendText(dst, "unit", "bytes")
	}
	return append(dst, `,"rows":[`...)
}

// rowStacks are the stacks of the kernel among the keys of a row.
type rowStacks struct {
	ids []uint64 // by key; 0: it is none, or there was none
	cut bool
}

// newStacks appends the lines of stacks that are not written yet, and returns those of each row.
func (p *Printer) newStacks(dst []byte, f *tableForm, t *summary.Table, rows []summary.Row, stacks summary.Stacks) ([]byte, []rowStacks) {
	all := make([]rowStacks, len(rows))
	for j := range f.keys {
		v, ok := f.keys[j].field.KeyVar()
		if !ok || v != expr.ContextStack || stacks == nil {
			continue
		}
		for i := range rows {
			number, _ := output.KeyEvent(t, &rows[i]).Value(f.keys[j].scalarSlot)
			s, ok := stacks.Stack(number, false)
			if !ok {
				continue
			}
			if all[i].ids == nil {
				all[i].ids = make([]uint64, len(f.keys))
			}
			all[i].cut = s.Cut
			dst, all[i].ids[j] = p.appendSummedStack(dst, t, &s)
		}
	}
	return dst, all
}

// appendSummedStack appends the line of a stack if it is not written yet, and returns its ID.
func (p *Printer) appendSummedStack(dst []byte, t *summary.Table, s *summary.Stack) ([]byte, uint64) {
	p.frames = p.tails.AppendSummed(p.frames[:0], t, s)
	p.addrs = p.addrs[:0]
	for i := range p.frames {
		p.addrs = append(p.addrs, p.frames[i].Addr)
	}
	id, isNew := p.stacks.ofAddresses(p.addrs)
	if !isNew {
		return dst, id
	}
	dst = p.openStack(dst, id)
	for i := range p.frames {
		dst = appendFrame(appendComma(dst), &p.frames[i])
	}
	return append(dst, "]}\n"...), id
}

// appendRow appends the keys and the numbers of a row.
func (p *Printer) appendRow(dst []byte, f *tableForm, t *summary.Table, r *summary.Row, own *rowStacks, stacks summary.Stacks) []byte {
	e := output.KeyEvent(t, r)
	for i := range f.keys {
		c := &f.keys[i]
		dst = appendKey(dst, c.key)
		v, special := c.field.KeyVar()
		switch {
		case !special:
			var s state
			switch dst, s = p.records.append(dst, c, e); s {
			case cut:
				p.records.short = append(p.records.short, gap{key: c.key})
			case unread:
				p.records.missing = append(p.records.missing, gap{c.key, c.reason})
			}
		case v == expr.ContextFunc:
			dst = appendString(dst, c.field.AppendKey(nil, p.run.Plan, e))
		case v == expr.ContextUserStack:
			dst = p.appendSummedUser(dst, c, e, stacks)
		case own.ids == nil || own.ids[i] == 0:
			dst = append(dst, "null"...)
		default:
			dst = strconv.AppendUint(dst, own.ids[i], 10)
		}
	}
	dst = appendTrue(p.records.appendGaps(append(dst, '}')), "stack_cut", own.cut)
	return append(p.appendNumbers(dst, f, t.Agg, r.Words), '}')
}

// appendSummedUser appends a stack in user space, innermost first.
func (p *Printer) appendSummedUser(dst []byte, c *column, e *event.Event, stacks summary.Stacks) []byte {
	var s summary.Stack
	ok := false
	if number, _ := e.Value(c.scalarSlot); stacks != nil {
		s, ok = stacks.Stack(number, true)
	}
	if !ok || p.tails.User == nil {
		return append(dst, "null"...)
	}
	addrs, process := p.tails.SummedUser(&s)
	dst = append(dst, '[')
	for i, addr := range addrs {
		dst = appendAddress(append(appendComma(dst), `{"addr":`...), addr)
		p.records.name = process.AppendFrame(p.records.name[:0], addr, i > 0)
		dst = append(appendText(dst, "text", p.records.name), '}')
	}
	return append(dst, ']')
}

// appendNumbers appends what was added up.
func (p *Printer) appendNumbers(dst []byte, f *tableForm, g *expr.Aggregation, words []uint64) []byte {
	if n, ok := summary.Calls(g, words); ok {
		dst = appendUint(dst, "calls", n)
	}
	switch g.Fn {
	case expr.AggSum, expr.AggAvg, expr.AggStats:
		dst = f.sum.appendNumber(appendKey(dst, "sum"), summary.Sum(words))
	}
	switch g.Fn {
	case expr.AggAvg, expr.AggStats:
		dst = strconv.AppendFloat(appendKey(dst, "avg"), summary.Mean(g, words), 'g', -1, 64)
	}
	switch g.Fn {
	case expr.AggMin, expr.AggStats:
		dst = p.appendValue(appendKey(dst, "min"), f, g.Minimum(words))
	}
	switch g.Fn {
	case expr.AggMax, expr.AggStats:
		dst = p.appendValue(appendKey(dst, "max"), f, g.Maximum(words))
	case expr.AggQuantiles:
		for _, q := range summary.Quantiles(g, words) {
			if dst = appendKey(dst, q.Name); q.Negative {
				dst = append(dst, "null"...)
			} else {
				dst = p.appendValue(dst, f, q.Value)
			}
		}
	case expr.AggHist, expr.AggLHist:
		dst = f.appendBuckets(dst, g, words)
	case expr.AggTop:
		dst = append(appendKey(dst, "values"), '[')
		top := g.Top(words)
		for _, c := range top[:min(len(top), g.N)] {
			dst = p.appendValue(append(appendComma(dst), `{"value":`...), f, c.Value)
			dst = append(appendCount(appendUint(dst, "calls", c.Count), "too_many", c.Error), '}')
		}
		dst = append(dst, ']')
	}
	return dst
}

// appendValue appends a value that was added up, as captures are written.
func (p *Printer) appendValue(dst []byte, f *tableForm, x uint64) []byte {
	raw := binary.LittleEndian.AppendUint64(nil, x)
	if f.value.result {
		return p.records.appendResult(dst, &f.value.scalar, raw)
	}
	return p.records.appendScalar(dst, &f.value.scalar, raw)
}

// appendBuckets appends the buckets that have calls. A bound that is none is missing.
func (f *tableForm) appendBuckets(dst []byte, g *expr.Aggregation, words []uint64) []byte {
	dst = append(appendKey(dst, "buckets"), '[')
	bound := f.sum
	bound.signed = bound.signed || g.Fn == expr.AggLHist // whatever the value is
	for i, n := range words {
		if n == 0 {
			continue
		}
		low, high := g.Bounds(i)
		dst = append(appendComma(dst), '{')
		if i > 0 {
			dst = bound.appendNumber(appendKey(dst, "low"), low)
		}
		if g.Fn != expr.AggLHist || i < len(words)-1 {
			dst = bound.appendNumber(appendKey(dst, "high"), high)
		}
		dst = append(appendUint(dst, "calls", n), '}')
	}
	return append(dst, ']')
}
