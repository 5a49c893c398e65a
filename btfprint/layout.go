// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"math"

	"github.com/cilium/ebpf/btf"
)

// A slot is where one member of a struct or union lies, and the hole behind it.
type slot struct {
	*btf.Member
	off      uint32 // first byte; of a bitfield, of the unit that it is part of
	bit      uint32 // of a bitfield, its first bit in that unit
	size     uint32 // bytes; of a bitfield, of that unit
	bitHole  uint32 // bits that are unused up to the next member, or to the end of the unit
	hole     uint32 // bytes that are unused up to the next member
	infinite bool   // the size of the member is not known
}

// totals is what the slots of a struct sum up to.
type totals struct {
	bytes, bits       uint32 // in members, in bitfields
	holes, holeBytes  uint32
	bitHoles, holBits uint32
	padding           uint32 // bytes behind the last member
	bitPadding        uint32 // bits behind the last member if that is a bitfield
}

// layout places the members of a type of size bytes. Members of a union all
// start at 0, so there are no holes between them.
func layout(members []btf.Member, size uint32, union bool) ([]slot, totals) {
	slots := make([]slot, len(members))
	for i := range members {
		slots[i] = place(&members[i])
	}
	var sum totals
	if union {
		return slots, sum
	}
	end := uint64(0) // first bit not covered so far
	for i := range slots {
		s := &slots[i]
		end = max(end, s.endBit())
		next := uint64(size) * 8
		if i+1 < len(slots) {
			next = uint64(slots[i+1].Offset)
		}
		sum.add(s)
		if next <= end {
			continue
		}
		bits, bytes := s.gap(end, next)
		if i+1 < len(slots) {
			s.bitHole, s.hole = bits, bytes
			sum.hole(bits, bytes)
		} else {
			sum.bitPadding, sum.padding = bits, bytes
		}
	}
	return slots, sum
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
		t.holBits += bits
	}
	if bytes > 0 {
		t.holes++
		t.holeBytes += bytes
	}
}

// place finds the bytes of a member. Bitfields are parts of units of their
// type's size, which lie at multiples of it.
func place(m *btf.Member) slot {
	s := slot{Member: m, off: uint32(m.Offset) / 8}
	n, err := btf.Sizeof(m.Type)
	if err != nil || n < 0 || n > math.MaxInt32 {
		s.infinite = true
		return s
	}
	s.size = uint32(n)
	if m.BitfieldSize > 0 && s.size > 0 {
		s.off = uint32(m.Offset) / (s.size * 8) * s.size
		s.bit = uint32(m.Offset) - s.off*8
	}
	return s
}

// endBit is the first bit behind the member.
func (s *slot) endBit() uint64 {
	if s.BitfieldSize > 0 {
		return uint64(s.Offset) + uint64(s.BitfieldSize)
	}
	return uint64(s.Offset) + uint64(s.size)*8
}

// gap splits the bits between end and next: behind a bitfield the rest of its
// unit is a hole of bits, what follows one of bytes.
func (s *slot) gap(end, next uint64) (bits, bytes uint32) {
	whole := (end + 7) / 8 * 8
	if s.BitfieldSize > 0 {
		whole = max(whole, min(next, uint64(s.off+s.size)*8))
	}
	whole = min(whole, next)
	return uint32(whole - end), uint32((next - whole) / 8)
}
