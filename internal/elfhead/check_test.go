// SPDX-License-Identifier: Apache-2.0

package elfhead

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
)

// sparse is a file of any size in which all but its first bytes are zero.
type sparse struct {
	head []byte
	size int64
}

func (s sparse) ReadAt(b []byte, off int64) (int, error) {
	n := int(max(0, min(int64(len(b)), s.size-off)))
	clear(b[:n])
	if off < int64(len(s.head)) {
		copy(b[:n], s.head[off:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// header is one with some sections behind it.
func header(number uint16, sections ...elf.Section64) []byte {
	var b bytes.Buffer
	for _, part := range []any{elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1},
		Type:  uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64, Shoff: 64, Shentsize: 64, Shnum: number, Shstrndx: 1,
	}, sections} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			panic(err) // a bytes.Buffer takes all
		}
	}
	return b.Bytes()
}

// TestCheck has files that make debug/elf take gigabytes, and others.
func TestCheck(t *testing.T) {
	strtab := func(size uint64) elf.Section64 {
		return elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: 1 << 12, Size: size, Name: 0}
	}
	long := append(header(3, elf.Section64{}, strtab(1<<13), elf.Section64{}), bytes.Repeat([]byte{'x'}, 1<<14)...)
	shared := header(60000, elf.Section64{}, strtab(1<<12))
	for range 60000 - 2 {
		shared = append(shared, 0, 1, 0, 0) // a name of 3,839 bytes
		shared = append(shared, make([]byte, 60)...)
	}
	copy(shared[1<<12:], bytes.Repeat([]byte{'x'}, 0xfff))
	wide := bytes.Clone(shared)
	binary.LittleEndian.PutUint16(wide[0x3a:], 128)
	outside := header(0, elf.Section64{Size: 0xff00, Link: 0xffffffff})
	binary.LittleEndian.PutUint16(outside[0x3e:], noSuchNumber)
	outsideToo := header(0, elf.Section64{Size: 0xff00})
	binary.LittleEndian.PutUint16(outsideToo[0x3e:], 0xff00)
	programs := func(number, size uint16) []byte {
		b := header(0)
		binary.LittleEndian.PutUint64(b[0x28:], 0)
		binary.LittleEndian.PutUint64(b[0x20:], 64)
		binary.LittleEndian.PutUint16(b[0x36:], size)
		binary.LittleEndian.PutUint16(b[0x38:], number)
		return b
	}
	for _, test := range []struct {
		name string
		file io.ReaderAt
		want string
	}{
		{"long headers of sections", bytes.NewReader(wide), "headers of sections have 128 bytes"},
		{"names in a section that is not there", sparse{outside, 1 << 40}, "section 4294967295 has the names"},
		{"names in the section behind all", sparse{outsideToo, 1 << 40}, "section 65280 has the names"},
		{"no names of sections", sparse{header(0), 64}, "EOF"},
		{"programs", sparse{programs(200, 56), 1 << 40}, ""},
		{"many programs", sparse{programs(0xffff, 56), 1 << 40}, "program headers take 3669960 bytes"},
		{"long headers of programs", sparse{programs(0xffff, 0xffff), 1 << 40}, "program headers of 65535 bytes"},
		{"programs beyond the end", sparse{programs(1, 56), 64}, "unexpected EOF"},

		{"no ELF file", bytes.NewReader([]byte("text")), ""},
		{"some zeros", sparse{header(20, elf.Section64{}, strtab(100)), 1 << 40}, ""},
		{"ten million sections", sparse{header(0, elf.Section64{Size: 10_000_000}, strtab(1)), 1 << 40}, "10000000 sections"},
		{"names of a terabyte", sparse{header(2, elf.Section64{}, strtab(1<<40)), 1 << 50}, "names of sections of 1099511627776 bytes"},
		{"one long name for all", bytes.NewReader(shared), "take more than"},
		{"a long name", bytes.NewReader(long), "longer than"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := readHeads(test.file)
		_, _ = Open(test.file)
		runtime.ReadMemStats(&after)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<26 {
			t.Errorf("%s: %d bytes of memory", test.name, used)
		}
	}
	own, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Skip(err)
	}
	defer own.Close()
	if _, err := readHeads(own); err != nil {
		t.Errorf("the test itself: %v", err)
	}
}

// A changing file gives other bytes each time that it is read.
type changing struct {
	files []io.ReaderAt
	reads map[int64]int
}

func (c *changing) ReadAt(b []byte, off int64) (int, error) {
	n := c.reads[off]
	c.reads[off]++
	return c.files[min(n, len(c.files)-1)].ReadAt(b, off)
}

// TestChanging: what was checked is what is read, though somebody writes to the file meanwhile.
func TestChanging(t *testing.T) {
	own, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Skip(err)
	}
	defer own.Close()
	want, err := Open(own)
	if err != nil {
		t.Fatal(err)
	}
	hostile := sparse{bytes.Repeat([]byte{0xff}, 1<<12), 1 << 40}
	got, err := Open(&changing{files: []io.ReaderAt{own, hostile}, reads: map[int64]int{}})
	if err != nil || len(got.Sections) != len(want.Sections) || len(got.Progs) != len(want.Progs) {
		t.Fatalf("%v, %v", got, err)
	}
	for i, s := range got.Sections {
		if s.SectionHeader != want.Sections[i].SectionHeader {
			t.Errorf("%+v, want %+v", s.SectionHeader, want.Sections[i].SectionHeader)
		}
	}
	narrow := header(2, elf.Section64{}, elf.Section64{})
	copy(narrow[4:], []byte{byte(elf.ELFCLASS32)})
	for _, first := range [][]byte{{0x7f}, []byte("text"), header(2)[:60], narrow[:55]} {
		f, err := Open(&changing{files: []io.ReaderAt{bytes.NewReader(first), hostile, own}, reads: map[int64]int{}})
		if err == nil && len(f.Sections)+len(f.Progs) > 0 {
			t.Errorf("of %q other headers are believed", first)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(header(2, elf.Section64{}, elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: 64, Size: 64}))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = Open(bytes.NewReader(data))
	})
}

func TestOpen(t *testing.T) {
	own, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if f, err := Open(own); err != nil || f.Section(".text") == nil {
		t.Errorf("this program: %v", err)
	}
	many := header(0, elf.Section64{}, elf.Section64{}) // the number of sections is in the first one
	binary.LittleEndian.PutUint64(many[64+32:], maxSections+1)
	_, want := readHeads(sparse{many, 1 << 40})
	if want == nil {
		t.Fatal("a file with too many sections passes")
	}
	if _, err := Open(sparse{many, 1 << 40}); err == nil || err.Error() != want.Error() {
		t.Errorf("%v, want %v", err, want)
	}
}
