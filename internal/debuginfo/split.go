// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/debuginfo/find"
)

// mostHalves bounds the open .dwo files. A process can have 65,530 mappings
// (vm.max_map_count).
const mostHalves = 1 << 15

// find returns the other half of a unit, or nil. A half serves one unit only: in a damaged
// file, many units could name the same large half.
func (h *halves) find(name halfName, unit uint64) *half {
	h.loader.mu.Lock()
	defer h.loader.mu.Unlock()
	if found, ok := h.byName[name]; ok {
		if found != nil && found.user != unit {
			return nil
		}
		return found
	}
	if h.byName == nil {
		h.byName = map[halfName]*half{}
		h.packed, h.refused = h.loader.openPacked()
	}
	found, err := h.open(name)
	if err != nil {
		if h.count++; h.missing == nil {
			h.missing = err
		}
	} else {
		found.user, found.sections.bias = unit, uint64(len(h.byName)+1)<<biasBits
	}
	if len(h.byName) < mostHalves {
		h.byName[name] = found
	}
	return found
}

// open looks for a half in the .dwp file, in the build directory, and beside the file.
// The error is the first one met. A missing .dwp file is no error.
func (h *halves) open(name halfName) (*half, error) {
	if len(h.byName) >= mostHalves {
		return nil, fmt.Errorf("more than %d .dwo files", mostHalves)
	}
	if s, ok := h.packed.sections(name.id); ok {
		if off, ok := s.halfAt(name.id); ok {
			return &half{sections: s, off: off}, nil
		}
	}
	first := h.refused
	for _, path := range name.candidates(h.loader.path) {
		found, err := h.openFile(path, name.id)
		if err == nil {
			return found, nil
		}
		if first == nil {
			first = fmt.Errorf("%s: %w", path, find.Cause(err))
		}
	}
	return nil, first
}

// candidates returns the paths where a .dwo file may be.
func (n *halfName) candidates(main string) []string {
	beside := filepath.Dir(main)
	paths := []string{filepath.Join(beside, n.file), filepath.Join(beside, filepath.Base(n.file))}
	if filepath.IsAbs(n.file) {
		paths[0] = n.file
	} else if n.folder != "" {
		paths = append([]string{filepath.Join(n.folder, n.file)}, paths...)
	}
	return slices.Compact(paths)
}

// halfSlots is slots for a .dwo or .dwp file.
func (s *sections) halfSlots() map[string]*[]byte {
	return map[string]*[]byte{
		".debug_info.dwo": &s.info, ".debug_abbrev.dwo": &s.abbrev, ".debug_str.dwo": &s.str,
		".debug_str_offsets.dwo": &s.strOffsets, ".debug_rnglists.dwo": &s.rnglists, ".debug_loclists.dwo": &s.loclists,
	}
}

// openHalf continues with the other half of the unit, if it can be found. Lines and the
// bases of addresses stay those of the skeleton.
func (u *unit) openHalf() bool {
	found := u.main.halves.find(halfName{string(u.dwoName), string(u.compDir), u.dwoID}, u.key)
	if found == nil {
		return true // the skeleton has the lines
	}
	kept := *u
	ok := u.header(found.sections, found.off) && u.abbrevs.parse(found.sections.abbrev, u.abbrevAt, u.formSizes, 0) && u.readRoot()
	u.name, u.compDir, u.lowPC, u.rootEntry = kept.name, kept.compDir, kept.lowPC, kept.rootEntry
	u.stmtList, u.hasLines, u.addrBase, u.rangesBase = kept.stmtList, kept.hasLines, kept.addrBase, kept.rangesBase
	return ok
}

// Numbers of sections in .debug_cu_index (DWARF 5, section 7.3.5.3). GNU's version 2 has
// the same numbers for these.
const (
	packedInfo       = 1
	packedAbbrev     = 3
	packedLocations  = 5
	packedStrOffsets = 6
	packedRanges     = 8
)

// openPacked opens the .dwp file next to the file. It returns nil if there is none, or can be none because its name
// would be too long, and an error if it cannot be read.
func (l *loader) openPacked() (*packedHalves, error) {
	path := l.path + ".dwp"
	f, err := l.openLocked(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENAMETOOLONG) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, find.Cause(err))
	}
	p := &packedHalves{rows: map[uint64]int{}}
	var index []byte
	slots := p.all.halfSlots()
	slots[".debug_cu_index"] = &index
	if err = f.fill(slots); err == nil && !p.read(index) {
		err = errors.New("section .debug_cu_index: missing, malformed or of an unknown version")
	}
	if err != nil {
		l.drop(f.expanded)
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// read reads the index: a hash table of numbers, the row of each, and offsets and sizes by
// row.
func (p *packedHalves) read(index []byte) bool {
	c := cursor{b: index}
	version := c.u16()
	c.u16() // part of the version in version 2, else padding
	columns, units, slots := uint64(c.u32()), uint64(c.u32()), uint64(c.u32())
	if c.bad || version != 2 && version != 5 || columns > 16 || slots > uint64(len(index)) || units > uint64(len(index)) {
		return false
	}
	rows := c
	rows.skip(8 * slots)
	for range slots {
		id, row := c.u64(), rows.u32()
		if row > 0 && uint64(row) <= units {
			p.rows[id] = int(row - 1)
		}
	}
	for range columns {
		p.columns = append(p.columns, rows.u32())
	}
	p.left = len(p.all.info)
	p.offsets, p.sizes = rows.bytes(4*columns*units), rows.bytes(4*columns*units)
	return !rows.bad
}

// sections returns the parts of the sections that belong to the half with this number.
func (p *packedHalves) sections(id uint64) (*sections, bool) {
	if p == nil {
		return nil, false
	}
	row, ok := p.rows[id]
	if !ok {
		return nil, false
	}
	s := p.all
	where := uint64(4 * row * len(p.columns))
	offsets, sizes := at(p.offsets, where), at(p.sizes, where)
	slots := map[uint32]*[]byte{packedInfo: &s.info, packedAbbrev: &s.abbrev, packedLocations: &s.loclists,
		packedStrOffsets: &s.strOffsets, packedRanges: &s.rnglists}
	for _, column := range p.columns {
		off, size := uint64(offsets.u32()), uint64(sizes.u32())
		if slot := slots[column]; slot != nil {
			c := at(*slot, off)
			*slot = c.bytes(size)
		}
	}
	p.left -= len(s.info) // parts must not overlap
	return &s, p.left >= 0
}

// split reports whether the debug info is in .dwo files.
func (s *sections) split() bool {
	if len(s.addr) == 0 {
		return false // split debug info has addresses there
	}
	const some = 64 // units of assembler code are never split
	c := cursor{b: s.info}
	for n := 0; n < some && c.pos < len(c.b); n++ {
		var u unit
		if u.openRoot(s, uint64(c.pos)) && u.dwoName != nil {
			return true
		}
		end, _ := c.length()
		if c.bad {
			break
		}
		c.pos = end
	}
	return false
}
