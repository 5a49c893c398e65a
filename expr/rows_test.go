// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// numbersOf returns values of a type: small ones, those at powers of two, any.
func numbersOf(rng *rand.Rand, n numeric, count int) []uint64 {
	values := make([]uint64, count)
	for i := range values {
		x := rng.Uint64() >> rng.UintN(64)
		switch rng.IntN(4) {
		case 0:
			x = 1<<rng.UintN(64) - rng.Uint64N(3)
		case 1:
			x = rng.Uint64N(200)
		}
		if rng.IntN(3) == 0 {
			x = -x
		}
		values[i] = n.extend(x)
	}
	return values
}

// exact returns a number of a type as it is in mathematics.
func exact(x uint64, n numeric) *big.Int {
	if n.signed {
		return big.NewInt(int64(x))
	}
	return new(big.Int).SetUint64(x)
}

// rowOf adds values up in some rows and merges these, as rows of several CPUs are.
func rowOf(rng *rand.Rand, g *Aggregation, values []uint64) []uint64 {
	rows := make([][]uint64, 1+rng.IntN(4))
	for i := range rows {
		rows[i] = make([]uint64, g.Words())
	}
	for _, x := range values {
		g.Accumulate(rows[rng.IntN(len(rows))], x)
	}
	for _, other := range rows[1:] {
		rows[0] = g.Merge(rows[0], other)
	}
	return rows[0]
}

var allNumerics = []numeric{{1, false}, {1, true}, {2, false}, {2, true}, {4, false}, {4, true}, {8, false}, {8, true}}

// lowerBounds returns where the buckets of hist(x, n) begin: n in each power of two, and a bucket for
// each number below n.
func lowerBounds(n int64) []*big.Int {
	var bounds []*big.Int
	for i := range n {
		bounds = append(bounds, big.NewInt(i))
	}
	for power := big.NewInt(n); power.BitLen() <= 64; power = new(big.Int).Mul(power, big.NewInt(2)) {
		for i := range n {
			step := new(big.Int).Div(new(big.Int).Mul(power, big.NewInt(i)), big.NewInt(n))
			bounds = append(bounds, step.Add(step, power))
		}
	}
	return bounds
}

// TestHistogramRows counts the calls of each bucket by a search among the bounds that the language
// promises, in whole numbers of any size.
func TestHistogramRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n := range allNumerics {
		for sub := range uint8(6) {
			g := &Aggregation{Fn: AggHist, Value: numberOf(n.size, n.signed), Sub: sub}
			bounds := lowerBounds(1 << sub)
			values := numbersOf(rng, n, 3000)
			want := map[string]uint64{}
			for _, x := range values {
				at := "negative"
				if v := exact(x, n); v.Sign() >= 0 {
					i, _ := slices.BinarySearchFunc(bounds, v, func(b, v *big.Int) int { return b.Cmp(v)*2 - 1 })
					at = bounds[i-1].String()
				}
				want[at]++
			}
			got := map[string]uint64{}
			for bucket, calls := range rowOf(rng, g, values) {
				if calls == 0 {
					continue
				}
				low, high := g.Bounds(bucket)
				at := "negative"
				if v := exact(high, n); v.Sign() >= 0 {
					at = exact(low, n).String()
				}
				got[at] += calls
			}
			if len(got) != len(want) {
				t.Errorf("hist(x, %d) of %+v: %d buckets, want %d", 1<<sub, n, len(got), len(want))
			}
			for at, calls := range want {
				if got[at] != calls {
					t.Errorf("hist(x, %d) of %+v: %d calls from %s on, want %d", 1<<sub, n, got[at], at, calls)
				}
			}
		}
	}
}

// TestLinearRows divides in whole numbers of any size.
func TestLinearRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for range 300 {
		n := allNumerics[rng.IntN(len(allNumerics))]
		values := numbersOf(rng, n, 300)
		step := 1 + rng.Int64N(1<<rng.IntN(40))
		low := int64(values[0]) // a bound that there are values at
		if rng.IntN(2) == 0 {
			low = rng.Int64N(1000) - 500
		}
		low = min(low, math.MaxInt64-step)
		buckets := 1 + rng.Int64N(min(MaxLinear, (math.MaxInt64-max(low, 0))/step))
		g := &Aggregation{Fn: AggLHist, Value: numberOf(n.size, n.signed), Low: low, High: low + buckets*step, Step: step}
		want := make([]uint64, buckets+2)
		for _, x := range values {
			above := new(big.Int).Sub(exact(x, n), big.NewInt(low))
			switch q := new(big.Int).Div(above, big.NewInt(step)); { // rounded down
			case above.Sign() < 0:
				want[0]++
			case q.Cmp(big.NewInt(buckets)) >= 0:
				want[buckets+1]++
			default:
				want[1+q.Int64()]++
			}
		}
		if got := rowOf(rng, g, values); !slices.Equal(got, want) {
			t.Errorf("lhist(x, %d, %d, %d) of %+v: %d, want %d", g.Low, g.High, g.Step, n, got, want)
		}
	}
}

// TestQuantileRows: at each rank the middle of the bucket is within 1.6 % of the value that the sorted
// values have there.
func TestQuantileRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for range 100 {
		n := allNumerics[rng.IntN(len(allNumerics))]
		g := &Aggregation{Fn: AggQuantiles, Value: numberOf(n.size, n.signed), Sub: QuantilesSub}
		values := numbersOf(rng, n, 1+rng.IntN(2000))
		row := rowOf(rng, g, values)
		sorted := make([]*big.Int, len(values))
		for i, x := range values {
			sorted[i] = exact(x, n)
		}
		slices.SortFunc(sorted, (*big.Int).Cmp)
		if most := exact(g.Maximum(row), n); most.Cmp(sorted[len(sorted)-1]) != 0 {
			t.Errorf("the maximum of %+v is %d, want %d", n, most, sorted[len(sorted)-1])
		}
		rank := 0
		for bucket, calls := range row[1:] {
			low, high := g.Bounds(bucket)
			for range calls {
				value := sorted[rank]
				rank++
				if value.Sign() < 0 {
					if bucket != 0 {
						t.Errorf("%d of %+v is in bucket %d", value, n, bucket)
					}
					continue
				}
				middle := exact(low+(high-low)/2, n)
				off := new(big.Int).Sub(middle, value)
				if off.Abs(off).Mul(off, big.NewInt(1000)).Cmp(new(big.Int).Mul(value, big.NewInt(16))) > 0 {
					t.Fatalf("rank %d of %+v has %d, but %d is in the middle of its bucket", rank, n, value, middle)
				}
			}
		}
		if rank != len(sorted) {
			t.Errorf("%d of %d calls in buckets", rank, len(sorted))
		}
	}
}

// TestNumberRows compares the other functions with sums, minima and maxima in whole numbers of any
// size.
func TestNumberRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	modulus := new(big.Int).Lsh(big.NewInt(1), 64)
	for range 300 {
		n := allNumerics[rng.IntN(len(allNumerics))]
		values := numbersOf(rng, n, 1+rng.IntN(100))
		sum, least, most := new(big.Int), exact(values[0], n), exact(values[0], n)
		for _, x := range values {
			v := exact(x, n)
			sum.Add(sum, v)
			if v.Cmp(least) < 0 {
				least = v
			}
			if v.Cmp(most) > 0 {
				most = v
			}
		}
		calls, total := uint64(len(values)), sum.Mod(sum, modulus).Uint64()
		row := func(fn AggregationFunc) (*Aggregation, []uint64) {
			g := &Aggregation{Fn: fn, Value: numberOf(n.size, n.signed)}
			return g, rowOf(rng, g, values)
		}
		if _, r := row(AggCount); r[0] != calls {
			t.Errorf("count: %d, want %d", r, calls)
		}
		for _, fn := range []AggregationFunc{AggSum, AggAvg} {
			if _, r := row(fn); r[0] != calls || r[1] != total {
				t.Errorf("%d: %d, want %d, %d", fn, r, calls, total)
			}
		}
		if g, r := row(AggMin); r[0] != calls || exact(g.Minimum(r), n).Cmp(least) != 0 {
			t.Errorf("min of %+v: %d, want %d", n, r, least)
		}
		if g, r := row(AggMax); r[0] != calls || exact(g.Maximum(r), n).Cmp(most) != 0 {
			t.Errorf("max of %+v: %d, want %d", n, r, most)
		}
		if g, r := row(AggStats); r[0] != calls || r[1] != total || exact(g.Minimum(r), n).Cmp(least) != 0 || exact(g.Maximum(r), n).Cmp(most) != 0 {
			t.Errorf("stats of %+v: %d, want %d, %d, %d, %d", n, r, calls, total, least, most)
		}
	}
}

// TestTopRows: what is exact as long as there are no more values than candidates stays within its
// bounds beyond, whatever the order; the counts of a row that was not merged add up to the calls.
func TestTopRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	for range 200 {
		g := &Aggregation{Fn: AggTop, Value: numberOf(8, false), N: 1 + rng.IntN(MaxTop)}
		kinds := 1 + rng.IntN(3*g.Candidates())
		values := make([]uint64, rng.IntN(5000))
		made := map[uint64]uint64{}
		for i := range values {
			values[i] = rng.Uint64N(1+rng.Uint64N(uint64(kinds))) * 0x9e3779b97f4a7c15
			made[values[i]]++
		}
		if rng.IntN(3) == 0 {
			slices.Sort(values) // the hardest order: what comes late takes the place of what was frequent
		}
		row := make([]uint64, g.Words())
		for _, x := range values {
			g.Accumulate(row, x)
		}
		sum := uint64(0)
		for _, c := range g.Top(row) {
			sum += c.Count
			if c.Count < made[c.Value] || c.Count-c.Error > made[c.Value] || len(made) <= g.Candidates() && c.Error != 0 {
				t.Errorf("top(%d, x): %d was seen %d times, not %d to %d", g.N, c.Value, made[c.Value], c.Count-c.Error, c.Count)
			}
			if c.Error > uint64(len(values)/g.Candidates()) {
				t.Errorf("top(%d, x): the error %d is more than the %d calls by the candidates", g.N, c.Error, len(values))
			}
		}
		if sum != uint64(len(values)) {
			t.Errorf("top(%d, x): counts of %d, want %d", g.N, sum, len(values))
		}
		for i, c := range g.Top(rowOf(rng, g, values)) {
			if c.Count < made[c.Value] || c.Count-c.Error > made[c.Value] {
				t.Errorf("top(%d, x), merged: %d was seen %d times, not %d to %d", g.N, c.Value, made[c.Value], c.Count-c.Error, c.Count)
			}
			if i >= mostMerged {
				t.Errorf("top(%d, x), merged: %d candidates", g.N, i)
			}
		}
	}
}
