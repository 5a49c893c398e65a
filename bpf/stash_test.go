// SPDX-License-Identifier: Apache-2.0

package bpf

import "testing"

// TestLargerStash: the larger of two has room for the calls of both, and is one that could have been asked for.
func TestLargerStash(t *testing.T) {
	none, small, large, often := Stash{}, NewStash(8, 1), NewStash(800, 1), NewStash(8, 64)
	for _, c := range []struct{ a, b, want Stash }{
		{none, none, none}, {none, small, small}, {small, none, small}, {small, large, large}, {large, small, large}, {small, often, often},
		{large, often, NewStash(800, 64)}, {often, large, NewStash(800, 64)},
	} {
		got := c.a.Larger(c.b)
		if got != c.want {
			t.Errorf("the larger of %+v and %+v is %+v, want %+v", c.a, c.b, got, c.want)
		}
		if !got.Holds(c.a) || !got.Holds(c.b) || got != c.a && c.a.Holds(got) {
			t.Errorf("%+v does not hold what %+v and %+v are for", got, c.a, c.b)
		}
	}
}
