// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"slices"
)

// Limits on what is read of one file. Browsers, the largest programs known, have 20 MB of
// .eh_frame for half a million functions.
const (
	mostBytes   = 64 << 20
	mostEntries = 1 << 21
	mostRows    = 1 << 12 // that are kept
	mostLetters = 8       // of an augmentation; there are seven
)

// A Table has the unwind information of an ELF file. It is not safe for concurrent use.
type Table struct {
	machine *Machine
	entries []entry // sorted by address
	eh      section
	debug   section            // .debug_frame, of code that .eh_frame does not describe
	commons map[uint64]*common // by place; nil for those that cannot be used
	rows    map[uint64]*Row    // by address; nil where there is none
}

// A section has entries. Those of .eh_frame have pointers relative to their own addresses.
type section struct {
	data  []byte
	addr  uint64
	debug bool
}

// An entry (FDE) describes the code from lo to hi. It is at off in its section.
type entry struct {
	lo, hi uint64
	off    uint32
	debug  bool
}

// Read reads the unwind information of a file. It returns nil if the file has none.
func Read(r io.ReaderAt, f *elf.File) (*Table, error) {
	if f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB {
		return nil, nil
	}
	m := MachineOf(f.Machine)
	if m == nil {
		return nil, nil
	}
	eh, err := ehFrame(r, f)
	if err != nil {
		return nil, err
	}
	var debug section
	if s := f.Section(".debug_frame"); s != nil && s.Type == elf.SHT_PROGBITS && s.Flags&elf.SHF_COMPRESSED == 0 {
		if debug, err = readSection(r, s.Name, s.Offset, s.FileSize, 0); err != nil {
			return nil, err
		}
	}
	return newTable(m, eh, debug)
}

// newTable indexes the entries of both sections. It returns nil if there are none.
func newTable(m *Machine, eh, debug section) (*Table, error) {
	t := &Table{machine: m, eh: eh, debug: debug, commons: map[uint64]*common{}, rows: map[uint64]*Row{}}
	t.debug.debug = true
	if err := t.index(); err != nil || len(t.entries) == 0 {
		return nil, err
	}
	return t, nil
}

// ehFrame finds .eh_frame by its section or, in a file without sections, by the header that
// the program headers name.
func ehFrame(r io.ReaderAt, f *elf.File) (s section, err error) {
	if s := f.Section(".eh_frame"); s != nil && s.Type != elf.SHT_NOBITS && s.Flags&elf.SHF_COMPRESSED == 0 {
		return readSection(r, s.Name, s.Offset, s.FileSize, s.Addr)
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_GNU_EH_FRAME {
			continue
		}
		var header [8]byte // version, encodings, the address of .eh_frame relative to itself
		if _, err := r.ReadAt(header[:], int64(p.Off&(1<<62-1))); err != nil || header[0] != 1 || header[1] != pcRelative|signed4 {
			continue
		}
		at := p.Vaddr + 4 + uint64(int32(binary.LittleEndian.Uint32(header[4:])))
		for _, load := range f.Progs {
			if load.Type == elf.PT_LOAD && at >= load.Vaddr && at-load.Vaddr < load.Filesz {
				before := at - load.Vaddr
				return readSection(r, "PT_GNU_EH_FRAME", load.Off+before, load.Filesz-before, at)
			}
		}
	}
	return s, nil
}

func readSection(r io.ReaderAt, name string, off, size, addr uint64) (section, error) {
	if size > mostBytes {
		return section{}, fmt.Errorf("%s: %d bytes, the most are %d", name, size, mostBytes)
	}
	if off > 1<<62 {
		return section{}, nil
	}
	// A file may claim more than it has: memory grows with what there is.
	var b bytes.Buffer
	if _, err := b.ReadFrom(io.NewSectionReader(r, int64(off), int64(size))); err != nil {
		return section{}, fmt.Errorf("%s: %w", name, err)
	}
	return section{data: b.Bytes(), addr: addr}, nil
}

// Size returns about how many bytes of memory the table takes, without what is kept of look-ups.
func (t *Table) Size() int {
	if t == nil {
		return 0
	}
	const entrySize = 24
	return cap(t.eh.data) + cap(t.debug.data) + entrySize*cap(t.entries)
}

// Sum adds to a hash what the table was read from, which is all that its rows follow from.
func (t *Table) Sum(h hash.Hash) {
	if t == nil {
		return
	}
	for _, s := range []*section{&t.eh, &t.debug} {
		fmt.Fprintf(h, "%d %d ", s.addr, len(s.data))
		h.Write(s.data)
	}
}

func (t *Table) index() error {
	for _, s := range []*section{&t.eh, &t.debug} {
		if err := t.indexSection(s); err != nil {
			return err
		}
	}
	// .eh_frame goes before .debug_frame where both describe a function.
	slices.SortStableFunc(t.entries, func(a, b entry) int { return cmp.Compare(a.lo, b.lo) })
	t.entries = slices.CompactFunc(t.entries, func(a, b entry) bool { return a.lo == b.lo })
	return nil
}

func (t *Table) indexSection(s *section) error {
	c := cursor{b: s.data, end: uint64(len(s.data))}
	for c.more() {
		off := c.pos
		body, id, ok := s.open(off)
		if !ok {
			return nil // the terminator, or nothing that could be read on from
		}
		c.pos = body.end
		if id == noCommon {
			continue
		}
		common := t.commonAt(s, id)
		if common == nil {
			continue
		}
		lo := t.pointer(&body, common.encoding)
		size := t.pointer(&body, common.encoding&0x0f) // a number, relative to nothing
		if body.bad || size == 0 || lo == 0 || lo+size < lo {
			continue // of a function that the linker has dropped
		}
		if len(t.entries) == mostEntries {
			return fmt.Errorf("more than %d functions have unwind information", mostEntries)
		}
		t.entries = append(t.entries, entry{lo, lo + size, uint32(off), s.debug})
	}
	return nil
}

// open reads the length of the entry at off, and what says whose it is: id is where its CIE
// is. It returns what follows.
func (s *section) open(off uint64) (body cursor, id uint64, ok bool) {
	c := cursor{b: s.data, pos: off, end: uint64(len(s.data))}
	size := c.number(4)
	wide := size == 0xffffffff
	if wide {
		size = c.number(8)
	}
	if c.bad || size == 0 || size > c.end-c.pos {
		return c, 0, false
	}
	c.end = c.pos + size
	at := c.pos
	if wide && s.debug {
		id = c.number(8)
	} else {
		id = c.number(4)
	}
	switch {
	case s.debug && (id == 0xffffffff && !wide || id == 1<<64-1):
		id = noCommon
	case s.debug:
	case id == 0:
		id = noCommon
	default:
		id = at - id // backwards from itself
	}
	return c, id, !c.bad
}

// noCommon is the id of an entry that is a CIE itself.
const noCommon = 1<<64 - 1

// mostCommons is how many are remembered. Linkers merge those that are alike, and few are left.
const mostCommons = 1 << 12

func (t *Table) commonAt(s *section, off uint64) *common {
	key := off << 1
	if s.debug {
		key |= 1
	}
	c, known := t.commons[key]
	if !known {
		c = t.readCommon(s, off)
		if len(t.commons) >= mostCommons {
			clear(t.commons)
		}
		t.commons[key] = c
	}
	return c
}

func (t *Table) readCommon(s *section, off uint64) *common {
	if off >= uint64(len(s.data)) {
		return nil
	}
	c, id, ok := s.open(off)
	if !ok || id != noCommon {
		return nil
	}
	version := c.byte()
	var augmentation []byte
	for b := c.byte(); b != 0 && c.more(); b = c.byte() {
		if len(augmentation) == mostLetters {
			return nil
		}
		augmentation = append(augmentation, b)
	}
	if version != 1 && version != 3 && version != 4 {
		return nil
	}
	if version == 4 && (c.byte() != 8 || c.byte() != 0) { // size of addresses, of segments
		return nil
	}
	e := &common{codeAlign: c.uleb(), dataAlign: c.sleb()}
	column := uint64(0)
	if version == 1 {
		column = uint64(c.byte())
	} else {
		column = c.uleb()
	}
	if column >= uint64(t.machine.registers) {
		return nil
	}
	e.address = uint8(column)
	if !t.augment(e, &c, augmentation) || c.bad {
		return nil
	}
	e.initial = c
	return e
}

// augment reads what the augmentation announces. It reports whether all of it is known, for
// each letter changes the meaning of what follows.
func (t *Table) augment(e *common, c *cursor, letters []byte) bool {
	if len(letters) == 0 {
		return true
	}
	if letters[0] != 'z' {
		return false
	}
	e.augmented = true
	size := c.uleb()
	end := c.pos + size
	if c.bad || size > c.end-c.pos {
		return false
	}
	for _, letter := range letters[1:] {
		switch letter {
		case 'R':
			e.encoding = c.byte()
		case 'P': // the personality, which throws exceptions
			t.pointer(c, c.byte())
		case 'L':
			c.byte() // encoding of the language's data
		case 'S':
			e.signal = true
		case 'B', 'G': // arm64: signed by the key B; memory is tagged
		default:
			return false
		}
	}
	c.pos = end
	return true
}

// Encodings of pointers, DW_EH_PE_*.
const (
	signed4    = 0x0b
	pcRelative = 0x10
	omitted    = 0xff
)

// pointer reads a pointer of .eh_frame. One that is read from elsewhere is of no function.
func (t *Table) pointer(c *cursor, encoding uint8) uint64 {
	at := t.eh.addr + c.pos
	if encoding == omitted {
		return 0
	}
	var v uint64
	switch encoding & 0x0f {
	case 0x00, 0x04, 0x0c:
		v = c.number(8)
	case 0x01:
		v = c.uleb()
	case 0x02:
		v = c.number(2)
	case 0x03:
		v = c.number(4)
	case 0x09:
		v = uint64(c.sleb())
	case 0x0a:
		v = uint64(c.signed(2))
	case 0x0b:
		v = uint64(c.signed(4))
	default:
		c.bad = true
	}
	switch encoding & 0x70 {
	case 0:
	case pcRelative:
		v += at
	default: // relative to sections that no linker puts here, or aligned
		c.bad = true
	}
	return v
}

// Row returns the rules at an address; nil if there are none, or if to find them takes more steps than are left: then
// left is negative.
func (t *Table) Row(pc uint64, left *int) *Row {
	if row, known := t.rows[pc]; known {
		return row
	}
	row := t.row(pc, left)
	if *left < 0 {
		return nil
	}
	if len(t.rows) >= mostRows {
		clear(t.rows)
	}
	t.rows[pc] = row
	return row
}

// Kept returns how many look-ups of rows the table keeps.
func (t *Table) Kept() int {
	if t == nil {
		return 0
	}
	return len(t.rows)
}

// Forget forgets the look-ups.
func (t *Table) Forget() {
	if t != nil {
		t.rows = map[uint64]*Row{}
	}
}

// Covers reports whether there is an entry for an address.
func (t *Table) Covers(pc uint64) bool { return t.find(pc) != nil }

func (t *Table) find(pc uint64) *entry {
	i, found := slices.BinarySearchFunc(t.entries, pc, func(e entry, pc uint64) int { return cmp.Compare(e.lo, pc) })
	if !found {
		i--
	}
	if i < 0 || pc >= t.entries[i].hi {
		return nil
	}
	return &t.entries[i]
}

func (t *Table) row(pc uint64, left *int) *Row {
	e := t.find(pc)
	if e == nil {
		return nil
	}
	s := &t.eh
	if e.debug {
		s = &t.debug
	}
	body, id, _ := s.open(uint64(e.off))
	common := t.commonAt(s, id)
	if common == nil {
		return nil
	}
	t.pointer(&body, common.encoding)
	t.pointer(&body, common.encoding&0x0f)
	if common.augmented {
		body.take(body.uleb())
	}
	run := state{machine: t.machine, pointer: func(c *cursor) uint64 { return t.pointer(c, common.encoding) }, common: common, left: left, row: Row{address: common.address, section: s.data, Signal: common.signal}}
	if !run.run(common.initial, 1<<64-1) {
		return nil
	}
	run.initial, run.pc = run.row, e.lo
	if !run.run(body, pc) || run.row.cfa.kind == same {
		return nil
	}
	row := run.row // a pointer into run would keep all of that
	row.Outermost = row.regs[common.address].kind == undefined
	return &row
}
