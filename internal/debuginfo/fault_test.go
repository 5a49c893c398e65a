// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCut makes a file shorter that is in use, at each stage of its use. The
// kernel sends SIGBUS for pages of a mapping that have lost their file.
func TestCut(t *testing.T) {
	data, err := os.ReadFile(buildProgram(t, "gcc", "gcc -O2 -g -static *.c"))
	if err != nil {
		t.Fatal(err)
	}
	frame := []Frame{{Func: "kept"}}
	for name, use := range map[string]func(i *Info){
		"Lookup": func(i *Info) {
			if got := i.Lookup(frame, 0x401800); len(got) != 1 || got[0] != frame[0] {
				t.Errorf("Lookup dropped what was there: %+v", got)
			}
		},
		"LookupAll": func(i *Info) {
			if got := i.LookupAll(make([]uint64, 100)); len(got) != 100 {
				t.Errorf("LookupAll has %d answers", len(got))
			}
		},
		"Rows":           func(i *Info) { i.Rows(nil, 0x401800, 0x401900) },
		"Sources":        func(i *Info) { i.Sources("*").Contains(0) },
		"Inlined":        func(i *Info) { i.Inlined([]uint64{0x401800}, true) },
		"InlinedNamed":   func(i *Info) { i.InlinedNamed(func([]byte) bool { return true }) },
		"Definition":     func(i *Info) { i.Definition(0x401800) },
		"SymbolAt":       func(i *Info) { i.SymbolAt(0x401800) },
		"SymbolNamed":    func(i *Info) { i.SymbolNamed("main") },
		"FunctionsNamed": func(i *Info) { i.FunctionsNamed(map[string]bool{"main": true}) },
		"Outermost": func(i *Info) {
			if got := i.Outermost(0x401800, "kept"); got != "kept" {
				t.Errorf("Outermost: %q", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "program")
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
			info, err := Open(file, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := info.Err(); err != nil {
				t.Errorf("before: %v", err)
			}
			if err := os.Truncate(file, 4096); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				use(info)
			}
			if err := info.Err(); err == nil || !strings.HasPrefix(err.Error(), file+": the file became shorter") {
				t.Errorf("after: %v", err)
			}
			if err := info.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCutWhileOpened has a file that is cut before its headers are read.
func TestCutWhileOpened(t *testing.T) {
	file := buildProgram(t, "gcc", "gcc -O2 -g *.c")
	data := mapPath(t, file)
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := newMapped(data, Options{}, nil); err == nil || !strings.Contains(err.Error(), "shorter") {
		t.Error(err)
	}
}

// mapPath maps a file.
func mapPath(t *testing.T, file string) []byte {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := mapFile(f)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestOtherPanics are not taken for a file that was cut.
func TestOtherPanics(t *testing.T) {
	info, err := newInfo(small(t, "-g"), Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if r := recover(); r != "mine" {
			t.Errorf("recovered %v", r)
		}
	}()
	info.InlinedNamed(func([]byte) bool { panic("mine") })
}

// Numbers of relocations in psABI x86-64, table 4.9.
const (
	psabiPC32     = 2
	psabiDTPOFF64 = 17
)

// TestRelocations changes the relocations of an object file: what cannot be
// applied is an error, at once or when something is looked up.
func TestRelocations(t *testing.T) {
	data := small(t, "-g")
	for _, test := range []struct {
		name   string
		change func(entry []byte)
		want   string
	}{
		{"as it is", func([]byte) {}, ""},
		{"a thread's variable", func(b []byte) { binary.LittleEndian.PutUint32(b[8:], psabiDTPOFF64) }, ""},
		{"relative to its place", func(b []byte) { binary.LittleEndian.PutUint32(b[8:], psabiPC32) }, "relocation 2 of EM_X86_64 is not known"},
		{"no such symbol", func(b []byte) { binary.LittleEndian.PutUint32(b[12:], 1<<20) }, "symbol 1048576"},
		{"no such place", func(b []byte) { binary.LittleEndian.PutUint64(b, 1<<40) }, "beyond the end"},
	} {
		t.Run(test.name, func(t *testing.T) {
			changed := bytes.Clone(data)
			f, err := elf.NewFile(bytes.NewReader(changed))
			if err != nil {
				t.Fatal(err)
			}
			s := f.Section(".rela.debug_info")
			if f.Machine != elf.EM_X86_64 || s == nil {
				t.Skip("no x86-64 object file with relocations")
			}
			test.change(changed[s.Offset:])
			_, err = newInfo(changed, Options{}, nil)
			lazy, lazyErr := newInfo(changed, Options{Lazy: true}, nil)
			if lazyErr != nil {
				t.Fatal(lazyErr)
			}
			lazy.Lookup(nil, 0x10)
			for _, err := range []error{err, lazy.Err()} {
				if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
					t.Errorf("%v, want %q", err, test.want)
				}
			}
		})
	}
}

// TestManyRelocations: the relocations of a section are as many as it has room for, in one table. In a sparse file,
// billions that do nothing take no disk.
func TestManyRelocations(t *testing.T) {
	const size = 64
	const most = size / minRelocated
	for _, test := range []struct {
		tables []int // with so many relocations each
		want   string
	}{
		{[]int{most}, ""},
		{[]int{most + 1}, "section .rela.debug_info: more relocations than there is room for"},
		{[]int{1, 1}, "section .debug_info: relocated by several others"},
	} {
		parts := []part{{name: ".debug_info", kind: elf.SHT_PROGBITS, contents: make([]byte, size)}, {name: ".debug_abbrev", kind: elf.SHT_PROGBITS, contents: make([]byte, 1)}}
		for _, n := range test.tables {
			parts = append(parts, part{name: ".rela.debug_info", kind: elf.SHT_RELA, link: 0, info: 1, contents: make([]byte, n*relaSize)})
		}
		_, err := newInfo(written(t, elf.ET_REL, parts...), Options{}, nil)
		if test.want == "" && err != nil || test.want != "" && (err == nil || err.Error() != test.want) {
			t.Errorf("%v: %v, want %q", test.tables, err, test.want)
		}
	}
}

// TestOtherMachine has an object file of a machine whose relocations are not
// known. Its debug info is not what it was before it is linked.
func TestOtherMachine(t *testing.T) {
	file := buildProgram(t, "clang", "clang --target=riscv64-linux-gnu -O2 -g -c three.c -o a.out -ffreestanding -D_STRING_H -Dmemset=__builtin_memset -Dmemcpy=__builtin_memcpy || exit 0")
	if _, err := os.Stat(file); err != nil {
		t.Skip("clang has no RISC-V")
	}
	if _, err := Open(file, Options{}); err == nil || !strings.Contains(err.Error(), "of EM_RISCV is not known") {
		t.Error(err)
	}
}
