// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// An object is a relocatable ELF file in the making.
type object struct {
	sections []*section
	symbols  []symbol
}

type section struct {
	name   string
	typ    elf.SectionType
	flags  elf.SectionFlag
	data   []byte
	relocs []reloc
}

type reloc struct {
	off    int
	typ    uint32
	symbol int
	addend int64
}

type symbol struct {
	name    string
	typ     elf.SymType
	section *section // nil: defined elsewhere
	value   int
	size    int
}

func (o *object) section(name string, flags elf.SectionFlag, data []byte) *section {
	s := &section{name: name, typ: elf.SHT_PROGBITS, flags: flags, data: data}
	o.sections = append(o.sections, s)
	return s
}

// symbol returns the new symbol's number; 0 is the empty one.
func (o *object) symbol(s symbol) int {
	o.symbols = append(o.symbols, s)
	return len(o.symbols)
}

// pointer makes the 8 bytes at off the address of a symbol plus addend.
func (s *section) pointer(off, symbol int, addend int64) {
	s.relocs = append(s.relocs, reloc{off, target.address, symbol, addend})
}

// A stringTable has offsets in place of strings.
type stringTable struct{ data []byte }

func (t *stringTable) add(s string) uint32 {
	if len(t.data) == 0 {
		t.data = []byte{0}
	}
	if s == "" {
		return 0
	}
	off := len(t.data)
	t.data = append(append(t.data, s...), 0)
	return uint32(off)
}

// bytes lays the file out: header, contents, section table.
func (o *object) bytes() []byte {
	var names, strings stringTable
	headers := []elf.Section64{{}}
	contents := [][]byte{nil}
	add := func(name string, h elf.Section64, data []byte) {
		h.Name, h.Size = names.add(name), uint64(len(data))
		headers, contents = append(headers, h), append(contents, data)
	}
	number := map[*section]uint16{}
	for i, s := range o.sections {
		number[s] = uint16(i + 1)
		add(s.name, elf.Section64{Type: uint32(s.typ), Flags: uint64(s.flags), Addralign: 32}, s.data)
	}
	symtab := len(o.sections) + 1
	add(".symtab", elf.Section64{Type: uint32(elf.SHT_SYMTAB), Link: uint32(symtab + 1), Info: 1, Addralign: 8, Entsize: elf.Sym64Size},
		o.symbolTable(&strings, number))
	add(".strtab", elf.Section64{Type: uint32(elf.SHT_STRTAB), Addralign: 1}, strings.data)
	for _, s := range o.sections {
		if len(s.relocs) > 0 {
			add(".rela"+s.name, elf.Section64{Type: uint32(elf.SHT_RELA), Flags: uint64(elf.SHF_INFO_LINK), Link: uint32(symtab),
				Info: uint32(number[s]), Addralign: 8, Entsize: 24}, s.relocations())
		}
	}
	shstrndx := len(headers)
	own := names.add(".shstrtab")
	headers = append(headers, elf.Section64{Name: own, Type: uint32(elf.SHT_STRTAB), Size: uint64(len(names.data)), Addralign: 1})
	contents = append(contents, names.data)

	le := binary.LittleEndian
	body := make([]byte, 64)
	for i := 1; i < len(headers); i++ {
		body = align(body, 32)
		headers[i].Off = uint64(len(body))
		body = append(body, contents[i]...)
	}
	body = align(body, 8)
	h := elf.Header64{Type: uint16(elf.ET_REL), Machine: uint16(target.elf), Version: 1, Shoff: uint64(len(body)),
		Ehsize: 64, Shentsize: 64, Shnum: uint16(len(headers)), Shstrndx: uint16(shstrndx)}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	for i := range headers {
		body, _ = binary.Append(body, le, &headers[i])
	}
	binary.Encode(body, le, &h)
	return body
}

func (o *object) symbolTable(strings *stringTable, number map[*section]uint16) []byte {
	table := make([]byte, elf.Sym64Size)
	for _, s := range o.symbols {
		table, _ = binary.Append(table, binary.LittleEndian, &elf.Sym64{
			Name: strings.add(s.name), Info: elf.ST_INFO(elf.STB_GLOBAL, s.typ),
			Shndx: number[s.section], Value: uint64(s.value), Size: uint64(s.size)})
	}
	return table
}

func (s *section) relocations() []byte {
	var table []byte
	for _, r := range s.relocs {
		table, _ = binary.Append(table, binary.LittleEndian, &elf.Rela64{
			Off: uint64(r.off), Info: elf.R_INFO(uint32(r.symbol), r.typ), Addend: r.addend})
	}
	return table
}

func align(b []byte, n int) []byte {
	return append(b, bytes.Repeat([]byte{0}, (n-len(b)%n)%n)...)
}
