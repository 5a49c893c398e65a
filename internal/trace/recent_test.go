// SPDX-License-Identifier: Apache-2.0

package trace

import "testing"

// TestRecent: what is asked for stays, the rest is forgotten in the end, and there is always room for what is new.
func TestRecent(t *testing.T) {
	var r recent[int, int]
	for i := range 4 * mostRecent {
		r.put(i, i)
		if got := r.get(i) + r.get(0); got != i {
			t.Fatalf("%d is kept as %d", i, got)
		}
		if n := len(r.young) + len(r.old); n > 2*mostRecent {
			t.Fatalf("%d are kept", n)
		}
	}
	for i, want := range map[int]int{1: 0, mostRecent: 0, 3 * mostRecent: 3 * mostRecent} {
		if got := r.get(i); got != want {
			t.Errorf("%d is kept as %d, want %d", i, got, want)
		}
	}
}
