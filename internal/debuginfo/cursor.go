// SPDX-License-Identifier: Apache-2.0

package debuginfo

import "encoding/binary"

// A cursor reads little-endian values and never leaves its bytes. A read beyond the end
// returns zero, sets bad and moves the cursor to the end. So a loop over a damaged section
// ends without a check after each read.
type cursor struct {
	b   []byte
	pos int
	bad bool
}

func (c *cursor) fail() {
	c.pos, c.bad = len(c.b), true
}

// at returns a cursor over b that starts at off. off comes from the file and may be
// anything.
func at(b []byte, off uint64) cursor {
	if off > uint64(len(b)) {
		return cursor{b: b, pos: len(b), bad: true}
	}
	return cursor{b: b, pos: int(off)}
}

func (c *cursor) skip(n uint64) {
	if n > uint64(len(c.b)-c.pos) {
		c.fail()
		return
	}
	c.pos += int(n)
}

// bytes returns the next n bytes. They share the section's memory.
func (c *cursor) bytes(n uint64) []byte {
	start := c.pos
	c.skip(n)
	if c.bad {
		return nil
	}
	return c.b[start:c.pos]
}

func (c *cursor) u8() uint8 {
	if c.pos >= len(c.b) {
		c.fail()
		return 0
	}
	v := c.b[c.pos]
	c.pos++
	return v
}

func (c *cursor) u16() uint16 {
	if len(c.b)-c.pos < 2 {
		c.fail()
		return 0
	}
	v := binary.LittleEndian.Uint16(c.b[c.pos:])
	c.pos += 2
	return v
}

func (c *cursor) u32() uint32 {
	if len(c.b)-c.pos < 4 {
		c.fail()
		return 0
	}
	v := binary.LittleEndian.Uint32(c.b[c.pos:])
	c.pos += 4
	return v
}

func (c *cursor) u64() uint64 {
	if len(c.b)-c.pos < 8 {
		c.fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(c.b[c.pos:])
	c.pos += 8
	return v
}

// sized reads an unsigned integer of 1, 2, 3, 4 or 8 bytes.
func (c *cursor) sized(n uint8) uint64 {
	switch n {
	case 1:
		return uint64(c.u8())
	case 2:
		return uint64(c.u16())
	case 3:
		low := uint64(c.u16())
		return low | uint64(c.u8())<<16
	case 4:
		return uint64(c.u32())
	case 8:
		return c.u64()
	}
	c.fail()
	return 0
}

// uleb reads an unsigned LEB128 number. Bits beyond 64 are dropped.
func (c *cursor) uleb() uint64 {
	if c.pos < len(c.b) && c.b[c.pos] < 0x80 {
		v := c.b[c.pos]
		c.pos++
		return uint64(v)
	}
	var v uint64
	for shift := uint(0); ; shift += 7 {
		b := c.u8()
		if shift < 64 {
			v |= uint64(b&0x7f) << shift
		}
		if b < 0x80 {
			return v
		}
	}
}

// pair reads two unsigned LEB128 numbers. Most have one byte each, which is fast.
func (c *cursor) pair() (x, y uint64) {
	if n := c.pos + 2; n <= len(c.b) && c.b[n-2]|c.b[n-1] < 0x80 {
		c.pos = n
		return uint64(c.b[n-2]), uint64(c.b[n-1])
	}
	return c.uleb(), c.uleb()
}

// sleb reads a signed LEB128 number.
func (c *cursor) sleb() int64 {
	var v int64
	for shift := uint(0); ; {
		b := c.u8()
		if shift < 64 {
			v |= int64(b&0x7f) << shift
		}
		shift += 7
		if b < 0x80 {
			if b&0x40 != 0 && shift < 64 {
				v |= -1 << shift
			}
			return v
		}
	}
}

// text reads a string and its NUL. The string shares the section's memory.
func (c *cursor) text() []byte {
	start := c.pos
	for c.pos < len(c.b) {
		if c.b[c.pos] == 0 {
			c.pos++
			return c.b[start : c.pos-1]
		}
		c.pos++
	}
	c.bad = true
	return nil
}

// length reads the initial length of a unit. It returns the position of the unit's end and
// the size of offsets, 4 or 8. An empty unit is an error: damaged and sparse files have
// zeroes, perhaps terabytes of them.
func (c *cursor) length() (end int, offsetSize uint8) {
	n, offsetSize := uint64(c.u32()), uint8(4)
	if n == 0xffffffff {
		n, offsetSize = c.u64(), 8
	} else if n >= 0xfffffff0 || n == 0 {
		c.fail()
	}
	if c.bad || n > uint64(len(c.b)-c.pos) {
		c.fail()
		return len(c.b), offsetSize
	}
	return c.pos + int(n), offsetSize
}
