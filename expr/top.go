// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"cmp"
	"math/bits"
	"slices"
)

// The row of top(n, x) has candidates of three words each: the value, how often it was seen at
// most, and by how much that may be too high. A candidate whose count is 0 is free. This is the
// algorithm Space-Saving (Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and
// Top-k Elements in Data Streams, 2005): a value without a place takes that of the candidate that
// was seen least, and its count.
const topWords = 3

// A Candidate is a value of top().
type Candidate struct {
	Value uint64 // in register form
	Count uint64 // at most so many calls
	Error uint64 // at least Count - Error calls
}

// Candidates returns how many values top() counts, of which it shows N: a power of two.
func (g *Aggregation) Candidates() int { return 1 << bits.Len(uint(max(4*g.N, 16)-1)) }

func (g *Aggregation) observe(row []uint64, x uint64) {
	least := 0
	for i := 0; i < len(row); i += topWords {
		if row[i+1] != 0 && row[i] == x {
			row[i+1]++
			return
		}
		if row[i+1] < row[least+1] {
			least = i
		}
	}
	row[least], row[least+2] = x, row[least+1]
	row[least+1]++
}

// Top returns the candidates of a row, the most frequent ones first.
func (g *Aggregation) Top(row []uint64) []Candidate {
	var out []Candidate
	for i := 0; i < len(row); i += topWords {
		if row[i+1] != 0 {
			out = append(out, Candidate{row[i], row[i+1], row[i+2]})
		}
	}
	slices.SortStableFunc(out, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Value, b.Value))
	})
	return out
}

// mostMerged is how many candidates a row may have that was merged: those of 256 CPUs.
const mostMerged = 1 << 12

// mergeTop returns a row with the candidates of two rows. What one of them lacks may have been
// seen there, but not counted.
func (g *Aggregation) mergeTop(row, other []uint64) []uint64 {
	a, b := g.Top(row), g.Top(other)
	missingA, missingB := unseen(a), unseen(b)
	sum := map[uint64]Candidate{}
	for _, c := range a {
		sum[c.Value] = Candidate{c.Value, c.Count + missingB, c.Error + missingB}
	}
	for _, c := range b {
		if have, ok := sum[c.Value]; ok {
			sum[c.Value] = Candidate{c.Value, have.Count - missingB + c.Count, have.Error - missingB + c.Error}
			continue
		}
		sum[c.Value] = Candidate{c.Value, c.Count + missingA, c.Error + missingA}
	}
	all := make([]Candidate, 0, len(sum))
	for _, c := range sum {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Value, b.Value))
	})
	if len(all) > mostMerged {
		all = all[:mostMerged]
		last := &all[mostMerged-1]
		last.Error = max(last.Error, 1) // says that others were left out
	}
	row = slices.Grow(row[:0], topWords*len(all))[:max(len(row), topWords*len(all))]
	clear(row)
	for i, c := range all {
		row[topWords*i], row[topWords*i+1], row[topWords*i+2] = c.Value, c.Count, c.Error
	}
	return row
}

// unseen returns how often a value may have been seen that is not among the candidates. As long as none has an error, none has lost
// its place.
func unseen(all []Candidate) uint64 {
	if !slices.ContainsFunc(all, func(c Candidate) bool { return c.Error > 0 }) {
		return 0
	}
	return all[len(all)-1].Count
}
