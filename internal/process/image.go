// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"debug/elf"
	"debug/gosym"
	"errors"
	"io"
	"slices"
)

// An image is the functions of an ELF file.
type image struct {
	loads []elf.ProgHeader
	funcs []function // sorted
}

type function struct {
	addr, end uint64 // as the file was linked
	name      string
}

// readImage reads the symbols of an ELF file. One that was stripped still has
// those that other files are linked with, and a Go program what Go itself needs
// at run time.
func readImage(r io.ReaderAt) (*image, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	m := &image{}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			m.loads = append(m.loads, p.ProgHeader)
		}
	}
	for _, read := range []func() ([]elf.Symbol, error){f.Symbols, f.DynamicSymbols} {
		symbols, err := read()
		if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
			return nil, err
		}
		m.add(symbols)
	}
	if f.Section(".symtab") == nil {
		m.addGo(f)
	}
	m.sort()
	return m, nil
}

func (m *image) add(symbols []elf.Symbol) {
	for _, s := range symbols {
		switch elf.ST_TYPE(s.Info) {
		case elf.STT_FUNC, elf.STT_GNU_IFUNC:
			if s.Section != elf.SHN_UNDEF && s.Value != 0 {
				m.funcs = append(m.funcs, function{s.Value, s.Value + s.Size, s.Name})
			}
		}
	}
}

// addGo adds the functions of Go's own table.
func (m *image) addGo(f *elf.File) {
	table := f.Section(".gopclntab")
	if table == nil {
		return
	}
	data, err := table.Data()
	if err != nil {
		return
	}
	text, ok := goText(f, table.Addr, data)
	if !ok {
		return
	}
	t, err := gosym.NewTable(nil, gosym.NewLineTable(data, text))
	if err != nil {
		return
	}
	for _, fn := range t.Funcs {
		m.funcs = append(m.funcs, function{fn.Entry, fn.End, fn.Name})
	}
}

// goText returns where Go's code begins, from which its table counts. That is
// not the beginning of .text where a C linker has put other code there. From Go
// 1.18 to 1.25 the table says it (struct pcHeader of package runtime), from 1.26
// only struct moduledata, which has a section of its own.
func goText(f *elf.File, table uint64, data []byte) (addr uint64, ok bool) {
	const (
		textStart  = 24  // in struct pcHeader
		moduleText = 176 // in struct moduledata, which begins with the address of the table
	)
	text := f.Section(".text")
	if text == nil || f.Class != elf.ELFCLASS64 || len(data) < textStart+8 {
		return 0, false
	}
	if addr = f.ByteOrder.Uint64(data[textStart:]); addr != 0 && addr-text.Addr < text.Size {
		return addr, true
	}
	if module := f.Section(".go.module"); module != nil {
		if data, err := module.Data(); err == nil && len(data) >= moduleText+8 && f.ByteOrder.Uint64(data) == table {
			addr = f.ByteOrder.Uint64(data[moduleText:])
			return addr, addr-text.Addr < text.Size
		}
	}
	return text.Addr, f.Section(".init") == nil // which C linkers make
}

// sort sorts the functions, keeps one name of each address, and lets those of
// unknown size, which assembler code has, reach to the next one.
func (m *image) sort() {
	slices.SortStableFunc(m.funcs, func(a, b function) int { return cmp.Compare(a.addr, b.addr) })
	m.funcs = slices.CompactFunc(m.funcs, func(a, b function) bool { return a.addr == b.addr })
	for i := range m.funcs {
		if f := &m.funcs[i]; f.end == f.addr && i+1 < len(m.funcs) {
			f.end = m.funcs[i+1].addr
		}
	}
}

// address returns where the byte at an offset of the file was linked to.
func (m *image) address(offset uint64) (uint64, bool) {
	for _, p := range m.loads {
		if offset >= p.Off && offset-p.Off < p.Filesz {
			return offset - p.Off + p.Vaddr, true
		}
	}
	return 0, false
}

// find returns the function at an address, as the file was linked.
func (m *image) find(addr uint64) (*function, bool) {
	i, found := slices.BinarySearchFunc(m.funcs, addr, func(f function, a uint64) int { return cmp.Compare(f.addr, a) })
	if !found {
		i--
	}
	if i < 0 || addr >= m.funcs[i].end {
		return nil, false
	}
	return &m.funcs[i], true
}
