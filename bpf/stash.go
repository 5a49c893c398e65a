// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"math/bits"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

const (
	// maxStorage is what the kernel lets a task's storage have, in bytes
	// (BPF_LOCAL_STORAGE_MAX_VALUE_SIZE, a little below 64 KiB).
	maxStorage = 65000
	// stashTable is how large the table of calls in flight is to be, in bytes,
	// if that gives minRows to maxRows rows.
	stashTable = 4 << 20
	minRows    = 64
	maxRows    = 4096
)

// framesPerThread returns how many calls in flight are kept in one place for a
// thread: as many as fit into 4 KiB, but 4 to 16, and fewer where frames are
// very large. Where each call takes several, there are as many times more, but
// not more than a program should look through.
func framesPerThread(size int, each uint32) int {
	return min(min(max(4096/size, 4), 16)*int(min(max(each, 1), 16)), 64, maxStorage/size)
}

// setStash sets up the stash, or takes out of it what is not needed.
func setStash(spec *ebpf.CollectionSpec, s Settings) error {
	frame := FrameSize + int(s.FrameData)
	frames := framesPerThread(frame, s.FramesPerCall)
	row := int(unsafe.Sizeof(engineRow{})) + frame*frames
	rows := uint32(min(max(stashTable/row, minRows), maxRows))
	if !s.Stash {
		delete(spec.Programs, ProgFree)
		rows = 2
	}
	rowBits := bits.Len32(rows) - 1 // a power of two
	for name, v := range map[string]uint32{
		engineVarFrameSize: uint32(frame), engineVarFrameCount: uint32(frames), engineVarRowShift: uint32(64 - rowBits),
	} {
		if err := set(spec, name, v); err != nil {
			return err
		}
	}
	resize(spec.Maps[engineMapThreads], frame*frames)
	table := spec.Maps[engineMapRows]
	table.MaxEntries = 1 << rowBits
	resize(table, row)
	return nil
}

// resize changes the size of a map's values, and their type with it.
func resize(m *ebpf.MapSpec, size int) {
	m.ValueSize = uint32(size)
	m.Value = &btf.Array{Type: &btf.Int{Name: "unsigned char", Size: 1}, Index: m.Key, Nelems: m.ValueSize}
}
