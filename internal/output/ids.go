// SPDX-License-Identifier: Apache-2.0

package output

import (
	"slices"
	"strconv"

	"github.com/ksnoop/ksnoop/bpf"
)

// appendIDs appends numbers of a task, of which it may have others in another PID
// namespace: first those that the user's own tools know.
//
//	8346              no others
//	12 (host 8346)    ksnoop ran in a PID namespace of its own
//	8346 (own 12)     the task is in one
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

func appendSlashed(dst []byte, ids []uint32) []byte {
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, '/')
		}
		dst = strconv.AppendUint(dst, uint64(id), 10)
	}
	return dst
}
