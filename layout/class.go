// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// An ErrorClass says which results of a function mean that it failed.
type ErrorClass uint8

const (
	NeverFails   ErrorClass = iota // void, bool, unsigned but for unsigned long, or narrower than 4 bytes
	FailsInt32                     // signed, 4 bytes: the low 32 bits are -4095…-1
	FailsInt64                     // signed, 8 bytes, unsigned long, or a pointer that may be NULL: -4095…-1
	FailsPointer                   // NULL or -4095…-1
)

// maxErrno is the kernel's MAX_ERRNO.
const maxErrno = 4095

// Failed reports whether a result, the whole of the return register, means
// that the function failed.
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

// answersNull has the structures of which a pointer that is NULL says that there is
// none, which is no failure: a look-up in a folder returns NULL when it has done its
// work (Documentation/filesystems/vfs.rst), a file need not have an access list, and
// vma_merge returns NULL where nothing can be merged.
// It is never changed.
var answersNull = [...]string{"dentry", "posix_acl", "vm_area_struct"}

// mayBeNull reports whether NULL is no failure of a function that returns a pointer
// to t. To one that allocates it, it is.
func mayBeNull(function string, t btf.Type) bool {
	s, ok := btf.UnderlyingType(t).(*btf.Struct)
	return ok && slices.Contains(answersNull[:], s.Name) && !strings.Contains(function, "alloc")
}

// unsignedLong are the names that compilers give to unsigned long, as which addresses are
// returned: do_mmap and get_unmapped_area return errors by it. It is never changed.
var unsignedLong = [...]string{"long unsigned int", "unsigned long"}

// ClassOf returns the error class of a function by its result type; nil is void.
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
