// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"slices"
	"strings"
)

// Nearest returns up to n functions that may have been meant by a mistyped
// name, the nearest first: those that exist as a copy of that name, then those
// that differ in few characters.
func (v *View) Nearest(name string, n int) []string {
	type near struct {
		name string
		dist int
	}
	limit := len(name)/3 + 1
	seen := make(map[string]bool)
	var found []near
	var d distance
	consider := func(candidate []byte) {
		if len(candidate) == 0 || len(candidate) > len(name)+limit || len(name) > len(candidate)+limit {
			return
		}
		dist := d.between(name, candidate, limit)
		if dist <= limit && !seen[string(candidate)] {
			seen[string(candidate)] = true
			found = append(found, near{string(candidate), dist})
		}
	}
	if infos, err := v.infos(""); err == nil {
		for _, info := range infos {
			for f := range info.raw.functions() {
				consider(f)
			}
		}
	}
	if t, err := v.symbols(); err == nil {
		for i := range t.symbols {
			s := &t.symbols[i]
			if !s.text() || !strings.HasPrefix(t.name(s), name+".") {
				continue
			}
			if c := t.name(s); isFunction(c, t.module(s)) && !seen[c] {
				seen[c] = true
				found = append(found, near{c, 0})
			}
		}
	}
	slices.SortFunc(found, func(a, b near) int {
		return cmp.Or(cmp.Compare(a.dist, b.dist), strings.Compare(a.name, b.name))
	})
	var names []string
	for _, f := range found[:min(n, len(found))] {
		names = append(names, f.name)
	}
	return names
}

// A distance computes edit distances, reusing its rows.
type distance struct{ prev2, prev, cur []int }

// between counts the insertions, deletions, substitutions and swaps of
// neighbours that lead from a to b. It gives up above limit and then returns
// more than limit.
func (d *distance) between(a string, b []byte, limit int) int {
	for len(d.cur) <= len(b) {
		d.prev2, d.prev, d.cur = append(d.prev2, 0), append(d.prev, 0), append(d.cur, 0)
	}
	for j := range d.prev {
		d.prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		d.cur[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d.cur[j] = min(d.prev[j]+1, d.cur[j-1]+1, d.prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d.cur[j] = min(d.cur[j], d.prev2[j-2]+1)
			}
			least = min(least, d.cur[j])
		}
		if least > limit+1 { // a swap may still win one back
			return limit + 1
		}
		d.prev2, d.prev, d.cur = d.prev, d.cur, d.prev2
	}
	return d.prev[len(b)]
}
