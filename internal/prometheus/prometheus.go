// SPDX-License-Identifier: Apache-2.0

// Package prometheus writes tables of aggregations in the text format of Prometheus, as a file that
// the node exporter's textfile collector takes, or as what a scrape is answered with.
//
// An item is a family of metrics with its value, its unit and its function in the name; count() is
// ksnoop_calls_total. Keys are labels, beside table, spec and item, which tell series of several
// SPECs apart. A bucket of whole numbers ends at the largest of them: the le of a power of two is
// 2^k - 1, so a histogram is exact. There is no sum of a histogram, which hist() does not have.
package prometheus

import (
	"bytes"
	"errors"
	"slices"
	"strconv"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/summary"
)

// A Printer adds up all summaries of a run and writes them at its end.
type Printer struct {
	run      output.Run
	builder  *summary.Builder // nil before the first summary
	stacks   summary.Stacks
	keys     *output.Fields
	tails    output.Tails
	families []*family
	each     bool // AppendSummary appends the sum so far
	lost     [bpf.Counters]uint64
}

// New returns a Printer of a run whose SPECs aggregate.
func New(run output.Run) *Printer {
	return &Printer{run: run, keys: output.NewKeys(run.Names()), tails: output.SummaryTails(run)}
}

// EachTime has AppendSummary append the sum of all times so far, as AppendEnd does at the end. Each text stands
// in place of the one before. When a table is full, the next text begins the sum anew: counters are reset, as those
// of a program that was started again.
func (p *Printer) EachTime() { p.each = true }

// AppendHeader appends nothing.
func (*Printer) AppendHeader(dst []byte) ([]byte, error) { return dst, nil }

// AppendLoss appends nothing: the end has all losses.
func (*Printer) AppendLoss(dst []byte, _ event.Loss) []byte { return dst }

var errCalls = errors.New("--format prometheus shows what is added up, as count() does, and no calls or sessions")

// AppendCall refuses calls.
func (*Printer) AppendCall(dst []byte, _ *calls.Call) ([]byte, error) { return dst, errCalls }

// AppendSession refuses sessions.
func (*Printer) AppendSession(dst []byte, _ *session.Session) ([]byte, error) { return dst, errCalls }

// AppendSummary adds the rows of all tables, which are the same in all summaries of a run. It appends nothing
// yet, but see EachTime.
func (p *Printer) AppendSummary(dst []byte, x *summary.Summary) ([]byte, error) {
	p.stacks = x.Stacks
	if p.builder == nil || p.each && p.builder.Full() {
		p.builder = summary.NewBuilder(x.All())
	}
	for i := range x.Tables {
		for _, r := range x.Tables[i].Rows {
			p.builder.Add(i, r)
		}
	}
	for _, l := range x.Lost {
		p.lost[l.Cause] += l.Count
	}
	if !p.each || x.Last {
		return dst, nil
	}
	return p.appendAll(dst, p.lost[:])
}

// AppendEnd appends all families.
func (p *Printer) AppendEnd(dst []byte, t *output.Totals) ([]byte, error) {
	return p.appendAll(dst, t.Lost[:])
}

// appendAll appends all families as they are now.
func (p *Printer) appendAll(dst []byte, lacking []uint64) ([]byte, error) {
	p.families = nil
	var filled []summary.Filled
	if p.builder != nil {
		filled = p.builder.Filled()
	}
	for i := range filled {
		if err := p.addTable(i, &filled[i]); err != nil {
			return dst, err
		}
	}
	lost := p.family("ksnoop_lost_total", "counter", "What is missing in the other metrics, by cause.")
	for cause, n := range lacking {
		if n > 0 {
			lost.text = appendUint(AppendLabel(append(lost.text, "ksnoop_lost_total{"...), "cause", []byte(output.LossText(bpf.Counter(cause)))), n)
		}
	}
	for _, f := range p.families {
		dst = append(AppendHead(dst, f.name, f.kind, f.help), f.text...)
	}
	return dst, nil
}

// family returns the family of a name.
func (p *Printer) family(name, kind, help string) *family {
	if i := slices.IndexFunc(p.families, func(f *family) bool { return f.name == name }); i >= 0 {
		return p.families[i]
	}
	f := &family{name: name, kind: kind, help: help}
	p.families = append(p.families, f)
	return f
}

// addTable adds the series of a table. Rows whose labels read alike are one.
func (p *Printer) addTable(number int, t *summary.Filled) error {
	keys, value, err := p.keys.Keys(t.Table)
	if err != nil {
		return err
	}
	names := labelNames(t.Agg)
	common := AppendLabel(AppendLabel(AppendLabel(nil, "table", strconv.AppendInt(nil, int64(number), 10)), "spec", []byte(t.Spec)), "item", []byte(t.Agg.Label))
	var order []string
	rows := map[string][]uint64{}
	for _, r := range t.Sorted() {
		labels := string(p.appendLabels(slices.Clone(common), keys, names, t.Table, &r))
		words, ok := rows[labels]
		if !ok {
			words = make([]uint64, t.Agg.Words())
			order = append(order, labels)
		}
		rows[labels] = t.Agg.Merge(words, r.Words)
	}
	for _, labels := range order {
		p.addRow(t.Agg, value, labels, rows[labels])
	}
	return nil
}

// appendLabels appends the keys of a row as labels.
func (p *Printer) appendLabels(dst []byte, keys []output.Field, names []string, t *summary.Table, r *summary.Row) []byte {
	e := output.KeyEvent(t, r)
	for i, k := range keys {
		v, special := k.KeyVar()
		if !special || v == expr.ContextFunc {
			dst = AppendLabel(dst, names[i], k.AppendKey(nil, p.run.Plan, e))
			continue
		}
		scalar, _ := k.Slots()
		n, _ := e.Value(scalar)
		stack := p.tails.AppendSummedNames(nil, t, p.stacks, n, v == expr.ContextUserStack, ';')
		dst = AppendLabel(dst, names[i], bytes.TrimSuffix(stack, []byte{';'}))
	}
	return dst
}
