// SPDX-License-Identifier: Apache-2.0

package summary_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/summary"
)

// aggregation adds up values of a type.
func aggregation(fn expr.AggregationFunc, t btf.Type) *expr.Aggregation {
	g := &expr.Aggregation{Fn: fn, Label: "x", Value: &expr.Result{T: t, Width: 8}}
	if fn == expr.AggQuantiles {
		g.Sub = expr.QuantilesSub
	}
	return g
}

// TestQuantiles holds them to the sorted values.
func TestQuantiles(t *testing.T) {
	for _, of := range []btf.Type{long, &btf.Int{Name: "unsigned long", Size: 8}, integer} {
		for round := range 200 {
			g := aggregation(expr.AggQuantiles, of)
			words := make([]uint64, g.Words())
			values := make([]uint64, 1+rand.IntN(3000))
			for i := range values {
				values[i] = rand.Uint64() >> (34 + rand.UintN(30))
				if size, signed, _ := expr.Number(of); round%4 == 0 && signed && i%3 == 0 && size > 0 {
					values[i] = -values[i]
				}
				g.Accumulate(words, values[i])
			}
			slices.SortFunc(values, func(a, b uint64) int { return int(int64(a) - int64(b)) })
			if n, ok := summary.Calls(g, words); n != uint64(len(values)) || !ok {
				t.Fatalf("%d calls of %d", n, len(values))
			}
			for _, q := range summary.Quantiles(g, words) {
				// The least value that at least so many of a thousand do not exceed.
				want := int64(values[(len(values)*q.PerMill+999)/1000-1])
				off := math.Abs(float64(int64(q.Value)-want)) / math.Max(float64(want), 1)
				switch {
				case q.Negative != (want < 0 && q.Name != "max"):
					t.Errorf("%s: negative %v, but the value is %d", q.Name, q.Negative, want)
				case q.Negative:
				case q.Name == "max" && int64(q.Value) != want, off > 1.0/64:
					t.Errorf("%s of %d values: %d, want %d", q.Name, len(values), q.Value, want)
				}
			}
		}
	}
}

// TestSorted: the largest row comes first, and those that are alike by their keys.
func TestSorted(t *testing.T) {
	key := func(n int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }
	for fn, want := range map[expr.AggregationFunc]string{
		expr.AggCount: "3 -1 0 2", expr.AggSum: "0 3 -1 2", expr.AggMin: "2 -1 3 0", expr.AggMax: "0 3 -1 2", expr.AggAvg: "0 3 -1 2", expr.AggStats: "0 3 -1 2",
		expr.AggHist: "3 -1 0 2", expr.AggQuantiles: "3 -1 0 2",
	} {
		g := aggregation(fn, long)
		g.Keys = []expr.Capture{{Label: "flags", Value: &expr.Arg{T: long, Width: 8}}}
		tables := summary.Of(planOf([]*expr.Aggregation{g}))
		b := summary.NewBuilder(tables)
		for k, values := range map[int64][]int64{0: {100}, 2: {-50}, 3: {10, 20, 30}, -1: {5, 5}, 9: {}} {
			words := b.Words(0, key(k), 0)
			for _, x := range values {
				g.Accumulate(words, uint64(x))
			}
		}
		filled := b.Take()
		var got []string
		for _, r := range filled[0].Sorted() {
			got = append(got, fmt.Sprint(int64(binary.LittleEndian.Uint64(r.Key))))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%d: %v, want %s", fn, got, want)
		}
	}
	tables := summary.Of(planOf([]*expr.Aggregation{counts(integer)}))
	b := summary.NewBuilder(tables)
	for _, r := range []summary.Row{{Key: make([]byte, 24), Faults: 1}, {Key: keyOf(7, "b")}, {Key: keyOf(-7, "c")}, {Key: keyOf(7, "a")}} {
		r.Words = []uint64{5}
		b.Add(0, r)
	}
	var got []string
	filled := b.Take()
	for _, r := range filled[0].Sorted() {
		got = append(got, fmt.Sprint(r.Faults, int64(binary.LittleEndian.Uint64(r.Key)), string(r.Key[8:9])))
	}
	if strings.Join(got, ", ") != "0 -7c, 0 7a, 0 7b, 1 0\x00" {
		t.Errorf("%q", got)
	}
}
