// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestCopied: of a file that is copied the same is found as of one that is mapped, for the room that its sections take.
func TestCopied(t *testing.T) {
	for _, script := range []string{"gcc -O2 -g *.c", "gcc -O2 -g -gz=zlib *.c", "gcc -O2 -g *.c && strip -g a.out", "gcc -O2 -g *.c && strip a.out"} {
		path := buildProgram(t, "gcc strip", script)
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		o := Options{Stripped: true, Memory: NewMemory(1 << 20)}
		l := &loader{path: path, room: newRoom(o)}
		m, err := copyELF(f, l.room)
		if err != nil {
			t.Fatal(err)
		}
		if left := o.Memory.left.Load(); m.copied == 0 || left != 1<<20-int64(m.copied) {
			t.Errorf("%s: %d bytes copied, room for %d left", script, m.copied, left)
		}
		l.mapped = append(l.mapped, m)
		copied, err := newMapped(m.data, o, l)
		if err != nil {
			t.Fatal(err)
		}
		copied.mapped = true
		mapped, err := Open(path, Options{Stripped: true})
		if err != nil {
			t.Fatal(err)
		}
		text := sectionOf(t, f, ".text")
		found := 0
		for addr := text.Addr; addr < text.Addr+text.Size; addr++ {
			got, want := copied.Lookup(nil, addr), mapped.Lookup(nil, addr)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %#x: %v, want %v", script, addr, got, want)
			}
			found += len(want)
		}
		if stripped := strings.Contains(script, "strip"); stripped == (found > 0) {
			t.Errorf("%s: %d frames", script, found)
		}
		if code := m.data[text.Offset:][:text.Size]; strings.Trim(string(code), "\x00") != "" {
			t.Errorf("%s: code was copied", script)
		}
		if err := copied.Close(); err != nil || o.Memory.left.Load() != 1<<20 {
			t.Errorf("%s: closed: %v, room for %d left", script, err, o.Memory.left.Load())
		}
		mapped.Close()
	}
}

// TestCopiedTooLarge: what there is no room for is not copied, and takes none.
func TestCopiedTooLarge(t *testing.T) {
	f, err := os.Open(buildProgram(t, "gcc", "gcc -O2 -g *.c"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for pages := range 4 { // headers take one or two
		most := int64(pages * os.Getpagesize())
		o := Options{Memory: NewMemory(most)}
		if _, err := copyELF(f, newRoom(o)); err == nil || !strings.Contains(err.Error(), "all debug info together takes more than") || o.Memory.left.Load() != most {
			t.Errorf("%v, room for %d of %d left", err, o.Memory.left.Load(), most)
		}
	}
}

// TestCopiedPages: room is taken for the pages that are copied, once each, and the kernel makes none of them huge.
func TestCopiedPages(t *testing.T) {
	const number = 20
	page := os.Getpagesize()
	var parts []part
	for i := range number { // two bytes in a page, and code that is not copied
		for _, b := range []byte{0, number} {
			parts = append(parts, part{name: ".debug_x", kind: elf.SHT_PROGBITS, contents: []byte{byte(i) + b + 1}})
		}
		code := append(bytes.Repeat([]byte{0x90}, 4*page), byte(i))
		parts = append(parts, part{name: ".text", kind: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC, contents: code})
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(written(t, elf.ET_DYN, parts...)); err != nil {
		t.Fatal(err)
	}
	o := Options{Memory: NewMemory(1 << 30)}
	m, err := copyELF(f, newRoom(o))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(m.data) }()
	// Headers and the names of sections may be in pages of their own.
	if n := int(m.copied) / page; n < number || n > number+4 || o.Memory.left.Load() != 1<<30-int64(m.copied) {
		t.Errorf("room for %d pages is taken, %d bytes are left", n, o.Memory.left.Load())
	}
	resident, flags := memoryOf(t, m.data)
	if resident != m.copied {
		t.Errorf("%d bytes are in memory, room for %d is taken", resident, m.copied)
	}
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err == nil && !slices.Contains(flags, "nh") {
		t.Errorf("its pages may be huge: %v", flags)
	}
}

// memoryOf returns how many bytes of a mapping are in memory, and its flags.
func memoryOf(t *testing.T, data []byte) (resident uint64, flags []string) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	_, rest, ok := strings.Cut("\n"+string(text), fmt.Sprintf("\n%08x-", uintptr(unsafe.Pointer(unsafe.SliceData(data)))))
	if !ok {
		t.Fatal("no mapping begins with what was copied")
	}
	for line := range strings.Lines(rest) {
		key, value, _ := strings.Cut(line, ":")
		switch fields := strings.Fields(value); key {
		case "Rss", "Swap":
			kib, err := strconv.ParseUint(fields[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			resident += kib << 10
		case "VmFlags":
			return resident, fields
		}
	}
	t.Skip("the kernel tells no flags of mappings")
	return 0, nil
}

func sectionOf(t *testing.T, f *os.File, name string) *elf.Section {
	t.Helper()
	head, err := elf.NewFile(f)
	if err != nil {
		t.Fatal(err)
	}
	s := head.Section(name)
	if s == nil {
		t.Fatal("no section " + name)
	}
	return s
}

// TestCloseNone: a file without debug info that was given up, and is found to have none later, has an Info to close that is nil.
func TestCloseNone(t *testing.T) {
	if err := (*Info)(nil).Close(); err != nil {
		t.Error(err)
	}
}
