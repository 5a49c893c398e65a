// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/elfhead"
)

// copyELF returns memory as large as a file, with those parts of it that are read here: headers, and sections that no process
// has mapped, or that have symbols or notes. The rest takes no memory.
func copyELF(f *os.File, r *room) (m mapped, err error) {
	size, err := sizeOf(f)
	if err != nil {
		return m, err
	}
	m.data, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return m, fmt.Errorf("copy: %w", err)
	}
	// A huge page would take 2 MiB where one byte is copied. A kernel without huge pages refuses this.
	_ = unix.Madvise(m.data, unix.MADV_NOHUGEPAGE)
	c := &copier{from: f, to: m.data, room: r, pageSize: uint64(os.Getpagesize()), pages: map[uint64]struct{}{}}
	err = c.fill()
	if m.copied = c.taken(); err != nil {
		r.giveBack(m.copied)
		return mapped{}, errors.Join(err, unix.Munmap(m.data))
	}
	return m, nil
}

// fill copies the parts of the file.
func (c *copier) fill() error {
	head, err := elfhead.Open(c)
	if err := cmp.Or(c.refused, err); err != nil { // Open may take a refusal for the end of the file
		return err
	}
	for _, s := range head.Sections {
		end := s.Offset + s.FileSize
		if !wanted(s) || end < s.Offset || end > uint64(len(c.to)) {
			continue
		}
		if err := c.take(s.Offset, end); err != nil {
			return err
		}
		if _, err := c.from.ReadAt(c.to[s.Offset:end], int64(s.Offset)); err != nil {
			return fmt.Errorf("section %s: %w", s.Name, err)
		}
	}
	return nil
}

func wanted(s *elf.Section) bool {
	switch s.Type {
	case elf.SHT_NOBITS, elf.SHT_NULL:
		return false
	case elf.SHT_DYNSYM, elf.SHT_STRTAB, elf.SHT_NOTE:
		return true
	}
	return s.Flags&elf.SHF_ALLOC == 0
}

// A copier reads a file, and keeps what it has read at the same place in memory.
type copier struct {
	from     io.ReaderAt
	to       []byte
	room     *room
	pageSize uint64
	pages    map[uint64]struct{} // for which room was taken
	refused  error               // there was no room for what was read
}

// ReadAt implements io.ReaderAt.
func (c *copier) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(len(c.to)) {
		return c.from.ReadAt(p, off)
	}
	if err := c.take(uint64(off), min(uint64(off)+uint64(len(p)), uint64(len(c.to)))); err != nil {
		c.refused = err
		return 0, err
	}
	n, err := c.from.ReadAt(p, off)
	copy(c.to[off:], p[:n])
	return n, err
}

// take takes room for the pages of a part. Parts may be in the same page, and one byte takes all of it.
func (c *copier) take(from, end uint64) error {
	if from == end {
		return nil
	}
	for page := from / c.pageSize; page <= (end-1)/c.pageSize; page++ {
		if _, known := c.pages[page]; known {
			continue
		}
		if err := c.room.take(c.pageSize); err != nil {
			return err
		}
		c.pages[page] = struct{}{}
	}
	return nil
}

// taken returns for how many bytes room was taken.
func (c *copier) taken() uint64 { return uint64(len(c.pages)) * c.pageSize }
