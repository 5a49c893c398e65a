// SPDX-License-Identifier: Apache-2.0

package elfhead

import (
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

// maxDebugSections is how many sections of debug info a program may have; it has 20. debug/elf goes through
// all sections for each of them.
const maxDebugSections = 1 << 10

// DWARF reads the debug info of a program or library as debug/elf does. It takes up to most bytes, decompressed,
// or the error is an [ErrLimit].
func DWARF(f *elf.File, most uint64) (*dwarf.Data, error) {
	debug := map[uint32]bool{}
	var packed []*elf.Section
	sum := uint64(0)
	for i, s := range f.Sections {
		if isDebug(s) {
			debug[uint32(i)] = true
			packed = append(packed, s)
			sum = add(sum, sizeOf(s))
		}
	}
	for _, s := range f.Sections {
		// debug/elf reads relocations and applies them. What a linker leaves in a program (--emit-relocs) is applied already.
		if f.Type != elf.ET_EXEC && (s.Type == elf.SHT_RELA || s.Type == elf.SHT_REL) && debug[s.Info] {
			packed = append(packed, s)
			sum = add(sum, s.Size)
		}
	}
	switch {
	case len(packed) > maxDebugSections:
		return nil, fmt.Errorf("its debug info is in %d sections: %w", len(packed), ErrLimit)
	case sum > most:
		return nil, fmt.Errorf("its debug info is larger than %d MiB: %w", most>>20, ErrLimit)
	case sum/MostRatio > bytesOf(packed):
		return nil, fmt.Errorf("its debug info is more than %d times as large as in the file: %w", MostRatio, ErrLimit)
	}
	return f.DWARF()
}

func isDebug(s *elf.Section) bool {
	return strings.HasPrefix(s.Name, ".debug_") || strings.HasPrefix(s.Name, ".zdebug_")
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
