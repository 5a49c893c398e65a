// SPDX-License-Identifier: Apache-2.0

package process

import (
	"debug/elf"
	"os"
	"testing"
	"testing/fstest"
)

// TestMappedFiles: each file with code comes once, whatever else is mapped.
func TestMappedFiles(t *testing.T) {
	root := fstest.MapFS{
		"proc/7/maps": {Data: []byte("1000-2000 r-xp 00000000 fe:01 9 /bin/prog\n3000-4000 r--p 0 fe:01 8 /lib/data\n" +
			"5000-6000 r-xp 00001000 fe:01 8 /lib/two words.so\n6000-7000 r-xp 00002000 fe:01 8 /lib/two words.so\n7000-8000 r-xp 0 00:00 0 [vdso]\n8000-9000 rwxp 0 00:00 0 \n")},
		"proc/7/map_files/5000-6000": {Data: []byte("code")},
	}
	files, err := MappedFiles(root, 7)
	if err != nil || len(files) != 2 || files[0].Path() != "/bin/prog" || files[1].Path() != "/lib/two words.so" {
		t.Fatalf("%+v, %v", files, err)
	}
	if f := files[0].Open(root); f != nil {
		t.Error("a file that is not there is opened")
	}
	f := files[1].Open(root)
	if f == nil {
		t.Fatal("the mapped file is not opened")
	}
	f.Close()
	if _, err := MappedFiles(root, 8); err == nil {
		t.Error("a process that is not there has files")
	}
}

// TestBias: the linkers of GNU begin a segment with code at a page of the file, that of LLVM does not, and has the end of
// the segment before it in the same page.
func TestBias(t *testing.T) {
	gnu := []elf.ProgHeader{{Flags: elf.PF_R, Filesz: 0x5f0}, {Flags: elf.PF_R | elf.PF_X, Off: 0x1000, Vaddr: 0x1000, Filesz: 0x200}}
	llvm := []elf.ProgHeader{{Flags: elf.PF_R, Filesz: 0x5ec}, {Flags: elf.PF_R | elf.PF_X, Off: 0x5f0, Vaddr: 0x15f0, Filesz: 0x200}}
	// llvm's layout for arm64, whose pages may have 4, 16 or 64 KiB.
	wide := []elf.ProgHeader{{Flags: elf.PF_R, Filesz: 0x1a6c4, Align: 0x10000}, {Flags: elf.PF_R | elf.PF_X, Off: 0x1a6c8, Vaddr: 0x2a6c8, Filesz: 0x5000, Align: 0x10000}}
	// Segments are in order of their addresses, not of their places in the file. The first one is aligned to more than its page,
	// and the second one lies in the 64 KiB before it.
	turned := []elf.ProgHeader{{Flags: elf.PF_R | elf.PF_X, Off: 0x18000, Vaddr: 0x18000, Filesz: 0x1000, Align: 0x10000}, {Flags: elf.PF_R | elf.PF_X, Off: 0x11000, Vaddr: 0x31000, Filesz: 0x2000, Align: 0x1000}}
	for _, c := range []struct {
		segments      []elf.ProgHeader
		start, offset uint64
		want          uint64
		ok            bool
	}{
		{gnu, 0x7f0000001000, 0x1000, 0x7f0000000000, true},
		{llvm, 0x7f0000001000, 0, 0x7f0000000000, true},
		{wide, 0x7f000002a000, 0x1a000, 0x7f0000000000, true},
		{wide, 0x7f0000028000, 0x18000, 0x7f0000000000, true},
		{wide, 0x7f0000020000, 0x10000, 0x7f0000000000, true},
		{wide, 0x7f0000010000, 0xf000, 0, false},
		{turned, 0x7f0000018000, 0x18000, 0x7f0000000000, true},
		{turned, 0x7f0000031000, 0x11000, 0x7f0000000000, true},
		{gnu, 0x7f0000001000, 0x9000, 0, false},
		{nil, 0x1000, 0, 0, false},
	} {
		m := Mapped{mapping: mapping{start: c.start, offset: c.offset}}
		if got, ok := m.Bias(c.segments); ok != c.ok || got != c.want {
			t.Errorf("%+v: %#x, %v", c, got, ok)
		}
	}
	// Its own code is where it says: a program that is not PIE has no bias.
	files, err := MappedFiles(os.DirFS("/"), uint32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	self, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	var segments []elf.ProgHeader
	for _, p := range self.Progs {
		if p.Type == elf.PT_LOAD {
			segments = append(segments, p.ProgHeader)
		}
	}
	if bias, ok := files[0].Bias(segments); self.Type == elf.ET_EXEC && (bias != 0 || !ok) {
		t.Errorf("%+v: %#x, %v", files[0], bias, ok)
	}
}
