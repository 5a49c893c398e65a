// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"iter"
	"strconv"
)

// Nearest returns the candidate that a person who typed name most likely
// meant, or "" if none is near. It is the candidate with the smallest edit
// distance, the first one of equals, if that is at most a third of the length.
func Nearest(name string, candidates iter.Seq[string]) string {
	best, limit := "", len(name)/3+1
	for c := range candidates {
		if c == "" || c == name || max(len(c)-len(name), len(name)-len(c)) > limit {
			continue
		}
		if d := editDistance(name, c); d <= limit {
			best, limit = c, d-1
		}
	}
	return best
}

func didYouMean(name string, candidates iter.Seq[string]) string {
	if n := Nearest(name, candidates); n != "" {
		return "did you mean " + strconv.Quote(n) + "?"
	}
	return ""
}

// editDistance counts insertions, deletions, substitutions and swaps of
// neighbours (optimal string alignment).
func editDistance(a, b string) int {
	prev2, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
