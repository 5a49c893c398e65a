// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"math"
	"regexp"
	"slices"

	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/uapi"
)

// constant resolves NULL, true, false, errno names and UAPI constants of an architecture.
func constant(name, arch string) (operand, bool) {
	switch name {
	case "NULL":
		t := pointerTo(typeVoid)
		return value(t, &Const{t, 0}), true
	case "true":
		return value(typeInt, &Const{typeInt, 1}), true
	case "false":
		return value(typeInt, &Const{typeInt, 0}), true
	}
	if n, ok := errno.Number(name); ok {
		return value(typeInt, &Const{typeInt, uint64(n)}), true
	}
	if v, ok := uapi.Value(name, arch); ok && slices.Contains(unsignedLong, name) {
		return value(typeUlong, &Const{typeUlong, uint64(v)}), true
	} else if ok {
		return integer(v), true
	}
	return operand{}, false
}

// unsignedLong are the constants whose value is negative as a long, but which headers have as an unsigned long:
// ~0UL and (unsigned long)-1.
var unsignedLong = []string{"PR_SET_PTRACER_ANY", "RLIM_INFINITY"}

// integer returns v with the type that C gives the literal in a header: int, unsigned int
// or long.
func integer(v int64) operand {
	t := typeInt
	switch {
	case v == int64(uint32(v)) && v > math.MaxInt32:
		t = typeUint // headers write such values in hexadecimal, which makes them unsigned
	case v != int64(int32(v)):
		t = typeLong
	}
	return value(t, &Const{t, uint64(v)})
}

// constantNames lists all constants of an architecture, as candidates for a hint.
func constantNames(arch string) []string {
	return slices.AppendSeq(append([]string{"NULL", "true", "false"}, errno.All()...), uapi.Names(arch))
}

// constantName matches names that can only be constants: upper case with an underscore.
var constantName = regexp.MustCompile(`^_*[A-Z][A-Z0-9]*_[A-Z0-9_]*$`)

// constantHint says which constants exist. near is a suggestion to put first; unreadable
// says why macros are not known.
func constantHint(near string, unreadable error) string {
	hint := "known are BTF's enumerators, UAPI constants, and macros in the print formats of tracepoints; write any other as a number"
	if unreadable != nil {
		hint += " (no macros: " + unreadable.Error() + ")"
	}
	if near != "" {
		return near + " K" + hint[1:]
	}
	return hint
}
