// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"debug/elf"
	"errors"
	"fmt"

	"github.com/ksnoop/ksnoop/internal/elfhead"
)

// sections are parts of the mapped file, or copies if they had to be decompressed or
// relocated.
type sections struct {
	info, abbrev, line, aranges, str, lineStr []byte
	rnglists, ranges, addr, strOffsets        []byte
	loclists, loc, frame                      []byte
	relocatable                               bool // 0 is a valid address
	room                                      *room
	// sup is the supplementary file. Its own offsets have the bias.
	sup  *sections
	bias uint64
	// halves finds .dwo files, if there can be any.
	halves *halves
}

// biasBits is the number of bits of an offset in .debug_info. The bits above say which file
// it is in: 0 for the file itself, supBit for its supplementary file, else the number of a
// half.
const biasBits = 40

// supBit marks offsets in .debug_info of the supplementary file. No file is that large.
const supBit = 1 << 63

// slots maps names of sections to the fields for them.
func (s *sections) slots() map[string]*[]byte {
	return map[string]*[]byte{
		".debug_info": &s.info, ".debug_abbrev": &s.abbrev, ".debug_line": &s.line,
		".debug_aranges": &s.aranges, ".debug_str": &s.str, ".debug_line_str": &s.lineStr,
		".debug_rnglists": &s.rnglists, ".debug_ranges": &s.ranges, ".debug_addr": &s.addr,
		".debug_str_offsets": &s.strOffsets,
	}
}

// late is slots for sections that are rarely needed, and may need decompression too.
func (s *sections) late() map[string]*[]byte {
	return map[string]*[]byte{".debug_loclists": &s.loclists, ".debug_loc": &s.loc, ".debug_frame": &s.frame}
}

// ErrNone says that a file has no debug info.
var ErrNone = errors.New("no debug info")

// readSections finds the sections with debug info in an ELF file.
func (f *elfFile) readSections() (*sections, error) {
	if f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB {
		if elfhead.DebugInfo(f.File) == nil {
			return nil, ErrNone
		}
		return nil, fmt.Errorf("neither 64 bits nor little-endian: %v, %v", f.Class, f.Data)
	}
	f.relocatable = f.Type == elf.ET_REL
	s := &sections{relocatable: f.relocatable, room: f.room}
	if err := f.fill(s.slots()); err != nil {
		return nil, err
	}
	return s, nil
}

// empty reports whether there is no debug info at all.
func (s *sections) empty() bool { return len(s.info) == 0 || len(s.abbrev) == 0 }

// A half is the part of a unit in a .dwo or .dwp file: everything but the lines and the
// addresses that it refers to by number.
type half struct {
	sections *sections
	off      uint64
	user     uint64 // the only unit that it belongs to
}

// halves finds the other halves of units compiled with -gsplit-dwarf.
type halves struct {
	loader  *loader
	byName  map[halfName]*half // nil for a missing half
	files   map[inode]*dwoFile
	numbers int // of units in all files
	packed  *packedHalves
	refused error // why packed is nil though there is a .dwp file
	missing error // the first one
	count   int   // number of missing halves
}

// A halfName is what a unit calls its other half.
type halfName struct {
	file, folder string
	id           uint64
}

// An inode identifies a file, which can have many names.
type inode struct{ device, number uint64 }

// A dwoFile is what is known of a .dwo file. In a damaged file, many units could name the
// same one, so it is read once. It is read again only if it was closed, because it did not
// have the first unit that named it, and has another one.
type dwoFile struct {
	units    map[uint64]uint64 // offsets of its units by their numbers; nil before it is read
	sections *sections         // nil if the file is closed
	refused  error             // why it cannot be read
}

// packedHalves is a .dwp file, which has the halves of all units.
type packedHalves struct {
	all  sections
	rows map[uint64]int // by the number of a half
	// columns has, for each row, offset and size of its part in each of some sections.
	columns []uint32
	offsets []byte
	sizes   []byte
	left    int // bytes of .debug_info.dwo not handed out yet
}
