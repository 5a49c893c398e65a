// SPDX-License-Identifier: Apache-2.0

// Package longdouble reads floats of more than 8 bytes.
package longdouble

import (
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/cilium/ebpf/btf"
)

// A Format is how such a float lies in memory.
type Format uint8

const (
	None Format = iota // none that is known
	X87                // the long double of amd64: 80 bits, then padding with any contents
	Quad               // binary128 of IEEE 754
)

// Of returns the format of a type. BTF tells the formats apart by the type's name only: a long
// double is that of amd64. Whoever makes BTF of that of arm64 calls it _Float128.
func Of(t *btf.Float) Format {
	switch {
	case (t.Name == "long double" || t.Name == "_Float64x") && t.Size >= X87.Size():
		return X87
	case (t.Name == "_Float128" || t.Name == "__float128") && t.Size == Quad.Size():
		return Quad
	}
	return None
}

// Size returns how many bytes the value takes, without padding.
func (f Format) Size() uint32 {
	if f == X87 {
		return 10
	}
	return 16
}

// Both formats have an exponent of 15 bits, behind a fraction of so many.
const (
	x87Fraction  = 64 // with the bit before the point
	quadFraction = 112
	mostExponent = 1<<15 - 1
	bias         = 1<<14 - 1
)

// Append appends a little-endian value with as many digits as tell it apart from its neighbours,
// inf or nan.
func (f Format) Append(dst, raw []byte) []byte {
	bits := slices.Clone(raw[:f.Size()])
	slices.Reverse(bits)
	top := int(bits[0])<<8 | int(bits[1])
	exponent, negative := top&mostExponent, top>>15 != 0
	m := new(big.Int).SetBytes(bits[2:])

	point, unit := quadFraction, uint(1)
	if f == X87 {
		point, unit = x87Fraction-1, m.Bit(x87Fraction-1)
		m.SetBit(m, point, 0)
	}
	if negative {
		dst = append(dst, '-')
	}
	switch {
	case exponent > 0 && unit == 0, exponent == mostExponent && m.Sign() != 0: // the FPU takes no number without its unit
		return append(dst, "nan"...)
	case exponent == mostExponent:
		return append(dst, "inf"...)
	case exponent > 0 || f == X87:
		m.SetBit(m, point, unit)
	}
	e := max(exponent, 1) - bias - point
	if far := m.BitLen() + e; m.Sign() != 0 && max(far, -far) > nearOne {
		digits, power := shortest(m, e)
		return appendScientific(dst, digits, power)
	}
	// The precision counts the bits from the first that is 1: a denormal number has fewer.
	v := new(big.Float).SetPrec(uint(max(m.BitLen(), 1))).SetInt(m)
	return v.SetMantExp(v, e).Append(dst, 'g', -1)
}

// nearOne is the exponent up to which big.Float writes numbers fast: it writes all digits that a number has,
// which for the smallest ones takes 5 ms.
const nearOne = 1024

// shortest returns the fewest digits that tell m·2^e apart from (m±1)·2^e, and the power of ten of the first. They are those of
// big.Float. The algorithm is the free-format one of Burger and Dybvig, "Printing Floating-Point Numbers Quickly and Accurately" (1996).
func shortest(m *big.Int, e int) (digits []byte, power int) {
	// What is still to be written, and half of the distance to a neighbour, in units.
	rest, half, unit := new(big.Int).Lsh(m, 1), big.NewInt(1), big.NewInt(2)
	if e > 0 {
		rest.Lsh(rest, uint(e))
		half.Lsh(half, uint(e))
	} else {
		unit.Lsh(unit, uint(-e))
	}
	ten := big.NewInt(10)
	power = int(math.Floor(float64(m.BitLen()-1+e) * math.Log10(2))) // or one more
	by := new(big.Int).Exp(ten, big.NewInt(int64(max(power, -power))), nil)
	if power > 0 {
		unit.Mul(unit, by)
	} else {
		rest.Mul(rest, by)
		half.Mul(half, by)
	}
	if most := new(big.Int).Mul(unit, ten); rest.Cmp(most) >= 0 {
		unit, power = most, power+1
	}
	even := m.Bit(0) == 0 // a number halfway to a neighbour is rounded to m then
	within := func(a, b *big.Int) bool { c := a.Cmp(b); return c < 0 || c == 0 && even }
	digit, left := new(big.Int), new(big.Int)
	for {
		digit.QuoRem(rest, unit, rest)
		d := byte(digit.Int64())
		left.Sub(unit, rest)
		down, up := within(rest, half), within(left, half)
		if down && up {
			c := rest.Cmp(left)
			up = c > 0 || c == 0 && d%2 != 0
		}
		switch {
		case up && d == 9: // the first: behind another digit, that one would have been rounded up
			return []byte("1"), power + 1
		case up:
			return append(digits, '0'+d+1), power
		case down:
			return append(digits, '0'+d), power
		}
		digits = append(digits, '0'+d)
		rest.Mul(rest, ten)
		half.Mul(half, ten)
	}
}

func appendScientific(dst, digits []byte, power int) []byte {
	dst = append(dst, digits[0])
	if len(digits) > 1 {
		dst = append(append(dst, '.'), digits[1:]...)
	}
	return fmt.Appendf(dst, "e%+d", power)
}
