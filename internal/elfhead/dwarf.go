// SPDX-License-Identifier: Apache-2.0

package elfhead

import (
	"bytes"
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// MostRatio is how many times as large as it is in the file debug info may be in memory. Compressors reach 3 to 8.
const MostRatio = 64

// maxDebugSections is how many sections of debug info a program may have; it has 20.
const maxDebugSections = 1 << 10

// DWARF reads the debug info of a program or library as debug/elf does, without relocations: what a linker leaves of them
// (--emit-relocs) is applied already, and debug/elf reads all symbols for each section of them. The debug info takes up to
// most bytes, decompressed, or the error is an [ErrLimit].
func DWARF(f *elf.File, most uint64) (*dwarf.Data, error) {
	var debug []*elf.Section
	sum := uint64(0)
	for _, s := range f.Sections {
		if isDebug(s) {
			debug = append(debug, s)
			sum = add(sum, sizeOf(s))
		}
	}
	switch {
	case len(debug) > maxDebugSections:
		return nil, fmt.Errorf("its debug info is in %d sections: %w", len(debug), ErrLimit)
	case sum > most:
		return nil, fmt.Errorf("its debug info is larger than %d MiB: %w", most>>20, ErrLimit)
	case sum/MostRatio > bytesOf(slices.Clone(debug)):
		return nil, fmt.Errorf("its debug info is more than %d times as large as in the file: %w", MostRatio, ErrLimit)
	}
	return read(debug)
}

// read reads sections of debug info. Of those with the same name the last counts. Types in .debug_types are left out: package
// dw refuses what leads to them.
func read(debug []*elf.Section) (*dwarf.Data, error) {
	contents := map[string][]byte{}
	for _, s := range debug {
		b, err := s.Data()
		if err != nil && uint64(len(b)) < s.Size {
			return nil, err
		}
		_, name, _ := strings.Cut(s.Name, "debug_")
		contents[name] = b
	}
	info, abbreviations := contents["info"], contents["abbrev"]
	if err := checkUnits(info, abbreviations); err != nil {
		return nil, err
	}
	if err := checkTexts(contents["str"]); err != nil {
		return nil, err
	}
	if err := checkTexts(contents["line_str"]); err != nil {
		return nil, err
	}
	d, err := dwarf.New(abbreviations, nil, nil, info, contents["line"], nil, contents["ranges"], contents["str"])
	if err != nil {
		return nil, err
	}
	for name, b := range contents {
		if err := d.AddSection(".debug_"+name, b); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// mostText is the size of the longest text of debug info that others can refer to. debug/dwarf copies it for each
// attribute that does.
const mostText = 1 << 20

// checkTexts returns an error if one of the texts of a section is too long.
func checkTexts(section []byte) error {
	for len(section) > mostText {
		end := bytes.LastIndexByte(section[:mostText+1], 0)
		if end < 0 {
			return fmt.Errorf("its debug info has a text of more than %d MiB: %w", mostText>>20, ErrLimit)
		}
		section = section[end+1:]
	}
	return nil
}

func isDebug(s *elf.Section) bool {
	return strings.HasPrefix(DebugName(s), ".debug_")
}

// DebugName returns the name of a section, without the z that GNU's old way of compressing puts into those of debug info:
// .debug_info for .zdebug_info.
func DebugName(s *elf.Section) string {
	if rest, ok := strings.CutPrefix(s.Name, ".zdebug_"); ok {
		return ".debug_" + rest
	}
	return s.Name
}

// DebugInfo returns the section .debug_info, whatever it is called, or nil.
func DebugInfo(f *elf.File) *elf.Section {
	for _, s := range f.Sections {
		if DebugName(s) == ".debug_info" {
			return s
		}
	}
	return nil
}

// sizeOf returns the size of a section when it is decompressed. GNU's old way of compressing has it in front
// of the contents.
func sizeOf(s *elf.Section) uint64 {
	var head [12]byte
	if s.Flags&elf.SHF_COMPRESSED == 0 && strings.HasPrefix(s.Name, ".zdebug") && s.Type != elf.SHT_NOBITS {
		if n, _ := s.ReadAt(head[:], 0); n == len(head) && string(head[:4]) == "ZLIB" {
			return binary.BigEndian.Uint64(head[4:])
		}
	}
	return s.Size
}

// bytesOf returns how many bytes of the file sections take, which may have some in common.
func bytesOf(sections []*elf.Section) (n uint64) {
	slices.SortFunc(sections, func(a, b *elf.Section) int { return cmp.Compare(a.Offset, b.Offset) })
	end := uint64(0)
	for _, s := range sections {
		if s.Type == elf.SHT_NOBITS {
			continue
		}
		to := add(s.Offset, s.FileSize)
		if to > end {
			n += to - max(end, s.Offset)
			end = to
		}
	}
	return n
}

// add adds without overflow.
func add(a, b uint64) uint64 {
	if a+b < a {
		return 1<<64 - 1
	}
	return a + b
}
