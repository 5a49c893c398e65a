// SPDX-License-Identifier: Apache-2.0

package elfhead

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// maxDynamic is the size of the largest dynamic section, in bytes. Linkers write one of some hundred.
const maxDynamic = 1 << 24

// ErrLimit says that a file is not read since it claims more than is read of any.
var ErrLimit = errors.New("more than is read of any file")

// checkTables returns an error for tables that debug/elf would decompress: no linker writes such, and the
// size in the header of a section called .zdebug_something is not the one that it is read with.
func checkTables(f *elf.File) error {
	for _, s := range f.Sections {
		tables := []*elf.Section{s}
		switch s.Type {
		case elf.SHT_SYMTAB, elf.SHT_DYNSYM, elf.SHT_DYNAMIC, elf.SHT_GNU_VERDEF, elf.SHT_GNU_VERNEED, elf.SHT_GNU_VERSYM:
			if int(s.Link) < len(f.Sections) { // the names
				tables = append(tables, f.Sections[s.Link])
			}
		case elf.SHT_STRTAB, elf.SHT_RELA, elf.SHT_REL:
		default:
			continue
		}
		for _, t := range tables {
			if t.Flags&elf.SHF_COMPRESSED != 0 || strings.HasPrefix(t.Name, ".zdebug") {
				return fmt.Errorf("section %q is a table and compressed", t.Name)
			}
		}
		if s.Type == elf.SHT_DYNAMIC && s.Size > maxDynamic {
			return fmt.Errorf("section %q: %d bytes: %w", s.Name, s.Size, ErrLimit)
		}
	}
	return nil
}

// Symbols returns the symbols of the first table of a kind, SHT_SYMTAB or SHT_DYNSYM, as debug/elf does. The
// table, its names in one piece, and the names of all symbols take up to most bytes each, or the error is an
// [ErrLimit]: all names can be the end of one long one, which debug/elf copies for each.
func Symbols(f *elf.File, kind elf.SectionType, most uint64) ([]elf.Symbol, error) {
	table := f.SectionByType(kind)
	if table == nil || int(table.Link) >= len(f.Sections) {
		return nil, elf.ErrNoSymbols
	}
	n := names{left: most}
	for _, s := range []*elf.Section{table, f.Sections[table.Link]} {
		if s.Size > most {
			return nil, fmt.Errorf("symbols or their names of %d bytes: %w", s.Size, ErrLimit)
		}
	}
	symbols, err := table.Data()
	if err != nil {
		return nil, err
	}
	if n.text, err = f.Sections[table.Link].Data(); err != nil {
		return nil, err
	}
	size := elf.Sym64Size
	if f.Class == elf.ELFCLASS32 {
		size = elf.Sym32Size
	}
	for ; len(symbols) >= size; symbols = symbols[size:] {
		n.take(f.ByteOrder.Uint32(symbols))
	}
	if kind == elf.SHT_DYNSYM {
		if err := n.takeVersions(f, most); err != nil {
			return nil, err
		}
	}
	if n.over {
		return nil, fmt.Errorf("names of symbols of more than %d bytes: %w", most, ErrLimit)
	}
	if kind == elf.SHT_DYNSYM {
		return f.DynamicSymbols()
	}
	return f.Symbols()
}

// names adds up what names take.
type names struct {
	text []byte
	left uint64
	over bool // they take too much
}

// take adds the name at an offset. debug/elf also looks for the end of one that has none.
func (n *names) take(off uint32) {
	if n.over || uint64(off) >= uint64(len(n.text)) {
		return
	}
	rest := n.text[off:]
	size := bytes.IndexByte(rest[:min(uint64(len(rest)), n.left)], 0)
	if size < 0 {
		size = len(rest)
	}
	if n.over = uint64(size) > n.left; !n.over {
		n.left -= uint64(size)
	}
}

// A versionTable says where the fields of a table of versions are: of its entries, and of the lists that these lead to.
type versionTable struct {
	kind                                elf.SectionType
	size, count, file, list, next       int // file is 0 if there is none
	itemSize, itemName, itemNext, least int // least is the size of the smallest part of the table
}

// versionTables are those that debug/elf reads with the dynamic symbols. It is never changed.
var versionTables = []versionTable{
	{elf.SHT_GNU_VERDEF, 20, 6, 0, 12, 16, 8, 0, 4, 8},
	{elf.SHT_GNU_VERNEED, 16, 2, 4, 8, 12, 16, 8, 12, 16},
}

// takeVersions adds the names of versions. The lists of entries may be parts of each other, and debug/elf makes
// one of each.
func (n *names) takeVersions(f *elf.File, most uint64) error {
	if s := f.SectionByType(elf.SHT_GNU_VERSYM); s != nil && s.Size > most {
		return fmt.Errorf("versions of %d bytes: %w", s.Size, ErrLimit)
	}
	for _, t := range versionTables {
		s := f.SectionByType(t.kind)
		if s == nil {
			continue
		}
		if s.Size > most {
			return fmt.Errorf("versions of %d bytes: %w", s.Size, ErrLimit)
		}
		b, err := s.Data()
		if err == nil && !t.take(n, b, f.ByteOrder) {
			return fmt.Errorf("versions that are parts of each other: %w", ErrLimit)
		}
	}
	return nil
}

// take reports whether a table has no more entries and items than fit into it.
func (t *versionTable) take(n *names, b []byte, order binary.ByteOrder) bool {
	left := len(b) / t.least
	for at := 0; at+t.size <= len(b); {
		e := b[at:]
		if t.file > 0 {
			n.take(order.Uint32(e[t.file:]))
		}
		item := at + int(order.Uint32(e[t.list:]))
		for range order.Uint16(e[t.count:]) {
			if left--; left < 0 || n.over {
				return false
			}
			if item+t.itemSize > len(b) {
				break
			}
			n.take(order.Uint32(b[item+t.itemName:]))
			item += int(order.Uint32(b[item+t.itemNext:]))
		}
		next := int(order.Uint32(e[t.next:]))
		if left--; next == 0 {
			return true
		}
		if at += next; left < 0 {
			return false
		}
	}
	return true
}
