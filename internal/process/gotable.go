// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
)

// Magic numbers of Go's function table. The package debug/gosym could read it, but reads
// all of it and allocates what the table claims.
const (
	goTable12  = 0xfffffffb
	goTable116 = 0xfffffffa
	goTable118 = 0xfffffff0
	goTable120 = 0xfffffff1
)

// A goTable says where the parts of Go's function table are.
type goTable struct {
	magic uint32
	order binary.ByteOrder
	ptr   int    // size of a pointer
	count uint64 // number of functions
	text  uint64 // address that table entries count from; 0 if they are absolute
	field int    // size of numbers in index
	// Offsets in the table. index has, for each function, an address and an offset from
	// entries. There are its address and the offset of its name from names.
	index, entries, names uint64
	values                uint64 // of the tables of values by address; from Go 1.18 on
}

// A nameless is a function whose name has not been read yet.
type nameless struct {
	addr, end uint64
	name      uint32 // offset of the name
}

// goSection returns the section with Go's table; nil if there is none. Up to Go 1.25 it has another name in PIE.
func goSection(f *elf.File) *elf.Section {
	return cmp.Or(f.Section(".gopclntab"), f.Section(".data.rel.ro.gopclntab"))
}

// addGo adds the functions of Go's table.
func (m *parsed) addGo(r io.ReaderAt, f *elf.File) error {
	s := goSection(f)
	if s == nil || s.Flags&elf.SHF_COMPRESSED != 0 {
		return nil
	}
	w := newWindow(r, s)
	t, ok := readGoTable(r, f, s.Addr, w)
	if !ok {
		return nil
	}
	if t.count > mostFunctions {
		return fmt.Errorf("%s: %d functions, the most are %d", s.Name, t.count, mostFunctions)
	}
	entries := newWindow(r, s)
	var found []nameless
	for i := range t.count {
		pair := w.at(t.index+2*uint64(t.field)*i, 3*t.field) // and the next address, where the function ends
		if pair == nil {
			break
		}
		lo, entry, hi := t.number(pair), t.number(pair[t.field:]), t.number(pair[2*t.field:])
		start := t.field
		if t.text == 0 {
			start = t.ptr
		}
		b := entries.at(t.entries+entry+uint64(start), 4)
		if b == nil {
			continue
		}
		found = append(found, nameless{t.text + lo, t.text + hi, uint32(t.names) + t.order.Uint32(b)})
	}
	var err error
	m.funcs, err = m.addNamed(m.funcs, 0, newWindow(r, s), found)
	return err
}

// number reads a number of the index.
func (t *goTable) number(b []byte) uint64 {
	if t.field == 8 {
		return t.order.Uint64(b)
	}
	return uint64(t.order.Uint32(b))
}

// readGoTable reads the table's header at an address.
func readGoTable(r io.ReaderAt, f *elf.File, addr uint64, w *window) (t goTable, ok bool) {
	const words = 8
	head := w.at(0, 8)
	if head == nil {
		return t, false
	}
	t.order, t.ptr = f.ByteOrder, int(head[7])
	if t.ptr != 4 && t.ptr != 8 {
		return t, false
	}
	t.magic = t.order.Uint32(head)
	if head = w.at(8, words*t.ptr); head == nil {
		return t, false
	}
	word := func(n int) uint64 {
		b := head[n*t.ptr:]
		if t.ptr == 8 {
			return t.order.Uint64(b)
		}
		return uint64(t.order.Uint32(b))
	}
	t.count, t.field = word(0), t.ptr
	switch t.magic {
	case goTable12:
		t.index = uint64(8 + t.ptr)
	case goTable116:
		t.names, t.index, t.entries = word(2), word(6), word(6)
	case goTable118, goTable120:
		t.field = 4
		t.names, t.values, t.index, t.entries = word(3), word(6), word(7), word(7)
		t.text, ok = goText(r, f, addr, word(2))
		return t, ok
	default:
		return t, false
	}
	return t, true
}

// goText returns the address that Go's table counts from. This is not the start of .text if
// a C linker has put other code there. Go 1.18 to 1.25 store it in the table (struct
// pcHeader in package runtime); Go 1.26 stores it only in struct moduledata, which has a
// section of its own.
func goText(r io.ReaderAt, f *elf.File, table, start uint64) (addr uint64, ok bool) {
	const moduleText = 176 // offset in struct moduledata, which starts with the table's address
	text := f.Section(".text")
	if text == nil || f.Class != elf.ELFCLASS64 {
		return 0, false
	}
	if start != 0 && start-text.Addr < text.Size {
		return start, true
	}
	if module := f.Section(".go.module"); module != nil {
		w := newWindow(r, module)
		if b := w.at(0, moduleText+8); b != nil && f.ByteOrder.Uint64(b) == table {
			addr = f.ByteOrder.Uint64(b[moduleText:])
			return addr, addr-text.Addr < text.Size
		}
	}
	return text.Addr, f.Section(".init") == nil // a section that C linkers make
}
