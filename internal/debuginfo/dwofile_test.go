// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func newHalves(file string, m *Memory) *halves {
	return &halves{loader: &loader{path: file, room: &room{memory: m}}, files: map[inode]*dwoFile{}}
}

// largeHalf builds a program with a file large.dwo that has no unit 1 to 99, and takes more than 4 MiB when it is
// decompressed.
func largeHalf(t *testing.T) (file string) {
	t.Helper()
	return buildProgram(t, "gcc objcopy", `gcc -O2 -g -gsplit-dwarf -gdwarf-4 *.c && mv $(ls *three.dwo) large.dwo && truncate -s 4M zeros
		objcopy --add-section .debug_loclists.dwo=zeros large.dwo && objcopy --compress-debug-sections=zlib large.dwo
		truncate -s 200K large.dwo && ln large.dwo hard.dwo && ln -s large.dwo soft.dwo && cp large.dwo second.dwo && cp large.dwo third.dwo`)
}

// TestStaleOnce: many units name a file that has none of them, by several names. It is decompressed once, and keeps no
// memory.
func TestStaleOnce(t *testing.T) {
	file := largeHalf(t)
	memory := NewMemory(mostMemory)
	h := newHalves(file, memory)
	for id := uint64(1); id < 10; id++ {
		for _, name := range []halfName{{file: "large.dwo"}, {file: "hard.dwo"}, {file: "soft.dwo", folder: filepath.Dir(file)}, {file: "/proc/self/root" + filepath.Dir(file) + "/large.dwo"}} {
			if name.id = id; h.find(name, id) != nil {
				t.Fatalf("%+v has the unit", name)
			}
		}
	}
	if left := memory.left.Load(); left != mostMemory || len(h.loader.mapped) > 0 {
		t.Errorf("%d bytes are taken, %d files mapped", mostMemory-left, len(h.loader.mapped))
	}
	if h.loader.wasted < 4<<20 || h.loader.wasted > 5<<20 {
		t.Errorf("%d bytes were decompressed", h.loader.wasted)
	}
	const want = "large.dwo: has not the unit, it may be of another build"
	if h.count != 4*9 || !strings.HasSuffix(h.missing.Error(), want) {
		t.Errorf("%d are missing: %v", h.count, h.missing)
	}
}

// TestStaleFiles: no more is decompressed in vain than may be kept.
func TestStaleFiles(t *testing.T) {
	h := newHalves(largeHalf(t), NewMemory(6<<20))
	for _, test := range []struct{ file, want string }{
		{"large.dwo", "has not the unit"},
		{"second.dwo", "has not the unit"},
		{"third.dwo", "more than 6 MiB of .dwo files were copied or decompressed in vain"},
	} {
		if _, err := h.open(halfName{file: test.file, id: 1}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.file, err, test.want)
		}
	}
}

// TestHalfWithoutRoom: a .dwo file has the type of an object file, but is not relocated.
func TestHalfWithoutRoom(t *testing.T) {
	h := newHalves(largeHalf(t), NewMemory(1<<20))
	const want = "(what is not compressed takes less: objcopy --decompress-debug-sections)"
	if _, err := h.open(halfName{file: "large.dwo", id: 1}); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Error(err)
	}
}

// TestHalfNumbers: the numbers of units that are remembered are bounded, of all files together.
func TestHalfNumbers(t *testing.T) {
	h := newHalves(largeHalf(t), NewMemory(mostMemory))
	h.numbers = mostNumbers
	if _, err := h.open(halfName{file: "large.dwo", id: 1}); err == nil || !strings.HasSuffix(err.Error(), "more than 65536 units in .dwo files") {
		t.Error(err)
	}
}

// TestHalfOnce: a unit is found, once, though another one was sought before in the same file.
func TestHalfOnce(t *testing.T) {
	file := largeHalf(t)
	h := newHalves(file, NewMemory(mostMemory))
	path := filepath.Join(filepath.Dir(file), "large.dwo")
	const noUnit = 1
	if _, err := h.openFile(path, noUnit); err == nil {
		t.Fatal("it has no such unit")
	}
	var ids []uint64
	for _, d := range h.files {
		for id := range d.units {
			ids = append(ids, id)
		}
	}
	if len(ids) != 1 {
		t.Fatalf("units %x, want one", ids)
	}
	found, err := h.openFile(path, ids[0])
	if err != nil || len(found.sections.info) == 0 || len(h.loader.mapped) != 1 {
		t.Errorf("%+v, %v, %d files mapped", found, err, len(h.loader.mapped))
	}
	if _, err := h.openFile(path, ids[0]); err == nil {
		t.Error("it was found twice")
	}
	if err := h.loader.close(); err != nil {
		t.Error(err)
	}
}

func TestHalfCandidates(t *testing.T) {
	for _, test := range []struct {
		name halfName
		want string
	}{
		{halfName{file: "a.dwo"}, "/bin/a.dwo"},
		{halfName{file: "obj/a.dwo"}, "/bin/obj/a.dwo /bin/a.dwo"},
		{halfName{file: "a.dwo", folder: "/bin"}, "/bin/a.dwo"},
		{halfName{file: "obj/a.dwo", folder: "/build"}, "/build/obj/a.dwo /bin/obj/a.dwo /bin/a.dwo"},
		{halfName{file: "/build/a.dwo", folder: "/build"}, "/build/a.dwo /bin/a.dwo"},
	} {
		if got := test.name.candidates("/bin/program"); !slices.Equal(got, strings.Fields(test.want)) {
			t.Errorf("%+v: %s, want %s", test.name, got, test.want)
		}
	}
}
