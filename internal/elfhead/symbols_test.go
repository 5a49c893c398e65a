// SPDX-License-Identifier: Apache-2.0

package elfhead

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A part is a section of a file that a test writes, with what is in it. Parts with the same contents share them.
type part struct {
	name     string
	kind     elf.SectionType
	flags    elf.SectionFlag
	link     uint32
	info     uint32
	contents []byte
}

// written writes an ELF file with sections, the first of which has the number 1.
func written(tb testing.TB, parts ...part) []byte {
	tb.Helper()
	names := []byte{0}
	headers := []elf.Section64{{}}
	var body []byte
	at := map[string]uint64{}
	start := uint64(64 + 64*(len(parts)+2))
	for _, p := range append(parts, part{name: ".shstrtab", kind: elf.SHT_STRTAB}) {
		h := elf.Section64{Name: uint32(len(names)), Type: uint32(p.kind), Flags: uint64(p.flags), Link: p.link, Info: p.info}
		names = append(append(names, p.name...), 0)
		if p.name == ".shstrtab" {
			p.contents = names
		}
		key := string(p.contents)
		if _, ok := at[key]; !ok {
			at[key] = start + uint64(len(body))
			body = append(body, p.contents...)
		}
		h.Off, h.Size = at[key], uint64(len(p.contents))
		headers = append(headers, h)
	}
	b := header(uint16(len(headers)), headers...)
	binary.LittleEndian.PutUint16(b[0x3e:], uint16(len(headers)-1)) // e_shstrndx
	return append(b, body...)
}

// zeros compresses so many zeros in GNU's old way, or in that of SHF_COMPRESSED.
func zeros(tb testing.TB, size int, old bool) []byte {
	tb.Helper()
	var b bytes.Buffer
	if old {
		b.WriteString("ZLIB")
		b.Write(binary.BigEndian.AppendUint64(nil, uint64(size)))
	} else {
		if err := binary.Write(&b, binary.LittleEndian, elf.Chdr64{Type: uint32(elf.COMPRESS_ZLIB), Size: uint64(size), Addralign: 1}); err != nil {
			tb.Fatal(err)
		}
	}
	w := zlib.NewWriter(&b)
	piece := make([]byte, 1<<16)
	for range size / len(piece) {
		if _, err := w.Write(piece); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// symbolTable has an empty symbol and others, whose names begin at offsets.
func symbolTable(names ...int) []byte {
	b := make([]byte, elf.Sym64Size)
	for _, n := range names {
		b = append(binary.LittleEndian.AppendUint32(b, uint32(n)), make([]byte, elf.Sym64Size-4)...)
	}
	return b
}

// TestCompressedTables: debug/elf decompresses tables by the size in them, or by the name of their section.
func TestCompressedTables(t *testing.T) {
	const size = 64 << 20
	bomb, old := zeros(t, size, false), zeros(t, size, true)
	for name, parts := range map[string][]part{
		"names, by the name of their section": {{".dynsym", elf.SHT_DYNSYM, 0, 2, 0, symbolTable(1)}, {".zdebug_x", elf.SHT_STRTAB, 0, 0, 0, old}},
		"names in a section of another type":  {{".dynsym", elf.SHT_DYNSYM, 0, 2, 0, symbolTable(1)}, {".zdebug_x", elf.SHT_PROGBITS, 0, 0, 0, old}},
		"names":                               {{".symtab", elf.SHT_SYMTAB, 0, 2, 0, symbolTable(1)}, {".strtab", elf.SHT_STRTAB, elf.SHF_COMPRESSED, 0, 0, bomb}},
		"symbols":                             {{".symtab", elf.SHT_SYMTAB, elf.SHF_COMPRESSED, 2, 0, bomb}, {".strtab", elf.SHT_STRTAB, 0, 0, 0, []byte("\x00x\x00")}},
		"versions":                            {{".zdebug_v", elf.SHT_GNU_VERSYM, 0, 0, 0, old}},
		"relocations":                         {{".zdebug_r", elf.SHT_RELA, elf.SHF_ALLOC, 0, 0, old}},
		"dynamic section":                     {{".zdebug_d", elf.SHT_DYNAMIC, 0, 0, 0, old}},
	} {
		if _, err := Open(bytes.NewReader(written(t, parts...))); err == nil || !strings.Contains(err.Error(), "is a table and compressed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSymbols: what symbols take is bounded, however small the file is.
func TestSymbols(t *testing.T) {
	const most = 1 << 20
	long := append(append([]byte{0}, bytes.Repeat([]byte{'x'}, 1<<16)...), 0)
	ends := make([]int, 1000)
	for i := range ends {
		ends[i] = 1 + i
	}
	var needs []byte // each leads to one list for all
	for i := range 1000 {
		needs = binary.LittleEndian.AppendUint16(append(needs, 1, 0), 1000)
		for _, n := range []int{1, 16 * (1000 - i), 16} {
			needs = binary.LittleEndian.AppendUint32(needs, uint32(n))
		}
	}
	for range 1000 {
		needs = append(append(needs, make([]byte, 12)...), 16, 0, 0, 0)
	}
	var defs []byte
	for i := range 1000 {
		defs = binary.LittleEndian.AppendUint16(append(defs, 1, 0, 0, 0, 0, 0), 1000)
		for _, n := range []int{0, 20 * (1000 - i), 20} {
			defs = binary.LittleEndian.AppendUint32(defs, uint32(n))
		}
	}
	defs = append(defs, bytes.Repeat([]byte{1, 0, 0, 0, 8, 0, 0, 0}, 1000)...)
	short, versions := []byte("\x00x\x00"), part{".gnu.version", elf.SHT_GNU_VERSYM, 0, 1, 0, make([]byte, 4)}
	for _, test := range []struct {
		name  string
		kind  elf.SectionType
		parts []part
		want  string
	}{
		{"two", elf.SHT_SYMTAB, []part{{".symtab", elf.SHT_SYMTAB, 0, 2, 0, symbolTable(1, 1)}, {".strtab", elf.SHT_STRTAB, 0, 0, 0, short}}, ""},
		{"beyond the names", elf.SHT_SYMTAB, []part{{".symtab", elf.SHT_SYMTAB, 0, 2, 0, symbolTable(1<<31, 1<<30)}, {".strtab", elf.SHT_STRTAB, 0, 0, 0, short}}, ""},
		{"ends of one name", elf.SHT_SYMTAB, []part{{".symtab", elf.SHT_SYMTAB, 0, 2, 0, symbolTable(ends...)}, {".strtab", elf.SHT_STRTAB, 0, 0, 0, long}}, "names of symbols of more"},
		{"ends of one that does not end", elf.SHT_SYMTAB, []part{{".symtab", elf.SHT_SYMTAB, 0, 2, 0, symbolTable(ends...)}, {".strtab", elf.SHT_STRTAB, 0, 0, 0, long[:1<<16]}}, "names of symbols of more"},
		{"one long name", elf.SHT_DYNSYM, []part{{".dynsym", elf.SHT_DYNSYM, 0, 2, 0, symbolTable(1)}, {".dynstr", elf.SHT_STRTAB, 0, 0, 0, long}}, ""},
		{"large", elf.SHT_DYNSYM, []part{{".dynsym", elf.SHT_DYNSYM, 0, 2, 0, make([]byte, 1<<20+24)}, {".dynstr", elf.SHT_STRTAB, 0, 0, 0, short}}, "of 1048600 bytes"},
		{"shared needs", elf.SHT_DYNSYM, []part{{".dynsym", elf.SHT_DYNSYM, 0, 2, 0, symbolTable(1)}, {".dynstr", elf.SHT_STRTAB, 0, 0, 0, short}, versions,
			{".gnu.version_r", elf.SHT_GNU_VERNEED, 0, 2, 0, needs}}, "parts of each other"},
		{"shared definitions", elf.SHT_DYNSYM, []part{{".dynsym", elf.SHT_DYNSYM, 0, 2, 0, symbolTable(1)}, {".dynstr", elf.SHT_STRTAB, 0, 0, 0, short}, versions,
			{".gnu.version_d", elf.SHT_GNU_VERDEF, 0, 2, 0, defs}}, "parts of each other"},
		{"large versions", elf.SHT_DYNSYM, []part{{".dynsym", elf.SHT_DYNSYM, 0, 2, 0, symbolTable(1)}, {".dynstr", elf.SHT_STRTAB, 0, 0, 0, short},
			{".gnu.version", elf.SHT_GNU_VERSYM, 0, 1, 0, make([]byte, most+2)}}, "versions of 1048578 bytes"},
	} {
		f, err := Open(bytes.NewReader(written(t, test.parts...)))
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := Symbols(f, test.kind, most)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 8*most {
			t.Errorf("%s: %d bytes of memory", test.name, used)
		}
		if test.want != "" {
			if !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want %q", test.name, err, test.want)
			}
			continue
		}
		want, _ := f.Symbols()
		if test.kind == elf.SHT_DYNSYM {
			want, _ = f.DynamicSymbols()
		}
		if d := cmp.Diff(want, got); d != "" || err != nil || len(got) == 0 {
			t.Errorf("%s: %v, %s", test.name, err, d)
		}
	}
}

// TestSymbolsOfLibraries: libraries that are there, with many versions, have the symbols that debug/elf tells.
func TestSymbolsOfLibraries(t *testing.T) {
	compared := 0
	for _, file := range libraries() {
		f, err := elf.Open(file)
		if err != nil {
			continue
		}
		want, wantErr := f.DynamicSymbols()
		got, err := Symbols(f, elf.SHT_DYNSYM, 1<<26)
		if d := cmp.Diff(want, got); d != "" || (err == nil) != (wantErr == nil) {
			t.Errorf("%s: %v, %v, %s", file, err, wantErr, d)
		}
		compared += len(got)
		f.Close()
	}
	if compared == 0 {
		t.Skip("no libraries")
	}
}
