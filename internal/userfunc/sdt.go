// SPDX-License-Identifier: Apache-2.0

package userfunc

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/internal/elfhead"
)

// A Mark is a static probe of a program (USDT): a place that its source marks with a name, as an ELF
// note describes it (sys/sdt.h). A name may be at several places.
type Mark struct {
	Provider, Name string
	Place          uint64 // of the instruction, in the file
	// Semaphore is where in the file the number of tracers is, which the program looks at before it
	// takes the trouble to compute arguments. 0: there is none.
	Semaphore uint64
	Args      []Arg
	// Text are the arguments as the note has them.
	Text string
}

// Limits on notes.
const (
	mostNotes   = 64 << 20 // bytes of all
	mostArgs    = 12       // of one mark (STAP_PROBE12)
	mostArgText = 1 << 10
)

// noteStapsdt is the type of a note of version 3, NT_STAPSDT.
const noteStapsdt = 3

var errNoMarks = errors.New("the file has no USDT probes")

// Marks returns the static probes of a file, in order of their names and places.
func (f *File) Marks() ([]Mark, error) {
	r, err := f.Identity.Reopen(f.Path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	e, err := elfhead.Open(r)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	notes := e.Section(".note.stapsdt")
	if notes == nil {
		return nil, errNoMarks
	}
	if notes.Size > mostNotes {
		return nil, fmt.Errorf("its notes take %d bytes, and the most are %d", notes.Size, mostNotes)
	}
	data, err := notes.Data()
	if err != nil {
		return nil, fmt.Errorf("its notes: %w", err)
	}
	base := uint64(0) // where the section is that tells by how much the file was moved since
	if s := e.Section(".stapsdt.base"); s != nil {
		base = s.Addr
	}
	var marks []Mark
	for len(data) > 0 {
		kind, name, desc, rest, ok := nextNote(data, e.ByteOrder)
		if !ok {
			return nil, errors.New("its notes are damaged")
		}
		data = rest
		if kind != noteStapsdt || name != "stapsdt" {
			continue
		}
		m, ok := f.mark(e, desc, base)
		if !ok {
			return nil, errors.New("its notes are damaged")
		}
		marks = append(marks, m)
	}
	slices.SortStableFunc(marks, func(a, b Mark) int {
		return cmp.Or(strings.Compare(a.Provider, b.Provider), strings.Compare(a.Name, b.Name), cmp.Compare(a.Place, b.Place))
	})
	return marks, nil
}

// nextNote splits the first note off.
func nextNote(data []byte, order binary.ByteOrder) (kind uint32, name string, desc, rest []byte, ok bool) {
	if len(data) < 12 {
		return 0, "", nil, nil, false
	}
	size := func(at int) uint64 { return (uint64(order.Uint32(data[at:])) + 3) &^ 3 }
	names, descs := size(0), size(4)
	if uint64(len(data)-12) < names+descs {
		return 0, "", nil, nil, false
	}
	kind = order.Uint32(data[8:])
	name = string(bytes.TrimRight(data[12:12+names], "\x00"))
	return kind, name, data[12+names : 12+names+descs], data[12+names+descs:], true
}

// mark decodes a note: three addresses and three strings.
func (f *File) mark(e *elf.File, desc []byte, base uint64) (m Mark, ok bool) {
	if len(desc) < 24+3 {
		return m, false
	}
	addr, was, semaphore := e.ByteOrder.Uint64(desc), e.ByteOrder.Uint64(desc[8:]), e.ByteOrder.Uint64(desc[16:])
	moved := uint64(0)
	if base != 0 && was != 0 {
		moved = base - was
	}
	if m.Place, ok = f.offset(addr + moved); !ok {
		return m, false
	}
	if semaphore != 0 {
		if m.Semaphore, ok = dataOffset(e, semaphore+moved); !ok {
			return m, false
		}
	}
	parts := bytes.SplitN(desc[24:], []byte{0}, 4)
	if len(parts) < 4 || len(parts[2]) > mostArgText {
		return m, false
	}
	m.Provider, m.Name, m.Text = string(parts[0]), string(parts[1]), string(parts[2])
	m.Args = parseArgs(m.Text, f.arch)
	return m, len(m.Args) <= mostArgs
}

// dataOffset returns where in the file the byte at a linked address is.
func dataOffset(e *elf.File, addr uint64) (uint64, bool) {
	for _, p := range e.Progs {
		if p.Type == elf.PT_LOAD && addr >= p.Vaddr && addr-p.Vaddr < p.Filesz {
			return addr - p.Vaddr + p.Off, true
		}
	}
	return 0, false
}
