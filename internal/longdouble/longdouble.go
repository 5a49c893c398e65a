// SPDX-License-Identifier: Apache-2.0

// Package longdouble reads floats of more than 8 bytes.
package longdouble

import (
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
	// The precision counts the bits from the first that is 1: a denormal number has fewer.
	v := new(big.Float).SetPrec(uint(max(m.BitLen(), 1))).SetInt(m)
	v.SetMantExp(v, max(exponent, 1)-bias-point)
	return v.Append(dst, 'g', -1)
}
