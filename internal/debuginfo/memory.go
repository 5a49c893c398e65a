// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
)

// mostMemory is how much memory one file and those that it names may take, in bytes.
const mostMemory = 4 << 30

// Limits on parts of one unit, which take many times as much memory as they take of the file.
const (
	mostAbbrevs    = 1 << 16
	mostAttributes = 1 << 20 // of all abbreviations
	mostProgram    = 1 << 28 // bytes of a line program: a sparse file may have a terabyte
	mostFiles      = 1 << 16 // a row has 16 bits for their number
	mostSpans      = 1 << 20 // of one entry
	mostChain      = 1 << 10 // calls that are inlined into each other
)

// A Memory is what debug info may take beside its files, which are only mapped: for sections that are
// compressed, for those of object files, which are relocated, and for what is kept of units.
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

// ownBuffers is how many bytes the buffers of an Info may take beside what Memory has: a file whose units are not large
// can be read although others have taken all.
const ownBuffers = 4 << 20

// A room is the part of a Memory that one Info has taken.
type room struct {
	memory *Memory
	taken  atomic.Int64

	mu      sync.Mutex
	buffers int64 // what they take, ownBuffers included
}

// take takes some bytes, or none.
func (r *room) take(n uint64) error {
	for left := r.memory.left.Load(); left >= 0 && n <= uint64(left); left = r.memory.left.Load() {
		if r.memory.left.CompareAndSwap(left, left-int64(n)) {
			r.taken.Add(int64(n))
			return nil
		}
	}
	return fmt.Errorf("all debug info together takes more than %d MiB of memory", r.memory.most>>20)
}

// giveBack gives back some of what was taken.
func (r *room) giveBack(n uint64) {
	r.taken.Add(-int64(n))
	r.memory.left.Add(int64(n))
}

// resize takes or gives back what buffers have grown by.
func (r *room) resize(by int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	shared := max(0, r.buffers+by-ownBuffers) - max(0, r.buffers-ownBuffers)
	if shared < 0 {
		r.giveBack(uint64(-shared))
	} else if err := r.take(uint64(shared)); err != nil {
		return err
	}
	r.buffers += by
	return nil
}

// leave gives back all that was taken.
func (r *room) leave() { r.memory.left.Add(r.taken.Swap(0)) }

// A refusal is a panic that ends a look-up in a file that takes more than is allowed. Like one
// that was cut, the file is not read any more.
type refusal struct{ error }

// bytesOf returns how many bytes of memory a buffer takes.
func bytesOf[E any](s []E) uint64 { return uint64(cap(s)) * uint64(reflect.TypeFor[E]().Size()) }

// grow makes room for one more element in a buffer. It reports whether the buffer takes more memory now.
func grow[E any](buffer *[]E) bool {
	if len(*buffer) < cap(*buffer) {
		return false
	}
	*buffer = slices.Grow(*buffer, 1)
	return true
}
