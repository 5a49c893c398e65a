// SPDX-License-Identifier: Apache-2.0

// Package elfhead checks the headers and tables of an ELF file before debug/elf reads them:
// that takes memory for whatever they claim, and anybody can make a process map a
// file that claims a lot. A sparse file of terabytes takes 4 KB of a disk, a
// compressed section a thousandth of what comes out of it.
package elfhead

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Limits. A vmlinux has 80 sections, an object file with a section for each
// function tens of thousands.
const (
	maxSections  = 1 << 17
	maxPrograms  = 1 << 14 // bytes of program headers: a program has a dozen
	maxNames     = 1 << 24 // bytes of the section that names are in
	maxName      = 1 << 12 // bytes of one name
	maxAllNames  = 1 << 26 // many sections may share one name
	headerSize   = 64      // Elf64_Ehdr, the larger one
	noSuchNumber = 0xffff  // SHN_XINDEX
)

// A layout says where the fields of headers are.
type layout struct {
	order                                           binary.ByteOrder
	wide                                            bool // 64 bits
	tableAt, entrySize, number, names               int  // in the file's header
	programsAt, programSizeAt, programs             int  // also there
	programSize                                     int  // of a program header
	size                                            int  // of a section's header
	nameAt, typeAt, flagsAt, offAt, lengthAt, infos int
}

func layoutOf(ident []byte) (l layout, ok bool) {
	switch elf.Data(ident[elf.EI_DATA]) {
	case elf.ELFDATA2LSB:
		l.order = binary.LittleEndian
	case elf.ELFDATA2MSB:
		l.order = binary.BigEndian
	default:
		return l, false
	}
	switch elf.Class(ident[elf.EI_CLASS]) {
	case elf.ELFCLASS64:
		return layout{l.order, true, 0x28, 0x3a, 0x3c, 0x3e, 0x20, 0x36, 0x38, 56, 64, 0, 4, 8, 24, 32, 40}, true
	case elf.ELFCLASS32:
		return layout{l.order, false, 0x20, 0x2e, 0x30, 0x32, 0x1c, 0x2a, 0x2c, 32, 40, 0, 4, 8, 16, 20, 24}, true
	}
	return l, false
}

// word reads an address, offset or size.
func (l *layout) word(b []byte, at int) uint64 {
	if l.wide {
		return l.order.Uint64(b[at:])
	}
	return uint64(l.order.Uint32(b[at:]))
}

// Open reads the headers of a file that may claim anything, and that somebody may write to meanwhile.
func Open(r io.ReaderAt) (*elf.File, error) {
	h, err := readHeads(r)
	if err != nil {
		return nil, err
	}
	f, err := elf.NewFile(h)
	h.parts = nil
	if err == nil {
		err = checkTables(f)
	}
	if format := (*elf.FormatError)(nil); errors.As(err, &format) && strings.HasPrefix(format.Error(), "bad magic number") {
		return nil, magicError{format}
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// A magicError is that of a file of another kind. debug/elf prints the bytes as numbers.
type magicError struct{ err *elf.FormatError }

func (magicError) Error() string { return "it does not begin like an ELF file" }

func (e magicError) Unwrap() error { return e.err }

// A heads is a file whose headers were read and checked. They are not read again: by then they may claim something else.
type heads struct {
	r     io.ReaderAt
	parts []piece
}

type piece struct {
	off  uint64
	data []byte
}

// ReadAt implements io.ReaderAt.
func (h *heads) ReadAt(b []byte, off int64) (int, error) {
	for _, p := range h.parts {
		if from := uint64(off) - p.off; uint64(off) >= p.off && len(b) <= len(p.data) && from <= uint64(len(p.data)-len(b)) {
			return copy(b, p.data[from:]), nil
		}
	}
	return h.r.ReadAt(b, off)
}

// take reads a part.
func (h *heads) take(off, size uint64) ([]byte, error) {
	if off > 1<<62 {
		return nil, errors.New("headers are beyond the end of the file")
	}
	data := make([]byte, size)
	if n, err := h.r.ReadAt(data, int64(off)); n < len(data) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	h.parts = append(h.parts, piece{off, data})
	return data, nil
}

// readHeads reads what debug/elf reads of a file, or returns an error if the headers claim more than any
// file has. What is wrong with it otherwise is for debug/elf to say.
func readHeads(r io.ReaderAt) (*heads, error) {
	var head [headerSize]byte
	switch n, err := r.ReadAt(head[:], 0); {
	case n < len(head) && err != io.EOF:
		return nil, err
	case n < len(head):
		return &heads{r: bytes.NewReader(head[:n])}, nil
	}
	h := &heads{r: r, parts: []piece{{0, head[:]}}}
	l, ok := layoutOf(head[:])
	if !ok || string(head[:4]) != elf.ELFMAG {
		return h, nil
	}
	if err := h.takePrograms(&l, head[:]); err != nil {
		return nil, err
	}
	return h, h.takeSections(&l, head[:])
}

// takePrograms reads the program headers.
func (h *heads) takePrograms(l *layout, head []byte) error {
	number, size := uint64(l.order.Uint16(head[l.programs:])), uint64(l.order.Uint16(head[l.programSizeAt:]))
	switch {
	case number == 0:
		return nil
	case size != uint64(l.programSize):
		return fmt.Errorf("program headers of %d bytes rather than %d", size, l.programSize)
	case number*size > maxPrograms:
		return fmt.Errorf("program headers take %d bytes, the most are %d", number*size, maxPrograms)
	}
	_, err := h.take(l.word(head, l.programsAt), number*size)
	return err
}

// takeSections reads the headers of sections, and their names.
func (h *heads) takeSections(l *layout, head []byte) error {
	table := l.word(head, l.tableAt)
	number, names := uint64(l.order.Uint16(head[l.number:])), uint64(l.order.Uint16(head[l.names:]))
	if table == 0 {
		return nil // debug/elf reads none
	}
	if number == 0 { // more than fit, then the first section says how many
		first, err := h.take(table, uint64(l.size))
		if err != nil {
			return err
		}
		if number = l.word(first, l.lengthAt); names == noSuchNumber {
			names = uint64(l.order.Uint32(first[l.infos:]))
		}
	}
	size := l.order.Uint16(head[l.entrySize:])
	switch {
	case number == 0:
		return nil
	case number > maxSections:
		return fmt.Errorf("%d sections, the most are %d", number, maxSections)
	case int(size) != l.size:
		return fmt.Errorf("headers of sections have %d bytes rather than %d", size, l.size)
	case names >= number:
		return fmt.Errorf("section %d has the names of sections, and there are %d", names, number)
	}
	headers, err := h.take(table, number*uint64(l.size))
	if err != nil || names == 0 {
		return err
	}
	return h.takeNames(l, headers, headers[int(names)*l.size:])
}

// takeNames reads the section that has the names of all, and adds up what they take.
func (h *heads) takeNames(l *layout, headers, names []byte) error {
	size, off := l.word(names, l.lengthAt), l.word(names, l.offAt)
	if elf.SectionFlag(l.word(names, l.flagsAt))&elf.SHF_COMPRESSED != 0 || size > maxNames {
		return fmt.Errorf("names of sections of %d bytes or compressed, the most are %d", size, maxNames)
	}
	text, err := h.take(off, size)
	if err != nil {
		return err
	}
	total := 0
	for ; len(headers) > 0; headers = headers[l.size:] {
		at := uint64(l.order.Uint32(headers[l.nameAt:]))
		if at >= size {
			continue
		}
		name := text[at:min(size, at+maxName)]
		n := bytes.IndexByte(name, 0)
		if n < 0 {
			return fmt.Errorf("the name of a section is longer than %d bytes", maxName)
		}
		if total += n; total > maxAllNames {
			return fmt.Errorf("names of sections take more than %d bytes", maxAllNames)
		}
	}
	return nil
}
