// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"errors"
	"fmt"
	"iter"
	"os"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/regular"
)

// mostNumbers bounds the numbers of units that are remembered, of all .dwo files together. No more than mostHalves are asked for.
const mostNumbers = 2 * mostHalves

// openFile opens a .dwo file. It must contain the unit with this number: a file of
// another build may have the same name.
func (h *halves) openFile(path string, id uint64) (*half, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return nil, err
	}
	key := inode{stat.Dev, stat.Ino}
	d := h.files[key]
	if d == nil {
		d = &dwoFile{}
		h.files[key] = d
	}
	_, ok := d.units[id]
	if d.refused == nil && d.sections == nil && (ok || d.units == nil) {
		d.refused = h.read(d, f, id)
	}
	if d.refused != nil {
		return nil, d.refused
	}
	return d.half(id)
}

// half hands out a half, once: it serves one unit only.
func (d *dwoFile) half(id uint64) (*half, error) {
	off, ok := d.units[id]
	if !ok {
		return nil, errors.New("has not the unit, it may be of another build")
	}
	delete(d.units, id)
	s := *d.sections // halves of one file differ in their bias
	return &half{sections: &s, off: off}, nil
}

// read reads a .dwo file, and closes it again if it does not have the unit.
func (h *halves) read(d *dwoFile, f *os.File, id uint64) error {
	if most := uint64(h.loader.room.memory.most); h.loader.wasted > most {
		return fmt.Errorf("more than %d MiB of .dwo files were copied or decompressed in vain", most>>20)
	}
	opened, err := h.loader.read(f)
	if err != nil {
		return err
	}
	s := &sections{}
	if err = opened.fill(s.halfSlots()); err == nil {
		err = h.number(d, s)
	}
	if _, ok := d.units[id]; ok && err == nil {
		d.sections = s
		return nil
	}
	h.loader.drop(opened.expanded)
	return err
}

// number finds the units of a .dwo file.
func (h *halves) number(d *dwoFile, s *sections) error {
	d.units = map[uint64]uint64{}
	for id, off := range s.splitUnits() {
		if h.numbers++; h.numbers > mostNumbers {
			return fmt.Errorf("more than %d units in .dwo files", mostNumbers)
		}
		if _, ok := d.units[id]; !ok {
			d.units[id] = off
		}
	}
	return nil
}

// splitUnits yields the number and the offset of each half. A .dwo file also has units of
// types.
func (s *sections) splitUnits() iter.Seq2[uint64, uint64] {
	return func(yield func(id, off uint64) bool) {
		var u unit
		work := tableWork(s)
		for c := at(s.info, 0); c.pos < len(c.b) && work >= 0; {
			start := uint64(c.pos)
			end, _ := c.length()
			if c.bad {
				break
			}
			c.pos = end
			u.main = s
			if !u.header(s, start) {
				continue
			}
			if u.version < 5 { // the root entry has the number
				ok := u.openRoot(s, start)
				if work -= u.abbrevs.bytes; !ok {
					continue
				}
			}
			if (u.version < 5 || u.kind == unitSplitCompile) && !yield(u.dwoID, start) {
				return
			}
		}
	}
}

// halfAt returns the offset of the half with this number.
func (s *sections) halfAt(id uint64) (off uint64, ok bool) {
	for got, off := range s.splitUnits() {
		if got == id {
			return off, true
		}
	}
	return 0, false
}
