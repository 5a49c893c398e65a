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
		return layout{l.order, true, 0x28, 0x3a, 0x3c, 0x3e, 64, 0, 4, 8, 24, 32, 40}, true
	case elf.ELFCLASS32:
		return layout{l.order, false, 0x20, 0x2e, 0x30, 0x32, 40, 0, 4, 8, 16, 20, 24}, true
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

// Open reads the headers of a file that may claim anything.
func Open(r io.ReaderAt) (*elf.File, error) {
	if err := check(r); err != nil {
		return nil, err
	}
	f, err := elf.NewFile(r)
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

// check returns an error for a file whose section headers claim more than any
// file has. What is wrong with it otherwise is for debug/elf to say.
func check(r io.ReaderAt) error {
	var head [headerSize]byte
	if n, _ := r.ReadAt(head[:], 0); n < 52 || string(head[:4]) != elf.ELFMAG {
		return nil
	}
	l, ok := layoutOf(head[:])
	if !ok {
		return nil
	}
	table := l.word(head[:], l.tableAt)
	number, names := uint64(l.order.Uint16(head[l.number:])), uint64(l.order.Uint16(head[l.names:]))
	if table == 0 || table > 1<<62 || int(l.order.Uint16(head[l.entrySize:])) != l.size {
		return nil
	}
	first := make([]byte, l.size)
	if _, err := r.ReadAt(first, int64(table)); err != nil {
		return nil
	}
	if number == 0 { // more than fit, then the first section says how many
		number = l.word(first, l.lengthAt)
	}
	if names == noSuchNumber {
		names = uint64(l.order.Uint32(first[l.infos:]))
	}
	if number > maxSections {
		return fmt.Errorf("%d sections, the most are %d", number, maxSections)
	}
	headers := make([]byte, int(number)*l.size)
	if _, err := r.ReadAt(headers, int64(table)); err != nil || names >= number {
		return nil
	}
	return l.checkNames(r, headers, headers[int(names)*l.size:])
}

// checkNames adds up what the names of all sections take.
func (l *layout) checkNames(r io.ReaderAt, headers, names []byte) error {
	size, off := l.word(names, l.lengthAt), l.word(names, l.offAt)
	if elf.SectionFlag(l.word(names, l.flagsAt))&elf.SHF_COMPRESSED != 0 || size > maxNames {
		return fmt.Errorf("names of sections of %d bytes or compressed, the most are %d", size, maxNames)
	}
	text := make([]byte, size)
	if n, _ := r.ReadAt(text, int64(off&(1<<63-1))); n < len(text) {
		return nil
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
