// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/ksnoop/ksnoop/expr"
)

// Sorted returns the rows of a table that have calls, the largest ones first: by their sum, mean or
// maximum, and else by how many calls they have. Those of min() have the smallest one first. Rows
// that are alike are in the order of their keys.
func (f *Filled) Sorted() []Row {
	g := f.Agg
	var rows []Row
	for _, r := range f.Rows {
		if n, ok := Calls(g, r.Words); n > 0 || !ok && !(g.Fn == expr.AggTop && len(g.Top(r.Words)) == 0) {
			rows = append(rows, r)
		}
	}
	weights := make(map[*uint64]float64, len(rows))
	for _, r := range rows {
		weights[&r.Words[0]] = weight(g, r.Words)
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(weights[&b.Words[0]], weights[&a.Words[0]]), exact(g, a.Words, b.Words), f.compareKeys(&a, &b))
	})
	return rows
}

// weight returns what a row is sorted by.
func weight(g *expr.Aggregation, words []uint64) float64 {
	switch g.Fn {
	case expr.AggSum, expr.AggStats:
		return number(g, Sum(words))
	case expr.AggAvg:
		return Mean(g, words)
	case expr.AggMin:
		return -number(g, g.Minimum(words))
	case expr.AggMax:
		return number(g, g.Maximum(words))
	case expr.AggTop:
		most := 0.0
		for _, c := range g.Top(words) {
			most += float64(c.Count)
		}
		return most
	}
	n, _ := Calls(g, words)
	return float64(n)
}

// exact compares rows whose weights are the same number of 53 bits.
func exact(g *expr.Aggregation, a, b []uint64) int {
	switch g.Fn {
	case expr.AggCount:
		return cmp.Compare(b[0], a[0])
	case expr.AggSum:
		return cmp.Compare(Sum(b), Sum(a))
	}
	return 0
}

// compareKeys compares the keys of rows, the first one first: what was read before what was not,
// numbers by their values, all else by its bytes.
func (f *Filled) compareKeys(a, b *Row) int {
	for i := range f.Key.Slots {
		s := &f.Key.Slots[i]
		if c := cmp.Compare(a.Faults>>s.Index&1, b.Faults>>s.Index&1); c != 0 {
			return c
		}
		x, y := a.Key[s.Off:s.Off+s.Size], b.Key[s.Off:s.Off+s.Size]
		c := bytes.Compare(x, y)
		if _, signed, scalar := expr.Number(s.Term.Type()); f.Agg.Keys[s.Capture].Value != nil && scalar {
			p, q := binary.LittleEndian.Uint64(x), binary.LittleEndian.Uint64(y)
			if c = cmp.Compare(p, q); signed {
				c = cmp.Compare(int64(p), int64(q))
			}
		}
		if c != 0 {
			return c
		}
	}
	return 0
}
