// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"math/bits"

	"github.com/ksnoop/ksnoop/expr"
)

// Calls returns how many calls a row adds up. ok is false if it does not tell: that of top() may
// have been merged from rows that have not kept the same values.
func Calls(g *expr.Aggregation, words []uint64) (n uint64, ok bool) {
	switch g.Fn {
	case expr.AggTop:
		return 0, false
	case expr.AggHist, expr.AggLHist, expr.AggQuantiles:
		for _, in := range Histogram(g, words) {
			n += in
		}
		return n, true
	}
	return words[0], true
}

// Histogram returns the calls by bucket of a row of hist(), lhist() or quantiles().
func Histogram(g *expr.Aggregation, words []uint64) []uint64 {
	if g.Fn == expr.AggQuantiles {
		return words[1:]
	}
	return words
}

// Sum returns the sum of a row of sum(), avg() or stats(), in register form.
func Sum(words []uint64) uint64 { return words[1] }

// Mean returns the mean of a row of avg() or stats(), which must have calls.
func Mean(g *expr.Aggregation, words []uint64) float64 {
	return number(g, Sum(words)) / float64(words[0])
}

// number returns a value in register form as a number.
func number(g *expr.Aggregation, x uint64) float64 {
	if Signed(g) {
		return float64(int64(x))
	}
	return float64(x)
}

// Signed reports whether the value of an aggregation is a signed number.
func Signed(g *expr.Aggregation) bool {
	_, signed, _ := expr.Number(g.Value.Type())
	return signed
}

// A Quantile is a share of a row's calls that have at most a value. The value is in the middle of
// a bucket, except for the largest one.
type Quantile struct {
	Name    string // p50, or max
	PerMill int    // 500
	Value   uint64 // in register form
	// Negative says that the value is below 0, and not known more closely.
	Negative bool
}

// Quantiles returns those of a row of quantiles(), which must have calls.
func Quantiles(g *expr.Aggregation, words []uint64) []Quantile {
	list := []Quantile{{Name: "p50", PerMill: 500}, {Name: "p90", PerMill: 900}, {Name: "p99", PerMill: 990}, {Name: "p99.9", PerMill: 999}}
	calls, _ := Calls(g, words)
	most := g.Maximum(words)
	for i := range list {
		q := &list[i]
		bucket := ranked(words[1:], calls, q.PerMill)
		if q.Negative = Signed(g) && bucket == 0; q.Negative {
			continue
		}
		low, high := g.Bounds(bucket)
		q.Value = low + (high-low)/2
		if q.Value > most {
			q.Value = most
		}
	}
	return append(list, Quantile{Name: "max", PerMill: 1000, Value: most})
}

// ranked returns the bucket of the smallest value that so many of a thousand calls do not exceed.
func ranked(buckets []uint64, calls uint64, perMill int) int {
	high, low := bits.Mul64(calls, uint64(perMill))
	rank, rest := bits.Div64(high, low, 1000)
	if rest > 0 {
		rank++
	}
	for i, n := range buckets {
		if n >= rank {
			return i
		}
		rank -= n
	}
	return len(buckets) - 1
}
