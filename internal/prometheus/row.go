// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"strconv"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/summary"
)

// addRow adds the series of a row.
func (p *Printer) addRow(g *expr.Aggregation, value *output.Field, labels string, words []uint64) {
	name, help := metric(g)
	add := func(suffix, kind, more string) *family {
		f := p.family(name+suffix, kind, help)
		f.open(f.name, labels, more)
		return f
	}
	calls, _ := summary.Calls(g, words)
	switch g.Fn {
	case expr.AggCount:
		f := add("", "counter", "")
		f.text = appendUint(f.text, calls)
	case expr.AggSum:
		suffix, kind := "_total", "counter"
		if summary.Signed(g) {
			suffix, kind = "_sum", "gauge"
		}
		f := add(suffix, kind, "")
		f.number(g, summary.Sum(words))
	case expr.AggMin:
		add("_min", "gauge", "").number(g, g.Minimum(words))
	case expr.AggMax:
		add("_max", "gauge", "").number(g, g.Maximum(words))
	case expr.AggAvg, expr.AggStats:
		p.addMean(g, name+"_stats", help, labels, words)
		if g.Fn == expr.AggStats {
			add("_stats_min", "gauge", "").number(g, g.Minimum(words))
			add("_stats_max", "gauge", "").number(g, g.Maximum(words))
		}
	case expr.AggHist, expr.AggLHist:
		p.addHistogram(g, name, help, labels, words)
	case expr.AggQuantiles:
		p.addQuantiles(g, name+"_quantiles", help, labels, words)
		add("_quantiles_max", "gauge", "").number(g, g.Maximum(words))
	case expr.AggTop:
		top := g.Top(words)
		for _, c := range top[:min(len(top), g.N)] {
			is := string(AppendLabel(nil, "value", value.AppendNumber(nil, c.Value)))
			f := add("_top", "gauge", is)
			f.text = appendUint(f.text, c.Count)
			f = add("_top_too_many", "gauge", is)
			f.text = appendUint(f.text, c.Error)
		}
	}
}

// addMean adds a summary without quantiles.
func (p *Printer) addMean(g *expr.Aggregation, name, help, labels string, words []uint64) {
	f := p.family(name, "summary", help)
	f.open(name+"_sum", labels, "")
	f.number(g, summary.Sum(words))
	f.open(name+"_count", labels, "")
	f.text = appendUint(f.text, words[0])
}

func (p *Printer) addQuantiles(g *expr.Aggregation, name, help, labels string, words []uint64) {
	f := p.family(name, "summary", help)
	for _, q := range summary.Quantiles(g, words) {
		if q.PerMill == 1000 {
			continue
		}
		f.open(name, labels, string(AppendLabel(nil, "quantile", strconv.AppendFloat(nil, float64(q.PerMill)/1000, 'g', -1, 64))))
		if q.Negative {
			f.text = append(f.text, "} NaN\n"...)
			continue
		}
		f.number(g, q.Value)
	}
	calls, _ := summary.Calls(g, words)
	f.open(name+"_count", labels, "")
	f.text = appendUint(f.text, calls)
}

// addHistogram adds the buckets that have calls, and of each the one before it, where it begins.
func (p *Printer) addHistogram(g *expr.Aggregation, name, help, labels string, words []uint64) {
	name += "_hist"
	if g.Fn == expr.AggLHist {
		name = name[:len(name)-len("hist")] + "lhist"
	}
	f := p.family(name, "histogram", help)
	calls := uint64(0)
	bucket := func(le []byte) {
		f.open(name+"_bucket", labels, string(AppendLabel(nil, "le", le)))
		f.text = appendUint(f.text, calls)
	}
	for i, n := range words {
		calls += n
		if i == len(words)-1 && g.Fn == expr.AggLHist { // it has no end
			continue
		}
		if n > 0 || i+1 < len(words) && words[i+1] > 0 {
			if _, high := g.Bounds(i); summary.Signed(g) || g.Fn == expr.AggLHist {
				bucket(strconv.AppendInt(nil, int64(high), 10))
			} else if i > 0 { // no unsigned number is below 0
				bucket(strconv.AppendUint(nil, high, 10))
			}
		}
	}
	bucket([]byte("+Inf"))
	f.open(name+"_count", labels, "")
	f.text = appendUint(f.text, calls)
}
