// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// An ErrorClass says which results of a function mean that it failed. The engine uses the
// same numbers.
type ErrorClass uint8

const (
	NeverFails   ErrorClass = iota // never: void, bool, narrow or unsigned types other than unsigned long
	FailsInt32                     // int, enum: low 32 bits are -4095..-1
	FailsInt64                     // long, unsigned long, a pointer where NULL is fine: -4095..-1
	FailsPointer                   // any other pointer: NULL or -4095..-1
)

// maxErrno is MAX_ERRNO of include/linux/err.h.
const maxErrno = 4095

// Failed reports whether result, the whole return register, means failure.
func (c ErrorClass) Failed(result uint64) bool {
	switch c {
	case FailsInt32:
		return uint32(result) >= -maxErrno&(1<<32-1)
	case FailsInt64:
		return result >= 1<<64-maxErrno
	case FailsPointer:
		return result == 0 || result >= 1<<64-maxErrno
	}
	return false
}

// answersNull lists structs for which a NULL pointer is a valid answer rather than a
// failure. A directory look-up returns NULL when it has done its work
// (Documentation/filesystems/vfs.rst), a file need not have an access control list, and
// vma_merge returns NULL if nothing can be merged. It is never changed.
var answersNull = [...]string{"dentry", "posix_acl", "vm_area_struct"}

// mayBeNull reports whether NULL is a valid result of a function that returns a pointer to
// t. From a function that allocates, it never is.
func mayBeNull(function string, t btf.Type) bool {
	s, ok := btf.UnderlyingType(t).(*btf.Struct)
	return ok && slices.Contains(answersNull[:], s.Name) && !strings.Contains(function, "alloc")
}

// unsignedLong lists how compilers spell unsigned long. Functions that return addresses as
// unsigned long, such as do_mmap and get_unmapped_area, return errors in it too. It is
// never changed.
var unsignedLong = [...]string{"long unsigned int", "unsigned long"}

// ClassOf returns the error class of a function with result type t. nil means void. The
// name matters only for pointers: see mayBeNull.
func ClassOf(function string, t btf.Type) ErrorClass {
	if t == nil {
		return NeverFails
	}
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Pointer:
		if mayBeNull(function, t.Target) {
			return FailsInt64
		}
		return FailsPointer
	case *btf.Enum:
		if t.Size == 4 {
			return FailsInt32
		}
	case *btf.Int:
		switch {
		case slices.Contains(unsignedLong[:], t.Name):
			return FailsInt64
		case t.Encoding != btf.Signed:
		case t.Size == 4:
			return FailsInt32
		case t.Size == 8:
			return FailsInt64
		}
	}
	return NeverFails
}
