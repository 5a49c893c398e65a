// SPDX-License-Identifier: Apache-2.0

package debuginfo

import "slices"

// A row says which line the code comes from, from its address on. There are millions of
// rows, so file and column have only 16 bits.
type row struct {
	addr uint64
	line uint32
	file uint16
	col  uint16
}

// noFile is a file number that no table has. Column 0 means unknown.
const noFile = 0xffff

// narrow cuts a number to 16 bits; one that does not fit becomes unknown.
func narrow(n uint64, unknown uint16) uint16 {
	if n > 0xffff {
		return unknown
	}
	return uint16(n)
}

// A sequence is a run of rows that are adjacent in memory. Sequences are in any order. The
// last row of each only marks its end.
type sequence struct {
	span
	first, last int // indexes of rows
}

// A lineTable holds the lines of a unit.
type lineTable struct {
	header    lineHeader
	rows      []row
	sequences []sequence
	read      bool
	paths     map[uint16]string // by file
	pathText  int               // bytes of these
}

// reset empties the table but keeps its memory.
func (t *lineTable) reset() {
	t.read = false
	t.rows, t.sequences = t.rows[:0], t.sequences[:0]
	t.header.files, t.header.dirs = t.header.files[:0], t.header.dirs[:0]
	clear(t.paths)
	t.pathText = 0
}

// A lineHeader is the header of a line program.
type lineHeader struct {
	formSizes
	minInst    uint8
	lineBase   int8
	lineRange  uint8
	opcodeBase uint8
	operands   [256]uint8
	advances   [256]advance
	dirs       []value
	files      []lineFile
}

// A lineFile is an entry of the file table.
type lineFile struct {
	name value
	dir  uint64
}

// file returns file i of the table. Version 5 counts from 0, older versions from 1.
func (h *lineHeader) file(i uint16) (lineFile, bool) {
	n := uint64(i)
	if h.version < 5 {
		n--
	}
	if n >= uint64(len(h.files)) {
		return lineFile{}, false
	}
	return h.files[n], true
}

// An advance is how far a special opcode advances address and line.
type advance struct {
	addr uint16
	line int16
}

// special computes all special opcodes once, because each takes a division.
func (h *lineHeader) special() *[256]advance {
	for op := int(h.opcodeBase); op < 256; op++ {
		n := op - int(h.opcodeBase)
		h.advances[op] = advance{
			addr: uint16(n / int(h.lineRange) * int(h.minInst)),
			line: int16(int(h.lineBase) + n%int(h.lineRange)),
		}
	}
	return &h.advances
}

// find returns the row for an address. If several rows have the same address, the last one
// counts.
func (t *lineTable) find(addr uint64) (row, bool) {
	i, _ := slices.BinarySearchFunc(t.sequences, addr, func(s sequence, addr uint64) int {
		if s.hi <= addr {
			return -1
		}
		return 1
	})
	if i == len(t.sequences) || !t.sequences[i].contains(addr) {
		return row{}, false
	}
	rows := t.rows[t.sequences[i].first : t.sequences[i].last-1]
	n, _ := slices.BinarySearchFunc(rows, addr, func(r row, addr uint64) int {
		if r.addr <= addr {
			return -1
		}
		return 1
	})
	if n == 0 {
		return row{}, false
	}
	return rows[n-1], true
}
