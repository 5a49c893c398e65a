// SPDX-License-Identifier: Apache-2.0

// Package protomsg writes protobuf messages field by field, without generated code. Fields are
// appended to a slice.
package protomsg

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Begin begins a message in a field. End is to be called with what it returns.
func Begin(dst []byte, field protowire.Number) (_ []byte, start int) {
	dst = protowire.AppendTag(dst, field, protowire.BytesType)
	return dst, len(dst)
}

// End ends a message: its length goes before its bytes.
func End(dst []byte, start int) []byte {
	size := len(dst) - start
	var length [10]byte
	n := len(protowire.AppendVarint(length[:0], uint64(size)))
	dst = append(dst, length[:n]...)
	copy(dst[start+n:], dst[start:start+size])
	copy(dst[start:], length[:n])
	return dst
}

// AppendUint appends a field of a type with varints.
func AppendUint(dst []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), v)
}

// AppendString appends a string, bytes, or a message that is there already.
func AppendString[T ~string | ~[]byte](dst []byte, field protowire.Number, s T) []byte {
	dst = protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.BytesType), uint64(len(s)))
	return append(dst, s...)
}

// AppendFixed appends a field of 8 bytes: fixed64 or sfixed64.
func AppendFixed(dst []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(dst, field, protowire.Fixed64Type), v)
}

// AppendDouble appends a double.
func AppendDouble(dst []byte, field protowire.Number, v float64) []byte {
	return AppendFixed(dst, field, math.Float64bits(v))
}
