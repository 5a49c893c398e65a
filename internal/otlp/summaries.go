// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/container"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/protomsg"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// AppendSummary adds the rows of all tables, and appends what they are since the first summary, or since the one after a table
// was full. That time of day stays as it was told when the clock is set: to receivers another one means that sums
// begin anew. They do if the clock is set to a time before it.
func (p *Printer) AppendSummary(dst []byte, x *summary.Summary) ([]byte, error) {
	p.stacks = x.Stacks
	p.saw(x.End)
	if p.builder == nil || p.builder.Full() || p.at(x.End) < p.began {
		p.saw(x.Start)
		p.builder, p.began = summary.NewBuilder(x.All()), p.at(x.Start)
	}
	for i := range x.Tables {
		for _, r := range x.Tables[i].Rows {
			p.builder.Add(i, r)
		}
	}
	for _, l := range x.Lost {
		p.lost[l.Cause] += l.Count
	}
	filled := p.builder.Filled()
	for i := range filled {
		var err error
		if dst, err = p.appendTable(dst, &filled[i], x.End); err != nil {
			return dst, err
		}
	}
	if len(x.Lost) > 0 {
		dst = p.appendLosses(dst, x.End)
	}
	return dst, nil
}

// A points makes the metrics of a table.
type points struct {
	p       *Printer
	table   *summary.Filled
	names   []string // of keys
	keys    []output.Field
	value   *output.Field // nil for count()
	to      uint64
	metrics []*metric
	row     *summary.Row
	dst     []byte
}

// appendTable appends the metrics of a table.
func (p *Printer) appendTable(dst []byte, t *summary.Filled, to uint64) ([]byte, error) {
	keys, value, err := p.keys.Keys(t.Table)
	if err != nil {
		return dst, err
	}
	x := &points{p: p, table: t, names: keyNames(t.Agg), keys: keys, value: value, to: to, dst: dst}
	alike := p.tails.Alike(t, p.stacks)
	for _, r := range alike.Sorted() {
		x.row = &r
		x.add(t.Agg, r.Words)
	}
	for _, m := range x.metrics {
		x.dst = m.append(p, x.dst)
	}
	return x.dst, nil
}

// keyNames returns the attributes of an aggregation's keys: their labels, without a $.
func keyNames(g *expr.Aggregation) (names []string) {
	for i := range g.Keys {
		label := strings.TrimPrefix(g.Keys[i].Label, "$")
		name := label
		for n := 2; slices.Contains(names, name); n++ {
			name = fmt.Sprintf("%s_%d", label, n)
		}
		names = append(names, name)
	}
	return names
}

// add adds the data points of a row.
func (x *points) add(g *expr.Aggregation, words []uint64) {
	calls, counted := summary.Calls(g, words)
	switch g.Fn {
	case expr.AggCount:
		x.sum("", true, false, calls)
		return
	case expr.AggHist, expr.AggLHist:
		if g.Fn == expr.AggHist && x.p.options.Exponential {
			x.exponential(g, words)
		} else {
			x.histogram(g, words, calls)
		}
		return
	case expr.AggTop:
		top := g.Top(words)
		for _, c := range top[:min(len(top), g.N)] {
			is := string(x.value.AppendNumber(nil, c.Value))
			x.gauge(".top", "value", is, false, c.Count)
			x.gauge(".top.too_many", "value", is, false, c.Error)
		}
		return
	}
	signed := summary.Signed(g)
	if counted {
		x.sum(".calls", true, false, calls)
	}
	switch g.Fn {
	case expr.AggSum, expr.AggAvg, expr.AggStats:
		x.sum(".sum", !signed, signed, summary.Sum(words))
	}
	switch g.Fn {
	case expr.AggMin, expr.AggStats:
		x.gauge(".min", "", "", signed, g.Minimum(words))
	}
	switch g.Fn {
	case expr.AggMax, expr.AggStats, expr.AggQuantiles:
		x.gauge(".max", "", "", signed, g.Maximum(words))
	}
	if g.Fn == expr.AggQuantiles {
		for _, q := range summary.Quantiles(g, words) {
			if q.PerMill < 1000 && !q.Negative {
				x.gauge(".quantile", "quantile", strconv.FormatFloat(float64(q.PerMill)/1000, 'g', -1, 64), signed, q.Value)
			}
		}
	}
}

// metric returns the metric of the table with what is added to its name.
func (x *points) metric(suffix string, field protowire.Number, total bool) *metric {
	g := x.table.Agg
	m := metric{name: "ksnoop.calls", description: "Calls.", unit: "{call}", field: field, total: total}
	if g.Fn != expr.AggCount {
		m.name, m.description = "ksnoop."+summary.ValidName(g.Of)+suffix, "Of calls: "+terminal.Name(g.Of)+"."
		switch {
		case suffix == ".calls" || suffix == ".negative" || strings.HasPrefix(suffix, ".top"):
		case g.Unit == expr.UnitNanos:
			m.unit = "ns"
		case g.Unit == expr.UnitBytes:
			m.unit = "By"
		default:
			m.unit = "1"
		}
	}
	for _, known := range x.metrics {
		if known.name == m.name {
			return known
		}
	}
	x.metrics = append(x.metrics, &m)
	return &m
}

func (x *points) sum(suffix string, total, signed bool, v uint64) {
	m := x.metric(suffix, metricSum, total)
	a := m.begin(x.p, numberAttrs, x.p.began, x.to)
	a.body = appendNumber(a.body, signed, v)
	x.attributes(a)
	x.dst = m.end(x.p, x.dst)
}

// gauge adds a data point with an attribute besides those of the row, if that has a name.
func (x *points) gauge(suffix, name, is string, signed bool, v uint64) {
	m := x.metric(suffix, metricGauge, false)
	a := m.begin(x.p, numberAttrs, x.p.began, x.to)
	a.body = appendNumber(a.body, signed, v)
	x.attributes(a)
	if name != "" {
		a.foreign(name, is)
	}
	x.dst = m.end(x.p, x.dst)
}

// histogram adds the buckets from the first to the last one that has calls.
func (x *points) histogram(g *expr.Aggregation, words []uint64, calls uint64) {
	m := x.metric("", metricHistogram, false)
	a := m.begin(x.p, histAttrs, x.p.began, x.to)
	bounds, counts := buckets(g, words)
	a.body = protomsg.AppendFixed(a.body, histCount, calls)
	b, start := protomsg.Begin(a.body, histCounts)
	for _, n := range counts {
		b = protowire.AppendFixed64(b, n)
	}
	b, start = protomsg.Begin(protomsg.End(b, start), histBounds)
	for _, bound := range bounds {
		b = protowire.AppendFixed64(b, bound)
	}
	a.body = protomsg.End(b, start)
	x.attributes(a)
	x.dst = m.end(x.p, x.dst)
}

// exponential adds an exponential histogram. It has no place for numbers below 0 whose size is not known: these are a
// sum of their own.
func (x *points) exponential(g *expr.Aggregation, words []uint64) {
	if n := words[0]; n > 0 {
		x.sum(".negative", true, false, n)
	}
	h := exponentialOf(g, words)
	if h.count == 0 {
		return
	}
	m := x.metric("", metricExponential, false)
	a := m.begin(x.p, exponentialAttrs, x.p.began, x.to)
	a.body = h.append(a.body)
	x.attributes(a)
	x.dst = m.end(x.p, x.dst)
}

// attributes adds those of the row: its SPEC, item and keys.
func (x *points) attributes(a *attributes) {
	a.foreign("ksnoop.spec", x.table.Spec)
	a.foreign("ksnoop.item", x.table.Agg.Label)
	e := output.KeyEvent(x.table.Table, x.row)
	for i, k := range x.keys {
		v, special := k.KeyVar()
		if !special || v == expr.ContextFunc {
			a.foreign(x.names[i], string(k.AppendKey(nil, x.p.run.Plan, e)))
			x.placeID(a, x.names[i], k, e)
			continue
		}
		scalar, _ := k.Slots()
		n, _ := e.Value(scalar)
		a.text(x.names[i], x.p.tails.AppendSummedNames(nil, x.table.Table, x.p.stacks, n, v == expr.ContextUserStack, '\n'))
	}
}

// placeID adds the ID of a key that is a container or a pod: others can have its name.
func (x *points) placeID(a *attributes, name string, k output.Field, e *event.Event) {
	view := k.View()
	if k.Withheld() || view != expr.ViewContainer && view != expr.ViewPod || x.p.run.Cgroup == nil {
		return
	}
	scalar, _ := k.Slots()
	n, ok := e.Value(scalar)
	if !ok {
		return
	}
	in := container.Of(x.p.run.Cgroup(n).Path)
	if id := in.Container; view == expr.ViewContainer && id != "" {
		a.foreign(name+".id", id)
	}
	if view == expr.ViewPod && in.Pod != "" {
		a.foreign(name+".uid", in.Pod)
	}
}
