// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
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
	if m.copied, err = fillELF(m.data, f, r); err != nil {
		r.giveBack(m.copied)
		return mapped{}, errors.Join(err, unix.Munmap(m.data))
	}
	return m, nil
}

// fillELF copies the parts of a file, and returns for how many bytes it has taken room.
func fillELF(data []byte, f io.ReaderAt, r *room) (taken uint64, err error) {
	head, err := elfhead.Open(copier{f, data})
	if err != nil {
		return 0, err
	}
	for _, s := range head.Sections {
		end := s.Offset + s.FileSize
		if !wanted(s) || end < s.Offset || end > uint64(len(data)) {
			continue
		}
		if err := r.take(s.FileSize); err != nil {
			return taken, err
		}
		taken += s.FileSize
		if _, err := f.ReadAt(data[s.Offset:end], int64(s.Offset)); err != nil {
			return taken, fmt.Errorf("section %s: %w", s.Name, err)
		}
	}
	return taken, nil
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
	from io.ReaderAt
	to   []byte
}

// ReadAt implements io.ReaderAt.
func (c copier) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.from.ReadAt(p, off)
	if off >= 0 && off < int64(len(c.to)) {
		copy(c.to[off:], p[:n])
	}
	return n, err
}
