// SPDX-License-Identifier: Apache-2.0

package output

import (
	"math"
	"strconv"

	"github.com/ksnoop/ksnoop/expr"
)

// appendGrouped appends a number with commas between its thousands.
func appendGrouped(dst []byte, n uint64) []byte {
	var digits [20]byte
	text := strconv.AppendUint(digits[:0], n, 10)
	for i, c := range text {
		if i > 0 && (len(text)-i)%3 == 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, c)
	}
	return dst
}

// A scale is a unit of a quantity and how many of the smallest one it has.
type scale struct {
	size uint64
	name string
}

// Scales of quantities, smallest first.
var (
	nanoScales  = []scale{{1, "ns"}, {1e3, "us"}, {1e6, "ms"}, {1e9, "s"}}
	byteScales  = []scale{{1, "B"}, {1 << 10, "KiB"}, {1 << 20, "MiB"}, {1 << 30, "GiB"}, {1 << 40, "TiB"}, {1 << 50, "PiB"}, {1 << 60, "EiB"}}
	plainScales = []scale{{1, ""}, {1 << 10, "K"}, {1 << 20, "M"}, {1 << 30, "G"}, {1 << 40, "T"}, {1 << 50, "P"}, {1 << 60, "E"}}
)

// largest returns the largest scale that n has at least one of.
func largest(scales []scale, n uint64) scale {
	s := scales[0]
	for _, next := range scales[1:] {
		if n >= next.size {
			s = next
		}
	}
	return s
}

// appendQuantity appends a number: times and bytes to three decimals of their scale, all else
// exactly.
func appendQuantity(dst []byte, n uint64, u expr.Unit) []byte {
	scales := nanoScales
	switch u {
	case expr.UnitNone:
		return appendGrouped(dst, n)
	case expr.UnitBytes:
		scales = byteScales
	}
	s := largest(scales, n)
	if s.size == 1 {
		return append(strconv.AppendUint(dst, n, 10), s.name...)
	}
	return append(strconv.AppendFloat(dst, float64(n)/float64(s.size), 'f', 3, 64), s.name...)
}

// appendMean appends a mean of numbers.
func appendMean(dst []byte, mean float64, u expr.Unit) []byte {
	if mean < 0 {
		return appendMean(append(dst, '-'), -mean, u)
	}
	switch {
	case u != expr.UnitNone && mean >= 1e3:
		return appendQuantity(dst, truncated(mean), u)
	case mean >= 1e6:
		return appendGrouped(dst, truncated(mean))
	}
	dst = strconv.AppendFloat(dst, mean, 'f', 2, 64)
	switch u {
	case expr.UnitNanos:
		return append(dst, "ns"...)
	case expr.UnitBytes:
		return append(dst, 'B')
	}
	return dst
}

// truncated returns a mean without its fraction. Of numbers below 2^64 it may be rounded to 2^64.
func truncated(mean float64) uint64 {
	if mean >= 1<<64 {
		return math.MaxUint64
	}
	return uint64(mean)
}

// appendBound appends the bound of a bucket, exactly. Plain numbers and bytes have a scale only
// if binary says that the bounds are powers of two or parts of them: 1.5K is 1536.
func appendBound(dst []byte, n uint64, u expr.Unit, binary bool) []byte {
	scales := plainScales
	switch u {
	case expr.UnitNanos:
		return appendDecimals(dst, n, largest(nanoScales, n))
	case expr.UnitBytes:
		scales = byteScales
	}
	s := largest(scales, n)
	if !binary {
		s = scales[0]
	}
	if s.size == 1 {
		return append(strconv.AppendUint(dst, n, 10), s.name...)
	}
	return appendDecimals(dst, n, s)
}

// appendDecimals appends n in a scale with as many decimals as it takes. They come to an end,
// since scales have no factors but 2 and 5.
func appendDecimals(dst []byte, n uint64, s scale) []byte {
	dst = strconv.AppendUint(dst, n/s.size, 10)
	rest, tenth := n%s.size, s.size
	if rest > 0 {
		dst = append(dst, '.')
	}
	for rest > 0 {
		// tenth and rest are divided by 2 rather than that rest is multiplied by 10, which
		// could exceed 64 bits.
		if tenth%2 == 0 && rest%2 == 0 {
			tenth, rest = tenth/2, rest/2
			continue
		}
		if tenth%2 == 0 {
			tenth /= 2
			rest *= 5
		} else {
			rest *= 10
		}
		dst = append(dst, '0'+byte(rest/tenth))
		rest %= tenth
	}
	return append(dst, s.name...)
}
