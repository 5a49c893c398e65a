// SPDX-License-Identifier: Apache-2.0

package code

import (
	"fmt"
	"strings"
	"testing"
)

// walkSource has functions that return errors in ways that compilers make jumps of, with cleaning
// up behind them. All that they return depends on their arguments alone.
const walkSource = `#include <stdio.h>
#define F __attribute__((noinline, noclone))
#define ARGS int type, int key, int value, int entries, long b
volatile int kept;
F void put(int n) { kept = n; }
F long check(ARGS) { if (entries == 0 || key != 4 || value == 0 || b & ~7) return -22; if (value > 100) return -7; return 0; }
F long clean(ARGS) { long e = -12; if (key < 0) goto out; e = -22; if (b == 5) goto out; if (type & 4) { e = -1; goto out; } e = 0;
out: if (value) put(3); if (b > 9) put(4); return e; }
F long late(ARGS) { int e = 0; if (type == 3) e = -22; else if (b < 0) e = -14; put(e); if (!e && entries > 64) e = -7; return e; }
F long kinds(ARGS) { switch (type) { case 0: return key ? -22 : 0; case 1: return -38; case 2: if (b) return -1; return 0; case 3: case 4: return -95; default: return -2; } }
F long turns(ARGS) { for (int i = 0; i < (type & 3); i++) if (key + i == (int)b) return -17; return entries ? 0 : -2; }
F long chosen(ARGS) { long e = type > 2 ? -22 : 0; if (key == 3) return -7; return e; }
int main(void) {
	long (*all[])(ARGS) = { check, clean, late, kinds, turns, chosen };
	int numbers[] = { 0, 1, 3, 4, 5, 70, 101, -1 };
	for (int f = 0; f < 6; f++) for (int t = 0; t < 8; t += 1 + (f != 3)) for (int k = 0; k < 8; k++) for (int v = 0; v < 8; v += 3) for (int e = 0; e < 8; e += 3) for (int b = 0; b < 8; b++)
		printf("%d %d %d %d %d %d %ld\n", f, numbers[t], numbers[k], numbers[v], numbers[e], numbers[b], all[f](numbers[t], numbers[k], numbers[v], numbers[e], numbers[b]));
	return 0;
}
`

// TestWalk compares with what compiled functions return for many arguments. What the code says to
// be returned must be that. Behind the jump that is said to have decided, no other one can have: of
// all calls that went the same way to it and on the other one from there, none has succeeded.
func TestWalk(t *testing.T) {
	for arch := range compilers {
		for _, level := range []string{"-O2", "-Os", "-O1"} {
			t.Run(arch+level, func(t *testing.T) { testWalk(t, arch, level) })
		}
	}
}

func testWalk(t *testing.T, arch, level string) {
	names := []string{"check", "clean", "late", "kinds", "turns", "chosen", "put"}
	file, out := compile(t, arch, level, walkSource)
	code := functionsOf(t, arch, file, names)
	put := Callee{Addr: code[6].Parts[0].Addr, Kind: Returning}
	var calls []walked
	for line := range strings.Lines(out) {
		var c walked
		var a [5]int64
		if _, err := fmt.Sscan(line, &c.function, &a[0], &a[1], &a[2], &a[3], &a[4], &c.result); err != nil {
			t.Fatal(err)
		}
		c.hits = code[c.function].run(t, a)
		calls = append(calls, c)
	}
	var decided, unsure [6]int
	other := resultsByWay(calls)
	for i := range calls {
		c := &calls[i]
		f := &code[c.function]
		w := f.Walk(f.graph, f.sites, c.hits, Callees{put}, false)
		if v := w.Returned; v != nil && v.Kind == Constant && int32(v.N) != int32(c.result) {
			t.Fatalf("%s %s%v: returns %d, not %d", level, names[c.function], c.hits, c.result, v.N)
		}
		switch {
		case c.result >= 0:
			continue
		case w.Unsure:
			unsure[c.function]++
			continue
		case w.Deciding != None:
			decided[c.function]++
		}
		for j := w.Deciding + 1; j < len(c.hits); j++ {
			if c.hits[j].Site < 0 || f.sites[c.hits[j].Site].Start {
				continue
			}
			for r := range other[wayKey(c.function, c.hits[:j], !c.hits[j].Taken)] {
				if r >= 0 {
					t.Fatalf("%s %s%v = %d: jump %d decides, but behind it %d has led to %d", level, names[c.function], c.hits, c.result, w.Deciding, j, r)
				}
			}
		}
		// check and kinds have no cleaning up: the last jump of their errors decides.
		if c.function == 0 && w.Deciding != len(c.hits)-1 {
			t.Fatalf("%s %s%v = %d: jump %d decides", level, names[c.function], c.hits, c.result, w.Deciding)
		}
	}
	t.Logf("%s: %d decided, %d unsure", level, decided, unsure)
	// The others are mostly made without jumps.
	if decided[0] < 9*unsure[0] || decided[1] == 0 || decided[2] < unsure[2] {
		t.Errorf("%s: %d decided, %d unsure", level, decided, unsure)
	}
}

// A walked is one call of a function.
type walked struct {
	function int
	hits     []Hit
	result   int64
}

// resultsByWay returns all results of calls, by the way up to each jump and where that led to.
func resultsByWay(calls []walked) map[string]map[int64]bool {
	all := map[string]map[int64]bool{}
	for _, c := range calls {
		for j := range c.hits {
			key := wayKey(c.function, c.hits[:j], c.hits[j].Taken)
			if all[key] == nil {
				all[key] = map[int64]bool{}
			}
			all[key][c.result] = true
		}
	}
	return all
}

func wayKey(function int, before []Hit, taken bool) string {
	return fmt.Sprint(function, before, taken)
}

// run returns the hits of a call: of which one way is possible.
func (c *compiled) run(t *testing.T, args [5]int64) []Hit {
	t.Helper()
	ways, ok := c.Possible(c.graph, c.sites, givenTo(c.Arch, args[:]), nil, nil)
	if !ok || len(ways) != 1 {
		t.Fatalf("%#x %v: %d ways, %v", c.Parts[0].Addr, args, len(ways), ways)
	}
	return ways[0].Hits
}
