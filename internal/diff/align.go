// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"slices"
)

// A pair is two calls that are compared, or one that has no partner.
type pair struct{ good, bad *Call }

// Bounds of an alignment: what it takes does not grow faster than the number of calls.
const (
	// maxCells is how many pairs of calls are weighed at once.
	maxCells = 1 << 22
	// maxEdits is how many calls without a partner a search takes into account.
	maxEdits = 2000
)

// align finds partners for the calls of two lists, in their order: as many as possible of one function
// and, among these choices, as many as possible that are equal. Very long lists that have little in
// common are aligned by parts.
func align(good, bad []*Call) []pair {
	whole := func(a, b *Call) bool { return a.whole == b.whole }
	head := 0
	for head < min(len(good), len(bad)) && whole(good[head], bad[head]) {
		head++
	}
	pairs := make([]pair, 0, max(len(good), len(bad)))
	pairs = appendPairs(pairs, good[:head], bad[:head])
	g, b := good[head:], bad[head:]
	tail := 0
	for tail < min(len(g), len(b)) && whole(g[len(g)-1-tail], b[len(b)-1-tail]) {
		tail++
	}
	pairs = between(pairs, g[:len(g)-tail], b[:len(b)-tail], whole, func(a, b *Call) bool { return a.name == b.name })
	return appendPairs(pairs, g[len(g)-tail:], b[len(b)-tail:])
}

func appendPairs(pairs []pair, good, bad []*Call) []pair {
	for i := range good {
		pairs = append(pairs, pair{good[i], bad[i]})
	}
	return pairs
}

// between appends the pairs of two lists. If they are too long to weigh all pairs, those are
// partners first that the first of some functions says are equal; what lies between them is aligned
// by the next one.
func between(pairs []pair, good, bad []*Call, equal ...func(a, b *Call) bool) []pair {
	switch {
	case len(good)*len(bad) <= maxCells:
		return weigh(pairs, good, bad)
	case len(equal) == 0:
		return inParts(pairs, good, bad)
	}
	g, b := 0, 0
	for _, m := range common(len(good), len(bad), func(i, j int) bool { return equal[0](good[i], bad[j]) }) {
		pairs = between(pairs, good[g:m[0]], bad[b:m[1]], equal[1:]...)
		pairs = append(pairs, pair{good[m[0]], bad[m[1]]})
		g, b = m[0]+1, m[1]+1
	}
	return between(pairs, good[g:], bad[b:], equal[1:]...)
}

// inParts aligns parts of two lists that are at the same places.
func inParts(pairs []pair, good, bad []*Call) []pair {
	const part = 2048 // whose square is maxCells
	parts := max(len(good), len(bad))/part + 1
	for i := range parts {
		cut := func(all []*Call) []*Call { return all[len(all)*i/parts : len(all)*(i+1)/parts] }
		pairs = weigh(pairs, cut(good), cut(bad))
	}
	return pairs
}

// weights of partners: of one function, with equal values too, with equal calls below too.
const (
	sameName  = 1 << 16 // more than all others together
	sameOwn   = 1
	sameWhole = 2
)

func weight(a, b *Call) int64 {
	switch {
	case a.name != b.name:
		return 0
	case a.whole == b.whole:
		return sameName + sameWhole
	case a.own == b.own:
		return sameName + sameOwn
	}
	return sameName
}

// The moves of weigh.
const (
	moveGood = iota // good's call has no partner
	moveBad
	moveBoth
)

// weigh appends the pairs of greatest weight. Where several choices weigh the same, calls get
// partners as early as possible.
func weigh(pairs []pair, good, bad []*Call) []pair {
	n, m := len(good), len(bad)
	moves := make([]uint8, n*m)
	below, row := make([]int64, m+1), make([]int64, m+1)
	for i := n - 1; i >= 0; i-- {
		row[m] = 0
		for j := m - 1; j >= 0; j-- {
			best, move := below[j], uint8(moveGood)
			if row[j+1] > best {
				best, move = row[j+1], moveBad
			}
			if w := weight(good[i], bad[j]); w > 0 && below[j+1]+w >= best {
				best, move = below[j+1]+w, moveBoth
			}
			row[j], moves[i*m+j] = best, move
		}
		below, row = row, below
	}
	i, j := 0, 0
	for i < n && j < m {
		switch moves[i*m+j] {
		case moveGood:
			pairs = append(pairs, pair{good: good[i]})
			i++
		case moveBad:
			pairs = append(pairs, pair{bad: bad[j]})
			j++
		default:
			pairs = append(pairs, pair{good[i], bad[j]})
			i, j = i+1, j+1
		}
	}
	return appendAlone(pairs, good[i:], bad[j:])
}

func appendAlone(pairs []pair, good, bad []*Call) []pair {
	for _, c := range good {
		pairs = append(pairs, pair{good: c})
	}
	for _, c := range bad {
		pairs = append(pairs, pair{bad: c})
	}
	return pairs
}

// common returns the indexes of a longest common subsequence of two lists, by E. W. Myers, "An O(ND)
// Difference Algorithm and Its Variations", 1986. If they differ in more than maxEdits, there is none.
func common(n, m int, equal func(i, j int) bool) (matches [][2]int) {
	limit := min(n+m, maxEdits)
	// furthest[k+limit] is how far into the first list the paths on diagonal k come; rows keeps it as it
	// was before each edit.
	furthest := make([]int32, 2*limit+3)
	at := func(k int) *int32 { return &furthest[k+limit+1] }
	var rows [][]int32
	for d := range limit + 1 {
		for k := -d; k <= d; k += 2 {
			x := int(*at(k - 1)) + 1
			if k == -d || k != d && *at(k - 1) < *at(k + 1) {
				x = int(*at(k + 1))
			}
			if d == 0 {
				x = 0
			}
			y := x - k
			for x < n && y < m && x >= 0 && y >= 0 && equal(x, y) {
				x, y = x+1, y+1
			}
			*at(k) = int32(x)
			if k == n-m && x >= n {
				return trace(rows, n, m)
			}
		}
		rows = append(rows, slices.Clone(furthest[limit+1-d:limit+2+d]))
	}
	return nil
}

// trace goes back along the path that has come to the end. rows[d] has the diagonals from -d to d after d
// edits.
func trace(rows [][]int32, n, m int) (matches [][2]int) {
	x, y := n, m
	back := func(to int) {
		for x > to {
			x, y = x-1, y-1
			matches = append(matches, [2]int{x, y})
		}
	}
	for d := len(rows); d > 0; d-- {
		row := func(k int) int { return int(rows[d-1][k+d-1]) }
		k := x - y
		if k == -d || k != d && row(k-1) < row(k+1) {
			back(row(k + 1))
			y--
		} else {
			back(row(k-1) + 1)
			x--
		}
	}
	back(0)
	slices.Reverse(matches)
	return matches
}
