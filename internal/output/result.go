// SPDX-License-Identifier: Apache-2.0

package output

import (
	"strconv"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/layout"
)

// appendResult appends a function's result. v is the whole return register: [-EINVAL],
// [NULL], [true], [void], [XDP_PASS], [3].
func appendResult(dst []byte, f *plan.Probe, v uint64) []byte {
	return append(appendResultText(append(dst, '['), f, v), ']')
}

// ResultText returns the text of a result: -EINVAL, NULL, true, void, XDP_PASS, 3.
func ResultText(f *plan.Probe, v uint64) string { return string(appendResultText(nil, f, v)) }

// elsewhere stands for a result of which the register does not hold all, or nothing.
const elsewhere = "{...}"

// appendResultText appends a result without brackets. The declared type decides how the
// register reads.
func appendResultText(dst []byte, f *plan.Probe, v uint64) []byte {
	if f.Result == nil {
		return append(dst, "void"...)
	}
	if number := ResultError(f.Result, v); number != 0 {
		return appendError(dst, number)
	}
	switch t := btf.UnderlyingType(f.Result).(type) {
	case *btf.Pointer:
		return appendPointer(dst, v)
	case *btf.Enum:
		if name := enumerator(t, v); name != "" {
			return terminal.AppendName(dst, name)
		}
	case *btf.Int:
		switch {
		case t.Encoding == btf.Bool:
			return strconv.AppendBool(dst, v&0xff != 0) // the upper bytes do not belong to the result
		case t.Size > 8:
			return append(dst, elsewhere...)
		}
	case *btf.Struct, *btf.Union, *btf.Float, *btf.Fwd:
		return append(dst, elsewhere...)
	}
	return appendNumber(dst, f.Result, v)
}

// maxErrno is MAX_ERRNO of include/linux/err.h.
const maxErrno = 4095

// ResultError returns the number of the error in a result, given as its register; 0 if there is
// none. Errors are negative numbers of at least the size of an int. The kernel also returns them in
// pointers, as unsigned long (IS_ERR_VALUE), and in enums, which are unsigned if no enumerator is
// negative. An enumerator is no error, nor are all ones of another unsigned type, as DMA_MAPPING_ERROR. If the type is unknown, the result may be an int, with 0 in
// the upper half of its register.
func ResultError(t btf.Type, v uint64) uint64 {
	size, signed, _ := expr.Number(t)
	e, enum := btf.UnderlyingType(t).(*btf.Enum)
	_, integer := btf.UnderlyingType(t).(*btf.Int)
	switch {
	case enum && enumerator(e, v) != "":
		return 0
	case size == 4 && (signed || enum), layout.Unknown(t) && v>>32 == 0:
		v = uint64(int32(v))
	case size != 8, integer && !signed && !layout.Unknown(t) && layout.ClassOf("", t) == layout.NeverFails:
		return 0
	}
	if number := -v; number <= maxErrno {
		return number
	}
	return 0
}

// appendPointer appends NULL, an error, or an address.
func appendPointer(dst []byte, v uint64) []byte {
	if v == 0 {
		return append(dst, "NULL"...)
	}
	if name, ok := errorName(v); ok {
		return append(append(dst, '-'), name...)
	}
	return strconv.AppendUint(append(dst, "0x"...), v, 16)
}

// enumerator returns the name of an enum's value, or "".
func enumerator(e *btf.Enum, v uint64) string {
	keep := uint64(1)<<(8*e.Size) - 1 // of 8 bytes: all bits
	for _, x := range e.Values {
		if x.Value&keep == v&keep {
			return x.Name
		}
	}
	return ""
}

// mostDecimal is the largest number that is decimal: small numbers are counts, sizes and
// descriptors; large ones are flags and addresses. Neither of these has a sign.
const mostDecimal = 1 << 20

// appendNumber appends the bytes of a register that belong to type t.
func appendNumber(dst []byte, t btf.Type, v uint64) []byte {
	size, signed, ok := expr.Number(t)
	if !ok {
		size = 8
	}
	shift := 64 - 8*size
	if n := int64(v<<shift) >> shift; signed && n < 0 {
		return strconv.AppendInt(dst, n, 10)
	}
	n := v << shift >> shift
	if n <= mostDecimal {
		return strconv.AppendUint(dst, n, 10)
	}
	return strconv.AppendUint(append(dst, "0x"...), n, 16)
}

// appendError appends an error that is not 0: -ENOMEM, or -4095 if it has no name.
func appendError(dst []byte, number uint64) []byte {
	if name := errno.Name(number); name != "" {
		return append(append(dst, '-'), name...)
	}
	return strconv.AppendUint(append(dst, '-'), number, 10)
}

// errorName returns the name for -v, such as "ENOENT", if v is in the range in which the
// kernel returns errors.
func errorName(v uint64) (string, bool) {
	name := errno.Name(-v)
	return name, name != ""
}
