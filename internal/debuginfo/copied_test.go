// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"debug/elf"
	"os"
	"reflect"
	"strings"
	"testing"
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
	o := Options{Memory: NewMemory(1 << 10)}
	if _, err := copyELF(f, newRoom(o)); err == nil || !strings.Contains(err.Error(), "all debug info together takes more than") || o.Memory.left.Load() != 1<<10 {
		t.Errorf("%v, room for %d left", err, o.Memory.left.Load())
	}
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
