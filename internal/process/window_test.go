// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"debug/elf"
	"math"
	"testing"
)

// TestWindow: what a file says of offsets may be beyond all numbers.
func TestWindow(t *testing.T) {
	data := make([]byte, 3*windowSize)
	for i := range data {
		data[i] = byte(i >> 8)
	}
	w := newWindow(bytes.NewReader(data), &elf.Section{SectionHeader: elf.SectionHeader{FileSize: uint64(len(data))}})
	for _, off := range []uint64{0, windowSize, windowSize - 8, 3*windowSize - 8, 0} {
		if b := w.at(off, 8); len(b) != 8 || b[0] != byte(off>>8) {
			t.Errorf("at %d: %v", off, b)
		}
	}
	for _, off := range []uint64{3*windowSize - 7, 3 * windowSize, 1 << 62, math.MaxUint64 - 23, math.MaxUint64 - 7, math.MaxUint64} {
		for range 2 {
			if b := w.at(off, 24); b != nil {
				t.Errorf("at %#x: %v", off, b)
			}
			w.at(0, 8)
		}
	}
}
