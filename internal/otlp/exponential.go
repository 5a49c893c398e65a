// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"math/big"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/protomsg"
)

// An exponential is an exponential histogram of numbers from 0. Bucket i has numbers above base^i, up to base^(i+1),
// where base is 2^(2^-scale).
type exponential struct {
	scale  int
	count  uint64   // of all numbers
	zero   uint64   // of those that are 0
	offset int      // index of the first bucket
	counts []uint64 // by bucket
}

// exponentialOf returns the histogram of a row of hist() without the numbers below 0. It has as many buckets for a power
// of two as hist() has. All that is in a bucket of hist() is counted where the largest number of that bucket belongs.
// So a bucket of hist() with one number is exact. Of hist(x), so are all numbers but powers of two from 2 on: such a one is
// the smallest of its bucket, where an exponential histogram has it as the largest of the one before.
func exponentialOf(g *expr.Aggregation, words []uint64) *exponential {
	h := &exponential{scale: int(g.Sub), zero: words[1], count: words[1]}
	for i := 2; i < len(words); i++ {
		n := words[i]
		if n == 0 {
			continue
		}
		_, high := g.Bounds(i)
		index := exponentialIndex(high, h.scale)
		if len(h.counts) == 0 {
			h.offset = index
		}
		for len(h.counts) <= index-h.offset { // buckets of hist() rise
			h.counts = append(h.counts, 0)
		}
		h.counts[index-h.offset] += n
		h.count += n
	}
	return h
}

// exponentialIndex returns the bucket that has v, which is not 0: the only i for which base^i < v <= base^(i+1). With
// V = v^(2^scale) that is 2^i < V <= 2^(i+1), so it is found exactly, as logarithms of floating point would not be.
func exponentialIndex(v uint64, scale int) int {
	power := new(big.Int).SetUint64(v)
	for range scale {
		power.Mul(power, power)
	}
	return power.Sub(power, big.NewInt(1)).BitLen() - 1
}

// append appends the fields of the data point. Sum, minimum and maximum are not known, and left out.
func (h *exponential) append(dst []byte) []byte {
	dst = protomsg.AppendFixed(dst, exponentialCount, h.count)
	dst = protomsg.AppendUint(dst, exponentialScale, protowire.EncodeZigZag(int64(h.scale)))
	dst = protomsg.AppendFixed(dst, exponentialZero, h.zero)
	dst, positive := protomsg.Begin(dst, exponentialPositive)
	dst = protomsg.AppendUint(dst, bucketsOffset, protowire.EncodeZigZag(int64(h.offset)))
	dst, counts := protomsg.Begin(dst, bucketsCounts)
	for _, n := range h.counts {
		dst = protowire.AppendVarint(dst, n)
	}
	return protomsg.End(protomsg.End(dst, counts), positive)
}
