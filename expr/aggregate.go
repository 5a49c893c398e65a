// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"math/bits"
)

// An Aggregation is an item that adds calls up instead of showing each: hist($duration)[$comm].
// For each key there is a row: a number of words, in which calls are accumulated.
//
// Row is the definition of what a row holds. Generated code must leave the same words behind.
type Aggregation struct {
	Fn    AggregationFunc
	Label string // the item as it was written, without its keys
	// Value is the scalar that is added up; nil for count().
	Value Term
	Of    string // Value as it was written
	View  View   // of Value, as top(10, sym(x)) asks for it
	Unit  Unit   // of Value
	// Sub is the binary logarithm of how many buckets each power of two has, for hist() and
	// quantiles().
	Sub uint8
	// Low, High and Step are those of lhist(). Low < High, 0 < Step, and Step divides High - Low.
	Low, High, Step int64
	// N is how many values top() shows.
	N int
	// Keys are the values in brackets. Each has either a Value or a Target: a pointer its Value, a
	// pointer to char the string as its Target.
	Keys []Capture
}

// Phase returns the first moment at which the value and all keys can be read.
func (g *Aggregation) Phase() Phase {
	phase := AtEntry
	if g.Value != nil {
		phase = PhaseOf(g.Value)
	}
	for i := range g.Keys {
		phase = max(phase, g.Keys[i].Phase())
	}
	return phase
}

// KeySize returns how many bytes all keys take: each a multiple of 8, and 8 more if any of them can
// be unreadable.
func (g *Aggregation) KeySize() uint32 {
	size, faults := uint32(0), uint32(0)
	for i := range g.Keys {
		size += (g.Keys[i].keySize() + 7) / 8 * 8
		for _, t := range []Term{g.Keys[i].Value, g.Keys[i].Target} {
			if t != nil && CanFault(t) {
				faults = 8
			}
		}
	}
	return size + faults
}

// keySize returns how many bytes a key has: those of a string, its NUL included, the length in front of
// a buffer.
func (c *Capture) keySize() uint32 {
	switch t := c.Target.(type) {
	case *Text:
		return t.Max
	case *Buffer:
		return t.Max + 8
	case *Object:
		size, _ := sizeOf(t.T)
		return uint32(size)
	}
	return 8
}

// An AggregationFunc is what an aggregation does with its values.
type AggregationFunc uint8

const (
	AggCount AggregationFunc = iota
	AggSum
	AggMin
	AggMax
	AggAvg
	AggStats
	AggHist
	AggLHist
	AggQuantiles
	AggTop
)

// aggregators maps each function that adds calls up to what it does, and to its least and most
// arguments. It is never changed.
var aggregators = map[string]struct {
	fn          AggregationFunc
	least, most int
}{
	"count": {AggCount, 0, 0}, "sum": {AggSum, 1, 1}, "min": {AggMin, 1, 1}, "max": {AggMax, 1, 1}, "avg": {AggAvg, 1, 1},
	"stats": {AggStats, 1, 1}, "hist": {AggHist, 1, 2}, "lhist": {AggLHist, 4, 4}, "quantiles": {AggQuantiles, 1, 1},
	"top": {AggTop, 2, 2},
}

// A Unit is what a number counts.
type Unit uint8

const (
	UnitNone  Unit = iota
	UnitNanos      // time
	UnitBytes
)

// Limits on keys and on tables.
const (
	// MaxKeyText is the most bytes of a string in a key, its final NUL included: what is longer
	// is cut.
	MaxKeyText = 64
	// MaxKey is the most bytes of all keys of one aggregation.
	MaxKey = 256
	// MaxLinear is the most buckets of lhist() between its bounds.
	MaxLinear = 1024
	// MaxTop is the most values that top() shows.
	MaxTop = 64
	// QuantilesSub is the Sub of quantiles(): a bucket is a 32th of a power of two, so its middle
	// is off by a 64th, 1.6 %, at most.
	QuantilesSub = 5
)

// The words of rows, by function. A number is stored in its order: as an unsigned number that
// sorts as the number does, see order. The words of a new row are 0, which is the smallest of
// all: so the minimum is stored as its complement.
//
//	count       calls
//	sum         calls, sum modulo 2^64
//	min         calls, ^order of the minimum
//	max         calls, order of the maximum
//	avg         as sum
//	stats       calls, sum, ^order of the minimum, order of the maximum
//	hist        calls by bucket: see Bucket
//	lhist       calls by bucket: below Low, each step, High and above
//	quantiles   order of the maximum, then as hist
//	top         see top.go

// Words returns how many words of 8 bytes a row has.
func (g *Aggregation) Words() int {
	switch g.Fn {
	case AggCount:
		return 1
	case AggSum, AggMin, AggMax, AggAvg:
		return 2
	case AggStats:
		return 4
	case AggTop:
		return topWords * g.Candidates()
	case AggQuantiles:
		return 1 + g.Buckets()
	}
	return g.Buckets()
}

// Single reports whether a call changes one word of a row only, by adding to it.
func (g *Aggregation) Single() bool { return g.Fn == AggCount || g.Fn == AggHist || g.Fn == AggLHist }

// signed reports whether the value is a signed number.
func (g *Aggregation) signed() bool {
	n, _ := number(g.Value.Type())
	return n.signed
}

// order returns an unsigned number that compares with others as x does.
func (g *Aggregation) order(x uint64) uint64 {
	if g.signed() {
		return x ^ 1<<63
	}
	return x
}

// Buckets returns how many buckets hist(), quantiles() and lhist() have.
func (g *Aggregation) Buckets() int {
	if g.Fn == AggLHist {
		return int((uint64(g.High)-uint64(g.Low))/uint64(g.Step)) + 2
	}
	n, _ := number(g.Value.Type())
	top := 8*n.size - 1 // the highest bit that a number of this type has
	if n.signed {
		top--
	}
	if top < uint32(g.Sub) {
		return 1 + 1<<(top+1)
	}
	return 1 + int(top-uint32(g.Sub)+2)<<g.Sub
}

// Bucket returns the bucket of a value. Negative numbers are in bucket 0 of hist(). Above it each
// power of two is divided into 2^Sub buckets; numbers below 2^Sub have a bucket each.
func (g *Aggregation) Bucket(x uint64) int {
	if g.Fn == AggLHist {
		return g.linear(x)
	}
	if g.signed() && int64(x) < 0 {
		return 0
	}
	if x < 1<<g.Sub {
		return 1 + int(x)
	}
	exponent := uint8(bits.Len64(x) - 1)
	shift := exponent - g.Sub
	return 1 + (int(shift)+1)<<g.Sub + int(x>>shift&(1<<g.Sub-1))
}

func (g *Aggregation) linear(x uint64) int {
	if g.signed() {
		switch v := int64(x); {
		case v < g.Low:
			return 0
		case v >= g.High:
			return g.Buckets() - 1
		}
	} else {
		switch {
		case g.Low > 0 && x < uint64(g.Low):
			return 0
		case g.High <= 0 || x >= uint64(g.High):
			return g.Buckets() - 1
		}
	}
	return 1 + int((x-uint64(g.Low))/uint64(g.Step))
}

// Bounds returns the smallest and the largest value in a bucket, in register form. The first
// bucket of hist() has all negative numbers; those of lhist() at the ends have all that lie
// beyond.
func (g *Aggregation) Bounds(bucket int) (low, high uint64) {
	if g.Fn == AggLHist {
		least, most := uint64(0), ^uint64(0)
		if g.signed() {
			least, most = 1<<63, 1<<63-1
		}
		switch bucket {
		case 0:
			return least, uint64(g.Low) - 1
		case g.Buckets() - 1:
			return uint64(g.High), most
		}
		low = uint64(g.Low) + uint64(bucket-1)*uint64(g.Step)
		return low, low + uint64(g.Step) - 1
	}
	switch bucket--; {
	case bucket < 0:
		return 1 << 63, ^uint64(0)
	case bucket < 1<<g.Sub:
		return uint64(bucket), uint64(bucket)
	}
	shift := bucket>>g.Sub - 1
	low = (1<<g.Sub | uint64(bucket)&(1<<g.Sub-1)) << shift
	return low, low + 1<<shift - 1
}

// Accumulate adds one call to a row. x is the value in register form.
func (g *Aggregation) Accumulate(row []uint64, x uint64) {
	switch g.Fn {
	case AggCount:
		row[0]++
	case AggMin:
		row[0]++
		row[1] = max(row[1], ^g.order(x))
	case AggMax:
		row[0]++
		row[1] = max(row[1], g.order(x))
	case AggSum, AggAvg:
		row[0]++
		row[1] += x
	case AggStats:
		row[0]++
		row[1] += x
		row[2], row[3] = max(row[2], ^g.order(x)), max(row[3], g.order(x))
	case AggHist, AggLHist:
		row[g.Bucket(x)]++
	case AggQuantiles:
		row[0] = max(row[0], g.order(x))
		row[1+g.Bucket(x)]++
	case AggTop:
		g.observe(row, x)
	}
}

// Merge adds a row of the same key to another, and returns that: a row of top() that was merged may have more words than others.
func (g *Aggregation) Merge(row, other []uint64) []uint64 {
	switch g.Fn {
	case AggMin, AggMax:
		row[0] += other[0]
		row[1] = max(row[1], other[1])
	case AggStats:
		row[0] += other[0]
		row[1] += other[1]
		row[2], row[3] = max(row[2], other[2]), max(row[3], other[3])
	case AggQuantiles:
		row[0] = max(row[0], other[0])
		add(row[1:], other[1:])
	case AggTop:
		return g.mergeTop(row, other)
	default:
		add(row, other)
	}
	return row
}

func add(row, other []uint64) {
	for i, n := range other {
		row[i] += n
	}
}

// Minimum returns the smallest value of a row of min() or stats(), in register form. The row must
// have calls.
func (g *Aggregation) Minimum(row []uint64) uint64 {
	return g.order(^row[map[AggregationFunc]int{AggMin: 1, AggStats: 2}[g.Fn]])
}

// Maximum returns the largest value of a row of max(), stats() or quantiles(), in register form. The
// row must have calls.
func (g *Aggregation) Maximum(row []uint64) uint64 {
	return g.order(row[map[AggregationFunc]int{AggMax: 1, AggStats: 3}[g.Fn]])
}
