// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"fmt"
	"sync/atomic"
)

// mostMemory is how much memory one file and those that it names may take, in bytes.
const mostMemory = 4 << 30

// A Memory is what debug info may take beside its files, which are only mapped: for sections that are
// compressed, and for those of object files, which are relocated.
type Memory struct {
	most int64
	left atomic.Int64
}

// NewMemory returns room for so many bytes.
func NewMemory(most int64) *Memory {
	m := &Memory{most: most}
	m.left.Store(most)
	return m
}

// A room is the part of a Memory that one Info has taken.
type room struct {
	memory *Memory
	taken  atomic.Int64
}

// take takes some bytes, or none.
func (r *room) take(n uint64) error {
	if n <= uint64(r.memory.most) {
		if r.memory.left.Add(-int64(n)) >= 0 {
			r.taken.Add(int64(n))
			return nil
		}
		r.memory.left.Add(int64(n))
	}
	return fmt.Errorf("all debug info together takes more than %d MiB when it is decompressed or relocated", r.memory.most>>20)
}

// giveBack gives back some of what was taken.
func (r *room) giveBack(n uint64) {
	r.taken.Add(-int64(n))
	r.memory.left.Add(int64(n))
}

// leave gives back all that was taken.
func (r *room) leave() { r.memory.left.Add(r.taken.Swap(0)) }
