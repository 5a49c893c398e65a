// SPDX-License-Identifier: Apache-2.0

package output

import (
	"slices"
	"strconv"

	"github.com/ksnoop/ksnoop/bpf"
)

// AppendPID appends the number of a process, and the one that it has in another PID namespace.
func AppendPID(dst []byte, in bpf.Inner, pid uint32) []byte {
	return appendIDs(dst, in, []uint32{pid}, []uint32{in.PID})
}

// appendIDs appends PIDs or TIDs of a task. A task may have other numbers in another PID
// namespace; the numbers that the user's own tools show come first.
//
//	8346              it has no others
//	12 (host 8346)    ksnoop runs in a PID namespace of its own
//	8346 (own 12)     the task is in a PID namespace
func appendIDs(dst []byte, in bpf.Inner, initial, inner []uint32) []byte {
	first, other, where := initial, inner, " (own "
	if in.Ours {
		first, other, where = inner, initial, " (host "
	}
	dst = appendSlashed(dst, first)
	if in == (bpf.Inner{}) || slices.Equal(first, other) {
		return dst
	}
	return append(appendSlashed(append(dst, where...), other), ')')
}

// appendSlashed appends "8346/8347": process and thread.
func appendSlashed(dst []byte, ids []uint32) []byte {
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, '/')
		}
		dst = strconv.AppendUint(dst, uint64(id), 10)
	}
	return dst
}
