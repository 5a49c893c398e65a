// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"strings"

	"github.com/ksnoop/ksnoop/internal/elfhead"
)

// relocate applies the relocations of an object file or a kernel module to the sections of
// some slots.
func (f *elfFile) relocate(slots map[string]*[]byte, bases []uint64) error {
	done := map[*elf.Section]bool{}
	for _, rel := range f.Sections {
		if rel.Type != elf.SHT_RELA && rel.Type != elf.SHT_REL || int(rel.Info) >= len(f.Sections) {
			continue
		}
		target := f.Sections[rel.Info]
		name := elfhead.DebugName(target)
		slot, ok := slots[name]
		if !ok || f.filled[name] != target || !strings.HasPrefix(name, ".debug_") {
			continue
		}
		if rel.Type == elf.SHT_REL || int(rel.Link) >= len(f.Sections) {
			return fmt.Errorf("section %s: relocations without addends or symbols", rel.Name)
		}
		if done[target] {
			return fmt.Errorf("section %s: relocated by several others", target.Name)
		}
		done[target] = true
		entries, err := f.contents(rel)
		if err != nil {
			return fmt.Errorf("section %s: %w", rel.Name, err)
		}
		symbols, err := f.contents(f.Sections[rel.Link])
		if err != nil {
			return fmt.Errorf("section %s: %w", f.Sections[rel.Link].Name, err)
		}
		if !isCompressed(target) {
			if err := f.room.take(uint64(len(*slot))); err != nil {
				return fmt.Errorf("section %s: %w", target.Name, err)
			}
			*slot = bytes.Clone(*slot)
		}
		r := relocator{f: f.File, symbols: symbols, bases: bases}
		if err := r.apply(*slot, entries); err != nil {
			return fmt.Errorf("section %s: %w", rel.Name, err)
		}
	}
	return nil
}

// A relocator resolves the symbols of relocations.
type relocator struct {
	f       *elf.File
	symbols []byte
	bases   []uint64
}

const (
	relaSize   = 24 // Elf64_Rela: offset, type and symbol, addend
	symbolSize = 24 // Elf64_Sym: name, info, other, section; value, size

	minRelocated = 4 // bytes that a relocation sets at least
)

// apply applies the relocations in entries to b. An unknown kind is an error, since a wrong
// address is worse than none.
func (r *relocator) apply(b, entries []byte) error {
	if len(entries)/relaSize > len(b)/minRelocated {
		return errors.New("more relocations than there is room for")
	}
	c := cursor{b: entries}
	for len(entries)-c.pos >= relaSize {
		off, info, addend := c.u64(), c.u64(), c.u64()
		width, ok := relocationWidth(r.f.Machine, uint32(info))
		if !ok {
			return fmt.Errorf("relocation %d of %v is not known", uint32(info), r.f.Machine)
		}
		if width == 0 {
			continue
		}
		v, ok := r.symbol(info >> 32)
		if !ok {
			return fmt.Errorf("relocation by symbol %d, which is in no section that can be found", info>>32)
		}
		v += addend
		if off > uint64(len(b)) || uint64(len(b))-off < uint64(width) {
			return errors.New("relocation beyond the end")
		}
		for i := range width {
			b[off+uint64(i)] = byte(v >> (8 * i))
		}
	}
	return nil
}

// symbol returns the address of symbol i. ok is false if it is not in a loaded section.
func (r *relocator) symbol(i uint64) (uint64, bool) {
	if i >= uint64(len(r.symbols)/symbolSize) {
		return 0, false
	}
	c := at(r.symbols, i*symbolSize+6)
	section, value := elf.SectionIndex(c.u16()), c.u64()
	if section == elf.SHN_XINDEX {
		return 0, false // with more than 65,279 sections, the number is elsewhere
	}
	if int(section) < len(r.bases) {
		value += r.bases[section]
	}
	return value, true
}

// relocationWidth returns how many bytes an absolute relocation sets; 0 for a thread-local
// variable, which says nothing about code. ok is false for kinds that are not known.
func relocationWidth(m elf.Machine, kind uint32) (width int, ok bool) {
	switch m {
	case elf.EM_X86_64:
		switch elf.R_X86_64(kind) {
		case elf.R_X86_64_64:
			return 8, true
		case elf.R_X86_64_32, elf.R_X86_64_32S:
			return 4, true
		case elf.R_X86_64_NONE, elf.R_X86_64_DTPOFF32, elf.R_X86_64_DTPOFF64:
			return 0, true
		}
	case elf.EM_AARCH64:
		switch elf.R_AARCH64(kind) {
		case elf.R_AARCH64_ABS64:
			return 8, true
		case elf.R_AARCH64_ABS32:
			return 4, true
		case elf.R_AARCH64_NONE, elf.R_AARCH64_NULL, elf.R_AARCH64_TLS_DTPREL64:
			return 0, true
		}
	}
	return 0, false
}
