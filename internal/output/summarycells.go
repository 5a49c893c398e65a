// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/summary"
)

// valueColumns returns the names of the columns of numbers.
func valueColumns(g *expr.Aggregation) []string {
	switch g.Fn {
	case expr.AggStats:
		return []string{"calls", "min", "avg", "max", "sum"}
	case expr.AggQuantiles:
		return []string{"calls", "p50", "p90", "p99", "p99.9", "max"}
	case expr.AggTop:
		return []string{g.Of, "calls"}
	}
	return []string{g.Label}
}

// cells returns the texts in these columns: one line, or of top() one for each value.
func (f *tableForm) cells(words []uint64) [][]string {
	g := f.table.Agg
	value := func(x uint64) string { return string(f.appendNumber(nil, x)) }
	sum := func() string {
		return string(f.appendSigned(nil, summary.Sum(words), func(dst []byte, n uint64) []byte { return appendQuantity(dst, n, g.Unit) }))
	}
	calls := func() string {
		n, _ := summary.Calls(g, words)
		return string(appendGrouped(nil, n))
	}
	mean := func() string { return string(appendMean(nil, summary.Mean(g, words), g.Unit)) }
	switch g.Fn {
	case expr.AggCount:
		return [][]string{{calls()}}
	case expr.AggSum:
		return [][]string{{sum()}}
	case expr.AggMin:
		return [][]string{{value(g.Minimum(words))}}
	case expr.AggMax:
		return [][]string{{value(g.Maximum(words))}}
	case expr.AggAvg:
		return [][]string{{mean()}}
	case expr.AggStats:
		return [][]string{{calls(), value(g.Minimum(words)), mean(), value(g.Maximum(words)), sum()}}
	case expr.AggQuantiles:
		cells := []string{calls()}
		for _, q := range summary.Quantiles(g, words) {
			if q.Negative {
				cells = append(cells, "below 0")
				continue
			}
			cells = append(cells, value(q.Value))
		}
		return [][]string{cells}
	}
	var lines [][]string
	top := g.Top(words)
	for _, c := range top[:min(len(top), g.N)] {
		n := string(appendGrouped(nil, c.Count))
		if c.Error > 0 {
			n += fmt.Sprintf(" (at most %s too many)", appendGrouped(nil, c.Error))
		}
		lines = append(lines, []string{value(c.Value), n})
	}
	return lines
}
