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

// readImage reads the symbols of an ELF file. One without any, such as a Go
// program that was stripped, may still have what Go itself needs at run time.
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
	if len(m.funcs) == 0 {
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
	table, text := f.Section(".gopclntab"), f.Section(".text")
	if table == nil || text == nil {
		return
	}
	data, err := table.Data()
	if err != nil {
		return
	}
	t, err := gosym.NewTable(nil, gosym.NewLineTable(data, text.Addr))
	if err != nil {
		return
	}
	for _, fn := range t.Funcs {
		m.funcs = append(m.funcs, function{fn.Entry, fn.End, fn.Name})
	}
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
