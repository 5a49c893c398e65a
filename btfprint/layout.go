// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"math"

	"github.com/cilium/ebpf/btf"
)

// A slot is the place of one member in a struct or union, and the hole behind it.
type slot struct {
	*btf.Member
	off      uint32 // first byte; for a bitfield, of its unit
	bit      uint32 // for a bitfield, its first bit in the unit
	size     uint32 // bytes; for a bitfield, of its unit
	bitHole  uint32 // unused bits up to the next member or the end of the unit
	hole     uint32 // unused bytes up to the next member
	infinite bool   // the member's size is unknown
}

// totals sums up the slots of a struct.
type totals struct {
	bytes, bits        uint32 // used by members, used by bitfields
	holes, holeBytes   uint32
	bitHoles, holeBits uint32
	bitLead, lead      uint32 // unused bits and bytes before the first member
	padding            uint32 // unused bytes after the last member
	bitPadding         uint32 // unused bits after the last member, if it is a bitfield
}

// layout places the members of a struct of size bytes. Members of a union all start at 0,
// without holes.
func layout(members []btf.Member, size uint32, union bool) ([]slot, totals) {
	slots := make([]slot, len(members))
	for i := range members {
		slots[i] = place(&members[i])
	}
	var sum totals
	if union {
		return slots, sum
	}
	var run run
	for i := range slots {
		s := &slots[i]
		bits, bytes := run.before(s)
		sum.hole(bits, bytes)
		if i == 0 {
			sum.bitLead, sum.lead = bits, bytes
		} else {
			slots[i-1].bitHole, slots[i-1].hole = bits, bytes
		}
		run.take(s)
		sum.add(s)
	}
	sum.bitPadding, sum.padding = run.rest(uint64(size) * 8)
	return slots, sum
}

// A run tracks which bits of a struct are in use. Adjacent bitfields share an area: the
// unit of the largest of their types.
type run struct {
	end      uint64 // first bit after the last member
	bitfield bool   // the last member is a bitfield
	area     uint64 // first bit after the area of the bitfields
	unit     uint32 // size in bytes of the area's unit
}

// before returns the unused bits between the last member and s. Inside an area they count
// as bits, elsewhere as bytes.
func (r *run) before(s *slot) (bits, bytes uint32) {
	start, end := uint64(s.Offset), r.end
	if stop := min(start, r.area); r.bitfield && stop > end {
		bits, end = uint32(stop-end), stop
	}
	if s.BitfieldSize == 0 {
		if start/8 > end/8 {
			bytes = uint32(start/8 - end/8)
		}
		return bits, bytes
	}
	if unit := uint64(s.off) * 8; end < unit && unit <= start {
		bytes, end = s.off-uint32(end/8), unit
	}
	if start > end {
		bits += uint32(start - end)
	}
	return bits, bytes
}

// take advances the run past s.
func (r *run) take(s *slot) {
	r.end = s.endBit()
	if s.BitfieldSize == 0 {
		*r = run{end: r.end}
		return
	}
	if !r.bitfield || r.end > r.area || s.size > r.unit {
		r.unit = s.size
		r.area = (uint64(s.off) + uint64(s.size)) * 8
		if r.end > r.area {
			// The bitfield crosses the border of two units.
			r.area += uint64(s.size) * 8
		}
	}
	r.bitfield = true
}

// rest returns the unused bits up to the end of the struct.
func (r *run) rest(size uint64) (bits, bytes uint32) {
	end := r.end
	if stop := min(size, r.area); r.bitfield && stop > end {
		bits, end = uint32(stop-end), stop
	}
	if size/8 > end/8 {
		bytes = uint32(size/8 - end/8)
	}
	return bits, bytes
}

func (t *totals) add(s *slot) {
	if s.BitfieldSize > 0 {
		t.bits += uint32(s.BitfieldSize)
	} else {
		t.bytes += s.size
	}
}

func (t *totals) hole(bits, bytes uint32) {
	if bits > 0 {
		t.bitHoles++
		t.holeBits += bits
	}
	if bytes > 0 {
		t.holes++
		t.holeBytes += bytes
	}
}

// maxUnit is the size in bytes of the largest type of a bitfield, an integer of 128 bits.
const maxUnit = 16

// place returns the bytes of a member. A bitfield is part of a unit of its type's size,
// aligned to that size.
func place(m *btf.Member) slot {
	s := slot{Member: m, off: uint32(m.Offset) / 8}
	n, err := btf.Sizeof(m.Type)
	if err != nil || n < 0 || n > math.MaxInt32 {
		s.infinite = true
		return s
	}
	s.size = uint32(n)
	if m.BitfieldSize > 0 && s.size > 0 && s.size <= maxUnit {
		s.off = uint32(m.Offset) / (s.size * 8) * s.size
		s.bit = uint32(m.Offset) - s.off*8
	}
	return s
}

// endBit returns the first bit after the member.
func (s *slot) endBit() uint64 {
	if s.BitfieldSize > 0 {
		return uint64(s.Offset) + uint64(s.BitfieldSize)
	}
	return uint64(s.Offset) + uint64(s.size)*8
}
