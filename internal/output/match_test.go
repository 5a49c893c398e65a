// SPDX-License-Identifier: Apache-2.0

package output

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
)

// matchings calls yield with each way to give frames, innermost first, calls of their names in the order of both: by frame, the
// index of its call or -1. calls are outermost first; those from limit on are taken.
func matchings(calls, frames []string, limit int, way []int, yield func([]int)) {
	if len(way) == len(frames) {
		yield(way)
		return
	}
	matchings(calls, frames, limit, append(way, -1), yield)
	for k := range limit {
		if calls[k] == frames[len(way)] {
			matchings(calls, frames, k, append(way, k), yield)
		}
	}
}

// better compares two ways: more calls, then frames further in, then calls further out.
func better(a, b []int) bool {
	count := func(way []int) (n int) {
		for _, k := range way {
			if k >= 0 {
				n++
			}
		}
		return n
	}
	if count(a) != count(b) {
		return count(a) > count(b)
	}
	for i := range a {
		if (a[i] < 0) != (b[i] < 0) {
			return a[i] >= 0
		}
	}
	return slices.Compare(a, b) < 0
}

// TestMatch: of all ways to match frames with calls, the best one is taken.
func TestMatch(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	names := func(most int) (list []string) {
		for range random.IntN(most + 1) {
			list = append(list, string(rune('a'+random.IntN(3))))
		}
		return list
	}
	for range 5000 {
		calls, frames := names(5), names(6)
		var c session.Chain
		for _, name := range calls {
			c.Frames = append(c.Frames, session.Frame{Func: &plan.Probe{Func: kernel.Function{Name: name}}})
		}
		last := len(calls)
		if last > 0 && random.IntN(2) == 0 {
			last--
			c.Frames[last].Finished = true // it has no frame
		}
		for i := range frames {
			c.Stack = append(c.Stack, uint64(i))
		}
		m := merger{resolver: stackNames(frames)}
		rows := m.merge(&c)
		want := slices.Repeat([]int{-1}, len(frames))
		matchings(calls, frames, last, nil, func(way []int) {
			if better(way, want) {
				want = slices.Clone(way)
			}
		})
		if !slices.Equal(m.matched, want) {
			t.Fatalf("calls %q, frames %q, the last returned %t: %d, want %d", calls, frames, last < len(calls), m.matched, want)
		}
		next := 0
		for _, r := range rows {
			if r.call == nil {
				continue
			}
			if r.call != &c.Frames[next] {
				t.Fatalf("calls %q, frames %q: %s: a call is not in its place", calls, frames, brief(rows))
			}
			next++
		}
		if next != len(calls) {
			t.Fatalf("calls %q, frames %q: %s: calls are missing", calls, frames, brief(rows))
		}
	}
}
