// SPDX-License-Identifier: Apache-2.0

package elfhead

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// libraries are files of the machine that tests read.
func libraries() []string {
	found, _ := filepath.Glob("/lib/*-linux-gnu/lib[cm].so.6")
	more, _ := filepath.Glob("/lib/*-linux-gnu/lib[stz]*.so.?")
	return append(found, more...)
}

// TestDWARFLimits: a small file does not make debug/elf take much memory.
func TestDWARFLimits(t *testing.T) {
	const size, most = 64 << 20, 256 << 20
	bomb, old := zeros(t, size, false), zeros(t, size, true)
	info := part{".debug_info", elf.SHT_PROGBITS, 0, 0, 0, make([]byte, 16)}
	many := []part{info}
	for range maxDebugSections {
		many = append(many, info)
	}
	five := []part{info}
	for _, name := range []string{".debug_abbrev", ".debug_line", ".debug_str", ".debug_ranges", ".debug_addr"} {
		five = append(five, part{name, elf.SHT_PROGBITS, elf.SHF_COMPRESSED, 0, 0, bomb})
	}
	for _, test := range []struct {
		name  string
		parts []part
		want  string
	}{
		{"one section", []part{info, {".debug_line", elf.SHT_PROGBITS, elf.SHF_COMPRESSED, 0, 0, bomb}}, "times as large"},
		{"in GNU's old way", []part{info, {".zdebug_line", elf.SHT_PROGBITS, 0, 0, 0, old}}, "times as large"},
		{"all in one", five, "larger than 256 MiB"},
		{"many", many, "in 1025 sections"},
	} {
		f, err := Open(bytes.NewReader(written(t, test.parts...)))
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = DWARF(f, most)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
			t.Errorf("%s: %d bytes of memory", test.name, used)
		}
	}
}

// TestLongTexts: an entry can refer to one text many times.
func TestLongTexts(t *testing.T) {
	longest := append(bytes.Repeat([]byte{'x'}, mostText), 0)
	for _, name := range []string{".debug_str", ".debug_line_str"} {
		for text, want := range map[string]error{string(longest): nil, "x\x00" + string(longest) + string(longest): nil, "x\x00x" + string(longest): ErrLimit, string(longest[:mostText]): nil} {
			f, err := Open(bytes.NewReader(written(t, part{".debug_info", elf.SHT_PROGBITS, 0, 0, 0, unitsAt(binary.LittleEndian, 4, 4, 0)}, part{name, elf.SHT_PROGBITS, 0, 0, 0, []byte(text)})))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := DWARF(f, 64<<20); !errors.Is(err, want) {
				t.Errorf("%s of %d bytes: %v, want %v", name, len(text), err, want)
			}
		}
	}
}

// TestDWARF: what compilers make is read, compressed in each way.
func TestDWARF(t *testing.T) {
	for _, flag := range []string{"-gz=none", "-gz=zlib", "-gz=zlib-gnu"} {
		file := filepath.Join(t.TempDir(), "program")
		if out, err := exec.Command("gcc", "-g", flag, "-shared", "-o", file, "../../testdata/program/three.c").CombinedOutput(); err != nil {
			t.Skipf("gcc: %v\n%s", err, out)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Open(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		d, err := DWARF(f, 1<<26)
		if err != nil {
			t.Errorf("%s: %v", flag, err)
			continue
		}
		names := 0
		for r := d.Reader(); ; {
			e, err := r.Next()
			if err != nil || e == nil {
				break
			}
			if name, _ := e.Val(dwarf.AttrName).(string); name == "three" {
				names++
			}
		}
		if names == 0 {
			t.Errorf("%s: function three is not there", flag)
		}
	}
}

// TestEmittedRelocations: the relocations that a linker leaves in a program are not read, and so not counted.
func TestEmittedRelocations(t *testing.T) {
	for _, flag := range []string{"-no-pie", "-pie"} {
		file := filepath.Join(t.TempDir(), "program")
		cmd := exec.Command("sh", "-ec", "gcc -g "+flag+" -Wl,--emit-relocs -o "+file+" *.c")
		cmd.Dir = "../../testdata/program"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("gcc: %v\n%s", err, out)
		}
		f, err := elf.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		info, relocations := uint64(0), uint64(0)
		for _, s := range f.Sections {
			switch {
			case strings.HasPrefix(s.Name, ".debug_"):
				info += s.Size
			case strings.HasPrefix(s.Name, ".rela.debug_"):
				relocations += s.Size
			}
		}
		if relocations == 0 {
			t.Skipf("%d bytes of debug info and none of its relocations", info)
		}
		d, err := DWARF(f, info)
		if err != nil {
			t.Errorf("%s: %v", flag, err)
			continue
		}
		want, err := f.DWARF()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(entries(t, want), entries(t, d)); diff != "" {
			t.Errorf("%s: %s", flag, diff)
		}
	}
}

// entries returns all entries of debug info.
func entries(t *testing.T, d *dwarf.Data) (all []*dwarf.Entry) {
	t.Helper()
	for r := d.Reader(); ; {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			return all
		}
		all = append(all, e)
	}
}
