// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// listed makes calls of a text, a letter each for the function; a digit behind it is its value.
func listed(names *Names, text string) (calls []*Call) {
	for _, word := range strings.Fields(text) {
		calls = append(calls, &Call{Func: word[:1], Result: word[1:], Finished: true})
	}
	names.seal(calls)
	return calls
}

// paired writes pairs as a text: "a1|a2 b|-".
func paired(pairs []pair) string {
	name := func(c *Call) string {
		if c == nil {
			return "-"
		}
		return c.Func + c.Result
	}
	var words []string
	for _, p := range pairs {
		words = append(words, name(p.good)+"|"+name(p.bad))
	}
	return strings.Join(words, " ")
}

func TestAlign(t *testing.T) {
	for _, c := range []struct{ good, bad, want string }{
		{"", "", ""},
		{"a", "", "a|-"},
		{"", "a", "-|a"},
		{"a b c", "a c", "a|a b|- c|c"},
		{"a c", "a b c", "a|a -|b c|c"},
		{"a b", "b a", "a|- b|b -|a"},
		{"f1 f2 f3", "f1 f3", "f1|f1 f2|- f3|f3"},
		{"f1 f3", "f1 f2 f3", "f1|f1 -|f2 f3|f3"},
		{"f1 f2", "f3 f4 f5", "f1|f3 f2|f4 -|f5"},
		{"f1 f2 g", "f2 f1 g", "f1|f2 f2|f1 g|g"}, // a partner counts more than what is equal
	} {
		names := NewNames()
		if got := paired(align(listed(names, c.good), listed(names, c.bad))); got != c.want {
			t.Errorf("%s, %s: %s, want %s", c.good, c.bad, got, c.want)
		}
	}
}

// longest is the textbook's length of a longest common subsequence.
func longest(n, m int, equal func(i, j int) bool) int {
	row := make([]int, m+1)
	for i := range n {
		diagonal := 0
		for j := range m {
			above := row[j+1]
			if equal(i, j) {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(above, row[j])
			}
			diagonal = above
		}
	}
	return row[m]
}

// checkPairs: pairs have all calls of both lists in their order, and partners of one function. It returns how many
// have a partner.
func checkPairs(t *testing.T, pairs []pair, good, bad []*Call) (both int) {
	t.Helper()
	var g, b []*Call
	for _, p := range pairs {
		if p.good != nil {
			g = append(g, p.good)
		}
		if p.bad != nil {
			b = append(b, p.bad)
		}
		if p.good != nil && p.bad != nil {
			if both++; p.good.Func != p.bad.Func {
				t.Fatalf("%s is the partner of %s", p.good.Func, p.bad.Func)
			}
		}
	}
	if !slices.Equal(g, good) || !slices.Equal(b, bad) {
		t.Fatal("calls are missing, or not in their order")
	}
	return both
}

func randomCalls(r *rand.Rand, names *Names, n, functions, values int) []*Call {
	calls := make([]*Call, n)
	for i := range calls {
		calls[i] = &Call{Func: string(rune('a' + r.IntN(functions))), Result: string(rune('0' + r.IntN(values))), Finished: true}
	}
	names.seal(calls)
	return calls
}

// TestAlignMost: as many calls as possible have partners.
func TestAlignMost(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		names := NewNames()
		good, bad := randomCalls(r, names, r.IntN(12), 1+r.IntN(4), 3), randomCalls(r, names, r.IntN(12), 1+r.IntN(4), 3)
		want := longest(len(good), len(bad), func(i, j int) bool { return good[i].Func == bad[j].Func })
		if got := checkPairs(t, align(good, bad), good, bad); got != want {
			t.Fatalf("%d partners, want %d", got, want)
		}
		equal := func(i, j int) bool { return good[i].whole == bad[j].whole }
		matches := common(len(good), len(bad), equal)
		if want := longest(len(good), len(bad), equal); len(matches) != want {
			t.Fatalf("%d in common, want %d", len(matches), want)
		}
		at := [2]int{-1, -1}
		for _, m := range matches {
			if m[0] <= at[0] || m[1] <= at[1] || !equal(m[0], m[1]) {
				t.Fatalf("%v", matches)
			}
			at = m
		}
	}
}

// TestAlignLong: long lists are aligned, whatever is in them, and small changes of them are found. BenchmarkCompare has the time.
func TestAlignLong(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	names := NewNames()
	good := randomCalls(r, names, 10_000, 20, 10)
	changed := slices.Clone(good)
	for range 50 {
		i := r.IntN(len(changed))
		changed = slices.Delete(changed, i, i+1)
		changed = slices.Insert(changed, r.IntN(len(changed)), randomCalls(r, names, 1, 20, 10)...)
	}
	for _, c := range []struct {
		name  string
		bad   []*Call
		least int
	}{
		{"equal", good, len(good)},
		{"changed", changed, len(good) - 50},
		{"other values", randomCalls(r, names, 10_000, 20, 10), 3000},
		{"other functions", randomCalls(r, names, 10_000, 2, 1), 0},
		{"longer", slices.Concat(randomCalls(r, names, 30_000, 20, 10), good), 5000},
	} {
		pairs := align(good, c.bad)
		if both := checkPairs(t, pairs, good, c.bad); both < c.least {
			t.Errorf("%s: %d have partners", c.name, both)
		}
	}
}

// BenchmarkCompare compares sessions of 10,000 calls: the limit is a second.
func BenchmarkCompare(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, of := range []struct {
		name  string
		other bool
	}{{"one call differs", false}, {"all calls differ", true}} {
		b.Run(of.name, func(b *testing.B) {
			names := NewNames()
			run := func(c []*Call) *Run { return &Run{threads: []*thread{{Comm: "cat", Calls: c}}, Calls: len(c)} }
			good := randomCalls(r, names, 10_000, 20, 10)
			bad := slices.Delete(slices.Clone(good), 5000, 5001)
			if of.other {
				bad = randomCalls(r, names, 10_000, 20, 10)
			}
			for b.Loop() {
				Compare(run(good), run(bad))
			}
		})
	}
}
