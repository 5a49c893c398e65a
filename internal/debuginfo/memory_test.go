// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// A part is a section of a file that a test writes. Parts with the same contents share them.
type part struct {
	name       string
	kind       elf.SectionType
	flags      elf.SectionFlag
	link, info uint32
	contents   []byte
}

// written writes an ELF file with sections, the first of which has the number 1.
func written(t *testing.T, kind elf.Type, parts ...part) []byte {
	t.Helper()
	names := "\x00"
	headers := []elf.Section64{{}}
	var body, file bytes.Buffer
	at := map[string]uint64{}
	start := uint64(64 + 64*(len(parts)+2))
	for _, p := range append(parts, part{name: ".shstrtab", kind: elf.SHT_STRTAB}) {
		h := elf.Section64{Name: uint32(len(names)), Type: uint32(p.kind), Flags: uint64(p.flags), Link: p.link, Info: p.info}
		names += p.name + "\x00"
		if p.name == ".shstrtab" {
			p.contents = []byte(names)
		}
		key := string(p.contents)
		if _, ok := at[key]; !ok {
			at[key] = start + uint64(body.Len())
			body.Write(p.contents)
		}
		h.Off, h.Size = at[key], uint64(len(p.contents))
		headers = append(headers, h)
	}
	for _, part := range []any{elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1},
		Type:  uint16(kind), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64, Shoff: 64, Shentsize: 64, Shnum: uint16(len(headers)), Shstrndx: uint16(len(headers) - 1),
	}, headers} {
		if err := binary.Write(&file, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return append(file.Bytes(), body.Bytes()...)
}

// compressed returns the contents of a section of which data comes out.
func compressed(t *testing.T, data []byte) []byte {
	t.Helper()
	var packed bytes.Buffer
	if err := binary.Write(&packed, binary.LittleEndian, elf.Chdr64{Type: uint32(elf.COMPRESS_ZLIB), Size: uint64(len(data)), Addralign: 1}); err != nil {
		t.Fatal(err)
	}
	w := zlib.NewWriter(&packed)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// sharing writes an ELF file in which all sections of debug info are the same bytes, compressed.
func sharing(t *testing.T, data []byte) []byte {
	t.Helper()
	packed := compressed(t, data)
	var parts []part
	for _, name := range slices.Sorted(maps.Keys(new(sections).slots())) {
		parts = append(parts, part{name: name, kind: elf.SHT_PROGBITS, flags: elf.SHF_COMPRESSED, contents: packed})
	}
	return written(t, elf.ET_DYN, parts...)
}

// TestShared: ten sections in the same 33 KB, each of 32 MiB.
func TestShared(t *testing.T) {
	data := sharing(t, make([]byte, 32<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := newInfo(data, Options{Stripped: true}, nil)
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "more than 64 times the file's size") {
		t.Errorf("%v", err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
		t.Errorf("a file of %d bytes took %d bytes of memory", len(data), used)
	}
}

// TestRefusedAtOnce: nothing is decompressed of a file for all of which there is no room.
func TestRefusedAtOnce(t *testing.T) {
	const want = "all debug info together takes more than %d MiB of memory"
	const hint = " (what is not compressed takes less: objcopy --decompress-debug-sections)"
	const size = 2 << 20
	few := make([]byte, size) // of its bits, each byte has two
	random := rand.New(rand.NewPCG(1, 2))
	for i := range few {
		few[i] = byte(random.Uint32() & 3)
	}
	data := sharing(t, few)
	all := int64(len(new(sections).slots()) * size)
	object := bytes.Clone(data)
	const typeAt = 16
	object[typeAt] = byte(elf.ET_REL) // to decompress it does not help: it is relocated
	for _, test := range []struct {
		data []byte
		most int64
		hint string
	}{{data, size - 1, hint}, {data, all / 2, hint}, {data, all - 1, hint}, {object, all - 1, ""}} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		memory := NewMemory(test.most)
		_, err := newInfo(test.data, Options{Stripped: true, Memory: memory}, nil)
		runtime.ReadMemStats(&after)
		if want := fmt.Sprintf(want, test.most>>20) + test.hint; err == nil || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 || memory.left.Load() != test.most {
			t.Errorf("%d bytes of memory were used, and %d of %d are left", used, memory.left.Load(), test.most)
		}
	}
}

// TestMemory: files share what they may take, and give it back.
func TestMemory(t *testing.T) {
	data := small(t, "-g", "-gz=zlib")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	one := NewMemory(mostMemory)
	info, err := Open(file, Options{Memory: one})
	if err != nil {
		t.Fatal(err)
	}
	takes := mostMemory - one.left.Load()
	if takes <= 0 {
		t.Errorf("it takes %d bytes", takes)
	}
	if err := info.Close(); err != nil || one.left.Load() != mostMemory {
		t.Errorf("after its end %d bytes are taken, %v", mostMemory-one.left.Load(), err)
	}
	two := NewMemory(2*takes - 1)
	first, err := Open(file, Options{Memory: two})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, Options{Memory: two}); err == nil || !strings.Contains(err.Error(), "all debug info together takes more than 0 MiB") {
		t.Errorf("beside another: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if two.left.Load() != 2*takes-1 {
		t.Errorf("%d bytes are left, want %d", two.left.Load(), 2*takes-1)
	}
	again, err := Open(file, Options{Memory: two})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestRelocatedHole has an object file whose debug info is a hole of a terabyte: it is copied to be relocated.
func TestRelocatedHole(t *testing.T) {
	const hole, tableAt, headerSize, offsetAt = 1 << 40, 0x28, 64, 24
	data := small(t, "-g")
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	table := binary.LittleEndian.Uint64(data[tableAt:])
	for i, s := range f.Sections {
		if s.Name == ".debug_line" {
			header := data[table+uint64(i)*headerSize:]
			binary.LittleEndian.PutUint64(header[offsetAt:], uint64(len(data)))
			binary.LittleEndian.PutUint64(header[offsetAt+8:], hole)
		}
	}
	file := filepath.Join(t.TempDir(), "hole")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, int64(len(data))+hole); err != nil {
		t.Skip(err) // not every file system has files with holes
	}
	if _, err := Open(file, Options{}); err == nil || !strings.Contains(err.Error(), "takes more than 4096 MiB") {
		t.Errorf("%v", err)
	}
}

// TestOldCompressed: what GNU's old way of compressing claims is checked like what SHF_COMPRESSED does, and takes room.
func TestOldCompressed(t *testing.T) {
	const size = 1 << 20
	packed := compressed(t, make([]byte, size))[compressedHeader:]
	header := func(n uint64) []byte { return binary.BigEndian.AppendUint64([]byte("ZLIB"), n) }
	for name, tt := range map[string]struct {
		contents []byte
		most     int64
		want     string
	}{
		"as it says":     {append(header(size), packed...), size, "debug info of more than 64 times"},
		"not compressed": {make([]byte, 100), size, "section .zdebug_info: its name says that it is compressed, and its contents are not"},
		"cut":            {header(1)[:11], size, "its contents are not"},
		"too much":       {append(header(1<<40), packed...), size, "section .zdebug_info: 1099511627776 bytes when decompressed"},
		"no room":        {append(append(header(size), packed...), make([]byte, size/64)...), size - 1, "takes more than 0 MiB of memory (what is not compressed takes less"},
		"room":           {append(append(header(size), packed...), make([]byte, size/64)...), size, "no debug info"}, // no abbreviations
	} {
		t.Run(name, func(t *testing.T) {
			data := written(t, elf.ET_DYN, part{name: ".zdebug_info", kind: elf.SHT_PROGBITS, contents: tt.contents})
			memory := NewMemory(tt.most)
			if _, err := newInfo(data, Options{Memory: memory}, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if left := memory.left.Load(); left != tt.most {
				t.Errorf("%d bytes of %d are left", left, tt.most)
			}
		})
	}
}
