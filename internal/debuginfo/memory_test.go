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

// sharing writes an ELF file in which all sections of debug info are the same bytes, compressed.
func sharing(t *testing.T, data []byte) []byte {
	t.Helper()
	var packed bytes.Buffer
	write := func(part any) {
		if err := binary.Write(&packed, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	write(elf.Chdr64{Type: uint32(elf.COMPRESS_ZLIB), Size: uint64(len(data)), Addralign: 1})
	w := zlib.NewWriter(&packed)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	names := "\x00.shstrtab\x00"
	headers := []elf.Section64{{}, {Name: 1, Type: uint32(elf.SHT_STRTAB)}}
	for _, name := range slices.Sorted(maps.Keys(new(sections).slots())) {
		headers = append(headers, elf.Section64{Name: uint32(len(names)), Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_COMPRESSED), Size: uint64(packed.Len())})
		names += name + "\x00"
	}
	start := uint64(64 + 64*len(headers))
	for i := range headers {
		headers[i].Off = start
	}
	headers[1].Off, headers[1].Size = start+uint64(packed.Len()), uint64(len(names))
	contents := bytes.Clone(packed.Bytes())
	packed.Reset()
	write(elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1},
		Type:  uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64, Shoff: 64, Shentsize: 64, Shnum: uint16(len(headers)), Shstrndx: 1,
	})
	write(headers)
	return slices.Concat(packed.Bytes(), contents, []byte(names))
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
	const want = "all debug info together takes more than %d MiB when it is decompressed or relocated"
	const hint = " (what is not compressed takes nothing: objcopy --decompress-debug-sections)"
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
