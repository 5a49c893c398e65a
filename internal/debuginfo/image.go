// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// sections are parts of the mapped file, or copies if they had to be decompressed or
// relocated.
type sections struct {
	info, abbrev, line, aranges, str, lineStr []byte
	rnglists, ranges, addr, strOffsets        []byte
	loclists, loc, frame                      []byte
	relocatable                               bool // 0 is a valid address
	// sup is the supplementary file. Its own offsets have the bias.
	sup  *sections
	bias uint64
	// halves finds .dwo files, if there can be any.
	halves *halves
}

// slots maps names of sections to the fields for them.
func (s *sections) slots() map[string]*[]byte {
	return map[string]*[]byte{
		".debug_info": &s.info, ".debug_abbrev": &s.abbrev, ".debug_line": &s.line,
		".debug_aranges": &s.aranges, ".debug_str": &s.str, ".debug_line_str": &s.lineStr,
		".debug_rnglists": &s.rnglists, ".debug_ranges": &s.ranges, ".debug_addr": &s.addr,
		".debug_str_offsets": &s.strOffsets,
	}
}

// late is slots for sections that are rarely needed, and may need decompression too.
func (s *sections) late() map[string]*[]byte {
	return map[string]*[]byte{".debug_loclists": &s.loclists, ".debug_loc": &s.loc, ".debug_frame": &s.frame}
}

// mapFile maps a file into memory without reading it.
func mapFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // opening a pipe would block
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() == 0 {
		return nil, errors.New("no regular file with contents")
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map: %w", err)
	}
	// By default, the kernel reads 15 pages around each touched page.
	if err := unix.Madvise(data, unix.MADV_RANDOM); err != nil {
		return nil, errors.Join(fmt.Errorf("madvise: %w", err), unix.Munmap(data))
	}
	return data, nil
}

// touch maps all pages of a part that will be read from start to end. This costs a tenth of
// the page faults that it saves. It is only a hint.
func touch(data, part []byte) {
	const few, most = 1 << 16, 1 << 30
	off := cap(data) - cap(part)
	if len(part) < few || len(part) > most || off < 0 || off+len(part) > len(data) || &data[off] != &part[0] {
		return // it was decompressed, so it is not part of the file
	}
	const page = 4096
	pages := data[off&^(page-1) : off+len(part)]
	_ = unix.Madvise(pages, unix.MADV_WILLNEED)
	_ = unix.Madvise(pages, unix.MADV_POPULATE_READ)
}

// readSections finds the sections with debug info in an ELF file.
func readSections(data []byte, f *elf.File) (*sections, error) {
	if f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB {
		return nil, fmt.Errorf("neither 64 bits nor little-endian: %v, %v", f.Class, f.Data)
	}
	s := &sections{relocatable: f.Type == elf.ET_REL}
	if err := fill(s.slots(), data, f); err != nil {
		return nil, err
	}
	return s, nil
}

// empty reports whether there is no debug info at all.
func (s *sections) empty() bool { return len(s.info) == 0 || len(s.abbrev) == 0 }

// fill finds the sections for some slots.
func fill(slots map[string]*[]byte, data []byte, f *elf.File) error {
	for _, sec := range f.Sections {
		slot, ok := slots[sec.Name]
		if !ok || sec.Type == elf.SHT_NOBITS {
			continue
		}
		b, err := contents(data, sec)
		if err != nil {
			return fmt.Errorf("section %s: %w", sec.Name, err)
		}
		*slot = b
	}
	return nil
}

// contents returns a section, decompressed if necessary.
func contents(data []byte, s *elf.Section) ([]byte, error) {
	if s.Offset > uint64(len(data)) || s.FileSize > uint64(len(data))-s.Offset {
		return nil, errors.New("beyond the end of the file")
	}
	if s.Flags&elf.SHF_COMPRESSED == 0 {
		return data[s.Offset : s.Offset+s.FileSize], nil
	}
	// The file claims this size. zlib reaches a ratio of 1,032 at best. zstd can do better,
	// but not on debug info. Memory is only allocated for what really comes out.
	if most := min(1<<31, 1032*s.FileSize); s.Size > most {
		return nil, fmt.Errorf("%d bytes when decompressed", s.Size)
	}
	likely := int(min(s.Size, 8*s.FileSize))
	header := cursor{b: data[s.Offset : s.Offset+s.FileSize]}
	if kind := elf.CompressionType(header.u32()); kind == elf.COMPRESS_ZSTD {
		header.skip(compressedHeader - 4)
		return decompressZstd(header.b[header.pos:], likely, s.Size)
	}
	var b bytes.Buffer
	b.Grow(likely)
	if _, err := io.Copy(&b, io.LimitReader(s.Open(), int64(s.Size))); err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return b.Bytes(), nil
}

// compressedHeader is the size of an Elf64_Chdr, in bytes.
const compressedHeader = 24

// decompressZstd does the same as debug/elf, four times as fast.
func decompressZstd(b []byte, likely int, most uint64) ([]byte, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(max(most, 1<<10)))
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	defer d.Close()
	out, err := d.DecodeAll(b, make([]byte, 0, likely))
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return out, nil
}

// relocate applies the relocations of an object file or a kernel module to the sections of
// some slots.
func relocate(slots map[string]*[]byte, data []byte, f *elf.File, bases []uint64) error {
	for _, rel := range f.Sections {
		if rel.Type != elf.SHT_RELA && rel.Type != elf.SHT_REL || int(rel.Info) >= len(f.Sections) {
			continue
		}
		target := f.Sections[rel.Info]
		slot, ok := slots[target.Name]
		if !ok || target.Type == elf.SHT_NOBITS || !strings.HasPrefix(target.Name, ".debug_") {
			continue
		}
		if rel.Type == elf.SHT_REL || int(rel.Link) >= len(f.Sections) {
			return fmt.Errorf("section %s: relocations without addends or symbols", rel.Name)
		}
		entries, err := contents(data, rel)
		if err != nil {
			return fmt.Errorf("section %s: %w", rel.Name, err)
		}
		symbols, err := contents(data, f.Sections[rel.Link])
		if err != nil {
			return fmt.Errorf("section %s: %w", f.Sections[rel.Link].Name, err)
		}
		if target.Flags&elf.SHF_COMPRESSED == 0 {
			*slot = bytes.Clone(*slot)
		}
		r := relocator{f: f, symbols: symbols, bases: bases}
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
)

// apply applies the relocations in entries to b. An unknown kind is an error, since a wrong
// address is worse than none.
func (r *relocator) apply(b, entries []byte) error {
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
