// SPDX-License-Identifier: Apache-2.0

package record

// A Size is what the blocks of one kind take, as far as they were read.
type Size struct {
	Kind   string // what is in them
	Blocks int
	Packed uint64 // bytes in the file
	Bytes  uint64 // bytes when decompressed
}

// Sizes returns the sizes of the blocks that were read, by kind.
func (r *Reader) Sizes() []Size {
	var sizes []Size
	for _, s := range r.in.sizes {
		if s.Blocks > 0 {
			sizes = append(sizes, s)
		}
	}
	return sizes
}
