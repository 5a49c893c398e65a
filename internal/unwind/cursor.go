// SPDX-License-Identifier: Apache-2.0

package unwind

import "encoding/binary"

// A cursor reads a section, little-endian, from pos to end. A read beyond the end gives 0 and
// sets bad, so that a loop ends without a check after each read.
type cursor struct {
	b        []byte
	pos, end uint64
	bad      bool
}

func (c *cursor) more() bool { return !c.bad && c.pos < c.end }

// take returns the next n bytes; nil if there are not so many.
func (c *cursor) take(n uint64) []byte {
	if c.bad || n > c.end-c.pos {
		c.bad, c.pos = true, c.end
		return nil
	}
	c.pos += n
	return c.b[c.pos-n : c.pos]
}

// number reads an unsigned number of 1, 2, 4 or 8 bytes.
func (c *cursor) number(size uint64) uint64 {
	var word [8]byte
	copy(word[:], c.take(size))
	return binary.LittleEndian.Uint64(word[:])
}

// signed reads a signed number of so many bytes.
func (c *cursor) signed(size uint64) int64 {
	unused := 64 - 8*size
	return int64(c.number(size)<<unused) >> unused
}

func (c *cursor) byte() uint8 { return uint8(c.number(1)) }

// leb reads the bits of a LEB128 number, and how many there are. Those beyond 64 are dropped. A
// number of more bytes than 64 bits take is bad, for it may be as long as the section.
func (c *cursor) leb() (bits uint64, n uint) {
	const most = 10
	for range most {
		b := c.byte()
		if n < 64 {
			bits |= uint64(b&0x7f) << n
		}
		n += 7
		if b&0x80 == 0 || c.bad {
			return bits, n
		}
	}
	c.bad = true
	return bits, n
}

func (c *cursor) uleb() uint64 {
	bits, _ := c.leb()
	return bits
}

func (c *cursor) sleb() int64 {
	bits, n := c.leb()
	if n >= 64 {
		return int64(bits)
	}
	return int64(bits<<(64-n)) >> (64 - n)
}
