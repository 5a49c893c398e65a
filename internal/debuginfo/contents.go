// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/ksnoop/ksnoop/internal/elfhead"
)

// An elfFile is a file whose sections are read.
type elfFile struct {
	*elf.File
	data        []byte
	room        *room
	relocatable bool                    // and not only of that type, as .dwo files are
	expanded    uint64                  // bytes that were decompressed
	filled      map[string]*elf.Section // those that slots were filled with
}

func newFile(data []byte, r *room) (*elfFile, error) {
	f, err := elfhead.Open(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return &elfFile{File: f, data: data, room: r, filled: map[string]*elf.Section{}}, nil
}

// fill finds the sections for some slots. It takes room for all of them before it decompresses any.
func (f *elfFile) fill(slots map[string]*[]byte) error {
	for _, s := range f.Sections {
		if _, ok := slots[elfhead.DebugName(s)]; ok && s.Type != elf.SHT_NOBITS {
			if err := f.choose(s); err != nil {
				return err
			}
		}
	}
	var found []*elf.Section
	sum := uint64(0)
	for _, name := range slices.Sorted(maps.Keys(slots)) { // an error is the same each time
		s := f.filled[name]
		if s == nil {
			continue
		}
		n, err := f.expands(s)
		if err != nil {
			return fmt.Errorf("section %s: %w", s.Name, err)
		}
		found, sum = append(found, s), sum+n
	}
	if err := f.take(sum); err != nil {
		return err
	}
	for _, s := range found {
		b, err := f.read(s)
		if err != nil {
			return fmt.Errorf("section %s: %w", s.Name, err)
		}
		*slots[elfhead.DebugName(s)] = b
	}
	return nil
}

// choose decides between sections of one name. Compilers put each unit of types into a section of its own
// (-fdebug-types-section), in a group of which the linker keeps one. Nothing of them is needed here.
func (f *elfFile) choose(s *elf.Section) error {
	name := elfhead.DebugName(s)
	old := f.filled[name]
	switch {
	case old == nil, old.Flags&elf.SHF_GROUP != 0 && s.Flags&elf.SHF_GROUP == 0:
		f.filled[name] = s
	case s.Flags&elf.SHF_GROUP != 0:
	case strings.HasSuffix(name, ".dwo"): // no groups are left there; units of types are first
		f.filled[name] = s
	default:
		return fmt.Errorf("several sections %s", name)
	}
	return nil
}

// contents returns a section, decompressed if necessary.
func (f *elfFile) contents(s *elf.Section) ([]byte, error) {
	n, err := f.expands(s)
	if err != nil {
		return nil, err
	}
	if err := f.take(n); err != nil {
		return nil, err
	}
	return f.read(s)
}

// read returns a section that has passed expands, and for which there is room.
func (f *elfFile) read(s *elf.Section) ([]byte, error) {
	stored := f.data[s.Offset : s.Offset+s.FileSize]
	if !isCompressed(s) {
		return stored, nil
	}
	size, err := f.expands(s)
	if err != nil {
		return nil, err
	}
	likely := int(min(size, 8*s.FileSize))
	header := cursor{b: stored}
	if kind := elf.CompressionType(header.u32()); kind == elf.COMPRESS_ZSTD && !oldCompressed(s) {
		header.skip(compressedHeader - 4)
		return decompressZstd(header.b[header.pos:], likely, size)
	}
	var b bytes.Buffer
	b.Grow(likely)
	if _, err := io.Copy(&b, io.LimitReader(s.Open(), int64(size))); err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return b.Bytes(), nil
}

// expands returns how many bytes a section takes when it is decompressed: 0 if it is not compressed. The file claims
// that; memory is only allocated for what really comes out. zlib reaches a ratio of 1,032 at best. zstd can do better,
// but not on debug info.
func (f *elfFile) expands(s *elf.Section) (uint64, error) {
	if s.Offset > uint64(len(f.data)) || s.FileSize > uint64(len(f.data))-s.Offset {
		return 0, errors.New("beyond the end of the file")
	}
	if !isCompressed(s) {
		return 0, nil
	}
	size := s.Size
	if oldCompressed(s) {
		stored := f.data[s.Offset : s.Offset+s.FileSize]
		if len(stored) < oldHeader || string(stored[:4]) != "ZLIB" {
			return 0, errors.New("its name says that it is compressed, and its contents are not")
		}
		size = binary.BigEndian.Uint64(stored[4:])
	}
	if most := min(1<<31, 1032*s.FileSize); size > most {
		return 0, fmt.Errorf("%d bytes when decompressed", size)
	}
	return size, nil
}

func isCompressed(s *elf.Section) bool { return s.Flags&elf.SHF_COMPRESSED != 0 || oldCompressed(s) }

// oldCompressed reports whether a section is compressed in GNU's old way (gcc -gz=zlib-gnu, and Go before 1.19), which only its name tells.
func oldCompressed(s *elf.Section) bool {
	return s.Flags&elf.SHF_COMPRESSED == 0 && strings.HasPrefix(s.Name, ".zdebug_")
}

// take takes room for what is decompressed. All sections together reach less than one can, and may be the same bytes of
// a file that is made to take memory.
func (f *elfFile) take(n uint64) error {
	if n == 0 {
		return nil
	}
	if f.expanded+n > elfhead.MostRatio*uint64(len(f.data)) {
		return fmt.Errorf("debug info of more than %d times the file's size when decompressed", elfhead.MostRatio)
	}
	err := f.room.take(n)
	switch {
	case err != nil && f.relocatable:
		return err // relocating takes the same room for what is not compressed
	case err != nil:
		return fmt.Errorf("%w (what is not compressed takes less: objcopy --decompress-debug-sections)", err)
	}
	f.expanded += n
	return nil
}

// compressedHeader is the size of an Elf64_Chdr, in bytes.
const compressedHeader = 24

// oldHeader is the size of what is in front of contents that are compressed in GNU's old way: "ZLIB", and how many bytes come out, big-endian.
const oldHeader = 12

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
