// SPDX-License-Identifier: Apache-2.0

package why

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/decide"
)

// appendNumber appends a number as its type has it: the registers of a system call hold it in eight
// bytes, of which the upper ones may be anything. Numbers are decimal, bits and addresses hexadecimal.
// C has one type for numbers and for bits: the parameter's name tells which it is.
func (f *Failure) appendNumber(dst []byte, i int) []byte {
	name, decl := f.Params[i].Name, f.Params[i].Decl
	size, signed := f.width(i)
	shift := 64 - 8*size
	v := f.Args[i] << shift >> shift
	negative := int64(f.Args[i]<<shift) >> shift
	switch {
	case signed && negative < 0 && negative > -1<<20:
		return strconv.AppendInt(dst, negative, 10)
	case isBits(name) && v > 9:
		return strconv.AppendUint(append(dst, "0x"...), v, 16)
	case signed:
		return strconv.AppendInt(dst, negative, 10)
	case size == 4 && (v == math.MaxUint32 && strings.HasSuffix(decl, "_t") || v > math.MaxInt32 && isDescriptor(name)):
		return strconv.AppendInt(dst, int64(int32(v)), 10) // "no user", or a descriptor below 0
	case size < 8 && v <= math.MaxInt32, strings.HasSuffix(decl, "_t") && size < 8, isCount(name, decl):
		return strconv.AppendUint(dst, v, 10)
	}
	return appendWord(dst, v)
}

// width returns how many bytes a parameter has, and its sign.
func (f *Failure) width(i int) (size int, signed bool) {
	if i < len(f.Types) {
		if size, signed, ok := expr.Number(f.Types[i]); ok {
			return size, signed
		}
	}
	c := decide.Declared(f.Params[i].Decl)
	return c.Size, c.Signed
}

// isBits reports whether a parameter of this name has bits, or a number that is made of parts.
func isBits(name string) bool {
	for _, part := range strings.FieldsFunc(name, func(r rune) bool { return r == '_' }) {
		if slices.Contains([]string{"flags", "flag", "flg", "mask", "mode", "prot", "cmd", "request", "dev", "events"}, part) || strings.HasSuffix(part, "flags") || strings.HasSuffix(part, "flg") {
			return true
		}
	}
	return false
}

// isDescriptor reports whether a parameter of this name is a file descriptor, which some system calls
// declare without a sign.
func isDescriptor(name string) bool {
	return strings.HasSuffix(name, "fd") || strings.HasPrefix(name, "fd")
}

// isCount reports whether a parameter without a sign is a number of something, and no address.
func isCount(name, decl string) bool {
	if decl == "size_t" {
		return true
	}
	for _, part := range strings.Split(name, "_") {
		if slices.Contains([]string{"len", "length", "size", "count", "nr", "vlen", "maxevents", "pages"}, part) {
			return true
		}
	}
	return false
}
