// SPDX-License-Identifier: Apache-2.0

package output

import (
	"math"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/summary"
)

// Widths of bars in columns: where there is no terminal, and the least.
const (
	barWidth  = 52
	leastBars = 10
)

// hasBars reports whether the rows of an aggregation are histograms.
func hasBars(g *expr.Aggregation) bool { return g.Fn == expr.AggHist || g.Fn == expr.AggLHist }

// appendHistograms appends a histogram for each row, below its keys.
//
//	$comm = "cat"
//	    [4K, 8K)    12  |@@@@@@@@@                   |
//	    [8K, 16K)   34  |@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
func (s *Summaries) appendHistograms(dst []byte, f *tableForm, rows []summary.Row, stacks summary.Stacks) []byte {
	for i := range rows {
		if i > 0 {
			dst = append(dst, '\n')
		}
		start := len(dst)
		for j := range f.keys {
			k := &f.keys[j]
			if k.isStack() {
				continue
			}
			separator := ", "
			if len(dst) == start {
				separator = tableIndent
			}
			dst = append(append(append(dst, separator...), k.label...), " = "...)
			dst = s.appendKey(dst, f, j, &rows[i])
		}
		if len(dst) > start {
			dst = append(dst, '\n')
		}
		dst = s.appendStacks(dst, f, &rows[i], stacks)
		dst = s.appendBars(dst, f, rows[i].Words)
	}
	return dst
}

// appendBars appends the buckets from the first to the last that has calls.
func (s *Summaries) appendBars(dst []byte, f *tableForm, words []uint64) []byte {
	buckets := summary.Histogram(f.table.Agg, words)
	first, last, most := -1, 0, uint64(0)
	for i, n := range buckets {
		if n > 0 {
			if first < 0 {
				first = i
			}
			last = i
		}
		most = max(most, n)
	}
	t := &s.table
	t.columns = append(t.columns[:0], column{gap: 2}, column{gap: 2, right: true}, column{})
	t.reset()
	for i := first; i <= last; i++ {
		t.row()
		start := len(t.text)
		t.text = f.appendRange(t.text, i)
		t.set(0, start)
		start = len(t.text)
		t.text = appendGrouped(t.text, buckets[i])
		t.set(1, start)
	}
	width := s.barWidth(t.at(2) + len(stackIndent))
	for i := first; i <= last; i++ {
		dst = t.appendRow(append(dst, stackIndent...), i-first)
		dst = appendBlanks(dst[:len(dst)-1], 2) // numbers end at the same column
		dst = append(appendBar(append(dst, '|'), buckets[i], most, width), "|\n"...)
	}
	return dst
}

// barWidth returns how wide bars are that have so many columns before them.
func (s *Summaries) barWidth(before int) int {
	if s.columns != nil {
		if n := s.columns(); n > 0 {
			return max(n-before-len("||"), leastBars)
		}
	}
	return barWidth
}

// appendBar appends a bar: what is not 0 is seen.
func appendBar(dst []byte, n, most uint64, width int) []byte {
	filled := int(math.Round(float64(n) / float64(most) * float64(width)))
	if n > 0 {
		filled = max(filled, 1)
	}
	for range filled {
		dst = append(dst, '@')
	}
	return appendBlanks(dst, width-filled)
}

// appendRange appends the values that are in a bucket: [4K, 8K), or [7] for a single one.
func (f *tableForm) appendRange(dst []byte, bucket int) []byte {
	g := f.table.Agg
	low, high := g.Bounds(bucket)
	linear := g.Fn == expr.AggLHist
	switch {
	case !linear && bucket == 0:
		return append(dst, "(..., 0)"...)
	case linear && bucket == 0:
		return append(f.appendEnd(append(dst, "(..., "...), high), ')')
	case linear && bucket == g.Buckets()-1:
		return append(f.appendBound(append(dst, '['), low), ", ...)"...)
	case low == high:
		return append(f.appendBound(append(dst, '['), low), ']')
	}
	dst = append(f.appendBound(append(dst, '['), low), ", "...)
	return append(f.appendEnd(dst, high), ')')
}

// appendBound appends the lower bound of a bucket.
func (f *tableForm) appendBound(dst []byte, x uint64) []byte {
	g := f.table.Agg
	scaled := g.Fn != expr.AggLHist || g.Low%1024 == 0 && g.Step%1024 == 0
	if g.Fn == expr.AggLHist && int64(x) < 0 { // its bounds are signed, whatever the value is
		return appendBound(append(dst, '-'), -x, g.Unit, scaled)
	}
	return appendBound(dst, x, g.Unit, scaled)
}

// appendEnd appends the number after the largest one of a bucket. That may be 2^64, or 2^63 for a
// signed number.
func (f *tableForm) appendEnd(dst []byte, high uint64) []byte {
	switch {
	case high == math.MaxUint64 && !f.signed && f.table.Agg.Fn != expr.AggLHist:
		return append(dst, map[expr.Unit]string{expr.UnitNone: "16E", expr.UnitBytes: "16EiB", expr.UnitNanos: "18446744073.709551616s"}[f.table.Agg.Unit]...)
	case high == math.MaxInt64 && f.signed:
		return appendBound(dst, 1<<63, f.table.Agg.Unit, f.table.Agg.Fn != expr.AggLHist)
	}
	return f.appendBound(dst, high+1)
}
