// SPDX-License-Identifier: Apache-2.0

package debuginfo

import "slices"

// readLines runs the unit's line program.
func (u *unit) readLines() {
	t := &u.lines
	if t.read || !u.hasLines {
		return
	}
	t.read = true
	c, ok := t.header.read(u)
	if !ok || t.header.lineRange == 0 {
		return
	}
	t.run(&c, u)
	u.charge()
	slices.SortFunc(t.sequences, func(a, b sequence) int { return compare(a.hi, b.hi) })
}

// A lineState holds the registers of the line program's machine.
type lineState struct {
	row
	first int // index of the sequence's first row
}

// run runs the program at the cursor. Half the time of a batch of look-ups is spent here,
// so the frequent operations with one-byte operands are inlined.
func (t *lineTable) run(c *cursor, u *unit) {
	base := t.header.opcodeBase
	s := lineState{row: row{line: 1, file: 1}}
	special := t.header.special()
	// A row takes 3 to 4 bytes of program.
	const most = 1 << 16 // if there are more, they are charged as they come
	t.rows = slices.Grow(t.rows, min((len(c.b)-c.pos)/4, most))
	rows, b, pos := t.rows, c.b, c.pos
	for pos < len(b) {
		if len(rows) == cap(rows) {
			t.rows = rows
			grow(&t.rows)
			u.charge()
			rows = t.rows
		}
		op := b[pos]
		pos++
		if op >= base {
			s.addr += uint64(special[op].addr)
			s.line += uint32(int32(special[op].line))
			rows = append(rows, s.row)
			continue
		}
		switch op {
		case lineCopy:
			rows = append(rows, s.row)
			continue
		case lineNegateStmt:
			continue
		case lineSetColumn:
			if pos < len(b) && b[pos] < 0x80 {
				s.col = uint16(b[pos])
				pos++
				continue
			}
		case lineAdvanceLine:
			if pos < len(b) && b[pos] < 0x80 {
				s.line += uint32(int32(int8(b[pos]<<1)) >> 1)
				pos++
				continue
			}
		case lineSetFile:
			if pos < len(b) && b[pos] < 0x80 {
				s.file = uint16(b[pos])
				pos++
				continue
			}
		}
		t.rows, c.pos = rows, pos
		if op == 0 {
			t.extended(c, u, &s)
		} else {
			t.standard(c, op, &s)
		}
		rows, pos = t.rows, c.pos
	}
	t.rows, c.pos = rows, pos
}

// standard executes a standard opcode.
func (t *lineTable) standard(c *cursor, op uint8, s *lineState) {
	h := &t.header
	switch op {
	case lineAdvancePC:
		s.addr += c.uleb() * uint64(h.minInst)
	case lineAdvanceLine:
		s.line += uint32(c.sleb())
	case lineSetColumn:
		s.col = narrow(c.uleb(), 0)
	case lineSetFile:
		s.file = narrow(c.uleb(), noFile)
	case lineNegateStmt, lineSetBasicBlock, lineSetPrologueEnd, lineSetEpilogueBegin:
	case lineConstAddPC:
		s.addr += uint64(h.advances[255].addr)
	case lineFixedAdvancePC:
		s.addr += uint64(c.u16())
	case lineSetISA:
		c.uleb()
	default:
		for range h.operands[op] {
			c.uleb()
		}
	}
}

// extended executes an extended opcode.
func (t *lineTable) extended(c *cursor, u *unit, s *lineState) {
	n := c.uleb()
	if n == 0 || n > uint64(len(c.b)-c.pos) {
		if n != 0 {
			c.fail()
		}
		return
	}
	end := c.pos + int(n)
	switch c.u8() {
	case lineExtEndSequence:
		t.rows = append(t.rows, s.row)
		t.endSequence(s, u)
		*s = lineState{row: row{line: 1, file: 1}, first: len(t.rows)}
	case lineExtSetAddress:
		s.addr = c.sized(uint8(min(n-1, 255)))
	case lineExtDefineFile:
		name := c.text()
		dir := c.uleb()
		if len(t.header.files) < mostFiles {
			t.header.files = append(t.header.files, lineFile{value{form: formString, text: name}, dir})
		}
	}
	c.pos = end
}

// endSequence closes the sequence at the current address, unless the linker dropped its
// code.
func (t *lineTable) endSequence(s *lineState, u *unit) {
	lo, hi := t.rows[s.first].addr, s.addr
	dead := lo >= hi || lo == 0 && !u.main.relocatable || lo >= u.tombstone()
	if dead {
		t.rows = t.rows[:s.first]
		return
	}
	if grow(&t.sequences) {
		u.charge()
	}
	t.sequences = append(t.sequences, sequence{span{lo, hi}, s.first, len(t.rows)})
}
