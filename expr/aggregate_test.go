// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// numberOf returns a value of a type with so many bytes.
func numberOf(size uint32, signed bool) Term {
	t := &btf.Int{Name: "t", Size: size}
	if signed {
		t.Encoding = btf.Signed
	}
	return &Const{T: t}
}

// TestBuckets holds Bucket to Bounds for numbers of every width, at every bucket's ends.
func TestBuckets(t *testing.T) {
	var all []*Aggregation
	for _, size := range []uint32{1, 2, 4, 8} {
		for _, signed := range []bool{false, true} {
			for sub := uint8(0); sub <= 6; sub++ {
				all = append(all, &Aggregation{Fn: AggHist, Value: numberOf(size, signed), Sub: sub})
			}
		}
	}
	for _, signed := range []bool{false, true} {
		for _, b := range [][3]int64{{0, 100, 10}, {-50, 50, 25}, {100, 1000, 100}, {math.MaxInt64 - 10, math.MaxInt64, 1}} {
			all = append(all, &Aggregation{Fn: AggLHist, Value: numberOf(8, signed), Low: b[0], High: b[1], Step: b[2]})
		}
	}
	for _, g := range all {
		n, _ := number(g.Value.Type())
		for bucket := range g.Buckets() {
			low, high := g.Bounds(bucket)
			for _, x := range []uint64{low, high, low + (high-low)/2} {
				inRange := n.extend(x) == x
				if unsigned := !g.signed(); unsigned && g.Fn == AggHist && bucket == 0 || unsigned && g.Fn == AggLHist && (g.Low < 0 || g.Low == 0 && bucket == 0) {
					continue // no number is there, or the bounds are no numbers of the type
				}
				if got := g.Bucket(x); inRange && got != bucket {
					t.Errorf("%+v: bucket %d has %d to %d, but %d is in %d", g, bucket, low, high, x, got)
				}
			}
		}
		for range 1000 {
			x := n.extend(rand.Uint64() >> rand.UintN(64))
			bucket := g.Bucket(x)
			if bucket < 0 || bucket >= g.Buckets() {
				t.Errorf("%+v: %d is in bucket %d of %d", g, x, bucket, g.Buckets())
			}
		}
	}
}

// TestAccumulate compares rows, some of them merged, with what the values give by plain
// computation.
func TestAccumulate(t *testing.T) {
	for _, signed := range []bool{false, true} {
		less := func(a, b uint64) int {
			if signed {
				return int(int64(a)>>1) - int(int64(b)>>1)
			}
			return int(a>>2) - int(b>>2)
		}
		for range 200 {
			values := make([]uint64, 1+rand.IntN(50))
			var sum uint64
			for i := range values {
				values[i] = rand.Uint64() >> rand.UintN(60) &^ 3
				if signed && rand.IntN(2) == 0 {
					values[i] = -values[i]
				}
				sum += values[i]
			}
			least, most := slices.MinFunc(values, less), slices.MaxFunc(values, less)
			row := func(fn AggregationFunc) (*Aggregation, []uint64) {
				g := &Aggregation{Fn: fn, Value: numberOf(8, signed), Sub: QuantilesSub, N: 3}
				row, other := make([]uint64, g.Words()), make([]uint64, g.Words())
				cut := rand.IntN(len(values))
				for i, x := range values {
					g.Accumulate([][]uint64{row, other}[min(i/max(cut, 1), 1)], x)
				}
				row = g.Merge(row, other)
				return g, row
			}
			if g, r := row(AggStats); r[0] != uint64(len(values)) || r[1] != sum || g.Minimum(r) != least || g.Maximum(r) != most {
				t.Errorf("stats of %d: %d", values, r)
			}
			if g, r := row(AggMin); g.Minimum(r) != least {
				t.Errorf("minimum of %d: %d", values, g.Minimum(r))
			}
			if g, r := row(AggQuantiles); g.Maximum(r) != most {
				t.Errorf("maximum of %d: %d", values, g.Maximum(r))
			}
		}
	}
}

// TestTop holds top() to its bounds, on merged rows too: no count is too low, none less its error
// is too high, and what is frequent enough is there.
func TestTop(t *testing.T) {
	g := &Aggregation{Fn: AggTop, Value: numberOf(8, false), N: 5}
	for range 100 {
		rows := make([][]uint64, 3)
		made, total := map[uint64]uint64{}, uint64(0)
		for i := range rows {
			rows[i] = make([]uint64, g.Words())
			for range rand.IntN(3000) {
				x := uint64(rand.ExpFloat64() * 30)
				made[x]++
				total++
				g.Accumulate(rows[i], x)
			}
		}
		for _, other := range rows[1:] {
			rows[0] = g.Merge(rows[0], other)
		}
		seen := map[uint64]bool{}
		for _, c := range g.Top(rows[0]) {
			seen[c.Value] = true
			if c.Count < made[c.Value] || c.Count-c.Error > made[c.Value] {
				t.Errorf("%d was seen %d times, not %d to %d", c.Value, made[c.Value], c.Count-c.Error, c.Count)
			}
		}
		for x, n := range made {
			if n > total/uint64(g.Candidates())*2+3 && !seen[x] {
				t.Errorf("%d was seen %d times of %d and is missing", x, n, total)
			}
		}
	}
}

// TestTopExact: counts are exact as long as no CPU has seen more values than there are candidates, whatever others have seen.
func TestTopExact(t *testing.T) {
	g := &Aggregation{Fn: AggTop, Value: numberOf(8, false), N: 4}
	var sum []uint64
	want := map[uint64]uint64{}
	for cpu := range uint64(20) {
		row := make([]uint64, g.Words())
		for n := range uint64(g.Candidates()) {
			value, times := 100*cpu+n, 1+uint64(rand.IntN(100))
			if n == 0 {
				value = 7 // which each of them has
			}
			for range times {
				g.Accumulate(row, value)
			}
			want[value] += times
		}
		if sum == nil {
			sum = make([]uint64, g.Words())
		}
		sum = g.Merge(sum, row)
	}
	all := g.Top(sum)
	if len(all) != len(want) || !slices.IsSortedFunc(all, func(a, b Candidate) int { return int(b.Count) - int(a.Count) }) {
		t.Errorf("%d candidates, want %d", len(all), len(want))
	}
	for _, c := range all {
		if c.Count != want[c.Value] || c.Error != 0 {
			t.Errorf("%d: %d, perhaps %d too many; want %d", c.Value, c.Count, c.Error, want[c.Value])
		}
	}
	for n := range uint64(mostMerged) { // beyond what a row may have, a count may be too high, and that is said
		row := make([]uint64, g.Words())
		for range 50 + n%2 {
			g.Accumulate(row, 10_000+n)
		}
		want[10_000+n] += 50 + n%2
		sum = g.Merge(sum, row)
	}
	if all = g.Top(sum); len(all) != mostMerged {
		t.Errorf("%d candidates", len(all))
	}
	for _, c := range all {
		if c.Count < want[c.Value] || c.Count-c.Error > want[c.Value] {
			t.Errorf("%d was seen %d times, not %d to %d", c.Value, want[c.Value], c.Count-c.Error, c.Count)
		}
	}
}
