// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"math"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/summary"
)

// buckets returns those of hist() and lhist() from the first to the last one that has calls, as
// explicit bounds have them: each ends with its bound, given as the bits of a double, and one more
// has all beyond. Values are whole numbers, so a bound is the largest value of its bucket.
func buckets(g *expr.Aggregation, words []uint64) (bounds, counts []uint64) {
	first, last := 0, -1
	for i, n := range words {
		if n > 0 && last < 0 {
			first = i
		}
		if n > 0 {
			last = i
		}
	}
	signed := summary.Signed(g) || g.Fn == expr.AggLHist
	bound := func(i int) uint64 {
		if _, high := g.Bounds(i); signed {
			return math.Float64bits(float64(int64(high)))
		} else {
			return math.Float64bits(float64(high))
		}
	}
	if first > 0 && (first > 1 || signed) { // no unsigned number is below 0
		bounds, counts = append(bounds, bound(first-1)), append(counts, 0)
	}
	for i := first; i <= last; i++ {
		if i == len(words)-1 && g.Fn == expr.AggLHist { // it has no end
			return bounds, append(counts, words[i])
		}
		bounds, counts = append(bounds, bound(i)), append(counts, words[i])
	}
	return bounds, append(counts, 0)
}
