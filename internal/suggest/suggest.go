// SPDX-License-Identifier: Apache-2.0

// Package suggest finds the names that a mistyped one may have stood for, and
// says so: did you mean "tcp_sendmsg"?
package suggest

import (
	"iter"
	"strconv"
	"strings"
)

// A Search tells how near names are to one that was mistyped. It reuses its
// memory from one name to the next.
type Search struct {
	name            string
	limit           int
	prev2, prev, at []int // rows of the table of distances
}

// For begins a search. Names are near that differ in at most a third of name's
// length.
func For(name string) *Search { return &Search{name: name, limit: len(name)/3 + 1} }

// Distance returns the edit distance of a candidate; near is false, and the
// distance unknown, if that is too long.
func (s *Search) Distance(candidate []byte) (distance int, near bool) {
	return distanceOf(s, candidate)
}

// Nearest returns the candidate that a person who typed name most likely
// meant, or "" if none is near: the one with the smallest edit distance, the
// first of equals. It is never name itself.
func Nearest(name string, candidates iter.Seq[string]) string {
	best, s := "", For(name)
	for c := range candidates {
		if c == "" || c == name {
			continue
		}
		if d, near := distanceOf(s, c); near {
			best, s.limit = c, d-1
		}
	}
	return best
}

// Hint asks whether the nearest candidate was meant, if there is one.
func Hint(name string, candidates iter.Seq[string]) string {
	return DidYouMean(Nearest(name, candidates))
}

// DidYouMean asks whether one of some names was meant. It is empty if there are
// none, or only "".
func DidYouMean(names ...string) string {
	quoted := make([]string, 0, len(names))
	for _, name := range names {
		if name != "" {
			quoted = append(quoted, strconv.Quote(name))
		}
	}
	if len(quoted) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(quoted, " or ") + "?"
}

// distanceOf counts the insertions, deletions, substitutions and swaps of
// neighbours that lead to b (optimal string alignment). It gives up where no
// continuation can stay within the limit. Names that differ in case alone have
// the distance 1.
func distanceOf[T string | []byte](s *Search, b T) (distance int, near bool) {
	a, limit := s.name, s.limit
	if len(b) == 0 || max(len(b)-len(a), len(a)-len(b)) > limit {
		return 0, false
	}
	if len(a) == len(b) && a != string(b) && strings.EqualFold(a, string(b)) {
		return 1, limit >= 1
	}
	for len(s.at) <= len(b) {
		s.prev2, s.prev, s.at = append(s.prev2, 0), append(s.prev, 0), append(s.at, 0)
	}
	for j := range s.prev {
		s.prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		s.at[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			s.at[j] = min(s.prev[j]+1, s.at[j-1]+1, s.prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				s.at[j] = min(s.at[j], s.prev2[j-2]+1)
			}
			least = min(least, s.at[j])
		}
		if least > limit+1 { // a swap may still win one back
			return 0, false
		}
		s.prev2, s.prev, s.at = s.prev, s.at, s.prev2
	}
	return s.prev[len(b)], s.prev[len(b)] <= limit
}
