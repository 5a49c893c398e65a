// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A timed is a test, and how long it took: of a live test the CPU time of its guest, which other work on the
// machine does not make longer, of a unit test what the clock said.
type timed struct {
	name    string
	where   string // the kernel, "" of a unit test
	seconds float64
}

// times are those of all tests, so that what makes `make test` longer is seen.
type times []timed

// slowest is how many tests are named.
const slowest = 15

// String names the tests that took longest, and how long all took by kernel.
func (ts times) String() string {
	var b strings.Builder
	sorted := slices.SortedStableFunc(slices.Values(ts), func(x, y timed) int { return cmp.Compare(y.seconds, x.seconds) })
	for i, t := range sorted[:min(len(sorted), slowest)] {
		if i == 0 {
			b.WriteString("slowest:\n")
		}
		fmt.Fprintf(&b, "%7.1fs %s\n", t.seconds, t.name)
	}
	sums := map[string]float64{}
	for _, t := range ts {
		where := t.where
		if where == "" {
			where = "unit tests"
		}
		sums[where] += t.seconds
	}
	for _, where := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&b, "%7.1fs in all [%s]\n", sums[where], where)
	}
	return b.String()
}
