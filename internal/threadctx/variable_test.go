// SPDX-License-Identifier: Apache-2.0

package threadctx

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// compile compiles testdata, and skips if that cannot be done here.
func compile(t *testing.T, command ...string) {
	t.Helper()
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Skipf("%q: %v\n%s", command, err, out)
	}
}

// TestPlace: the variable of a process is where it says itself, by each way in which code reaches it.
func TestPlace(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the options are those of x86-64")
	}
	const main, publish = "testdata/main.c", "testdata/publish.c"
	for name, c := range map[string]struct {
		cc      string
		library []string // options of the library; nil: the program has the variable
		program []string
		loaded  bool // by dlopen
		access  access
	}{
		"static PIE":             {"gcc", nil, []string{"-static-pie", "-Wl,--export-dynamic-symbol=" + variableName}, false, direct},
		"program":                {"gcc", nil, []string{"-rdynamic"}, false, direct},
		"program, not PIE":       {"gcc", nil, []string{"-no-pie", "-rdynamic"}, false, direct},
		"initial-exec":           {"gcc", []string{"-ftls-model=initial-exec"}, nil, false, slot},
		"TLSDESC":                {"gcc", []string{"-mtls-dialect=gnu2"}, nil, false, descriptor},
		"TLSDESC, bound":         {"gcc", []string{"-mtls-dialect=gnu2", "-Wl,-Bsymbolic"}, nil, false, descriptor},
		"TLSDESC, loaded":        {"gcc", []string{"-mtls-dialect=gnu2"}, nil, true, descriptor},
		"TLSDESC, large":         {"gcc", []string{"-mtls-dialect=gnu2", "-DLARGE=4096"}, []string{"-pie"}, true, descriptor},
		"TLSDESC, low heap":      {"gcc", []string{"-mtls-dialect=gnu2", "-DLARGE=4096"}, []string{"-no-pie"}, true, descriptor},
		"global dynamic":         {"gcc", []string{"-mtls-dialect=gnu"}, nil, false, index},
		"global dynamic, loaded": {"gcc", []string{"-mtls-dialect=gnu"}, nil, true, index},
		"musl, static":           {"musl-gcc", nil, []string{"-static-pie", "-Wl,--export-dynamic-symbol=" + variableName}, false, direct},
		"musl, loaded":           {"musl-gcc", []string{"-mtls-dialect=gnu"}, nil, true, index},
		"musl, TLSDESC, loaded":  {"musl-gcc", []string{"-mtls-dialect=gnu2"}, nil, true, descriptor},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			program, library := filepath.Join(dir, "main"), ""
			command := append([]string{c.cc, "-O2", "-pthread", "-o", program, main}, c.program...)
			switch {
			case c.library == nil:
				command = append(command, publish)
			default:
				library = filepath.Join(dir, "libpublish.so")
				compile(t, append([]string{c.cc, "-O2", "-fPIC", "-shared", "-o", library, publish}, c.library...)...)
				if c.loaded {
					command = append(command, "-DLOADED", "-ldl")
				} else {
					command = append(command, library)
				}
			}
			compile(t, command...)
			checkPlace(t, program, library, c.access, c.cc != "gcc")
		})
	}
}

// checkPlace runs a program, which says where its first thread has the variable and where its thread pointer points to.
func checkPlace(t *testing.T, program, library string, want access, musl bool) {
	cmd := exec.Command(program, library, "wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var address, pointer uint64
	if _, err := fmt.Sscanf(line, "0x%x 0x%x", &address, &pointer); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	has := program
	if library != "" {
		has = library
		if f := readFile(t, program); f.Variable != nil || musl != strings.Contains(f.Interpreter, "ld-musl") {
			t.Errorf("%+v of %s", f, program)
		}
	}
	file := readFile(t, has)
	if file.Variable == nil || file.Variable.access != want {
		t.Fatalf("%+v, want access %d", file.Variable, want)
	}
	dir := "/proc/" + strconv.Itoa(cmd.Process.Pid)
	memory, err := os.Open(dir + "/mem")
	if err != nil {
		t.Skip(err)
	}
	defer memory.Close()
	place, err := file.Variable.Place(memory, biasOf(t, dir+"/maps", has, file.Loads))
	if err != nil {
		t.Fatal(err)
	}
	if dynamic := library != "" && want != slot && want != descriptor; place.Module == 0 && dynamic {
		t.Errorf("%+v has no module", place)
	}
	at := pointer
	if place.Module != 0 { // the dynamic thread vector is at the second word there, glibc's with two words each
		at = word(t, memory, word(t, memory, pointer+8)+place.Module*map[bool]uint64{false: 16, true: 8}[musl])
	}
	if at += uint64(place.Offset); at != address {
		t.Errorf("%+v is %#x, want %#x", place, at, address)
	}
}

func readFile(t *testing.T, name string) *File {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Read(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func word(t *testing.T, memory *os.File, at uint64) uint64 {
	t.Helper()
	n, err := words(memory, at, 1)
	if err != nil {
		t.Fatal(err)
	}
	return n[0]
}

// biasOf returns how far the addresses of a file are from those as linked: by its first mapping.
func biasOf(t *testing.T, maps, file string, loads []elf.ProgHeader) uint64 {
	t.Helper()
	raw, err := os.ReadFile(maps)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if strings.HasSuffix(strings.TrimSpace(line), file) {
			var start uint64
			if _, err := fmt.Sscanf(line, "%x-", &start); err != nil {
				t.Fatal(err)
			}
			return start - loads[0].Vaddr
		}
	}
	t.Fatalf("%s is not mapped\n%s", file, raw)
	return 0
}

// TestRead: files that have no such variable, or claim one that cannot be.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ source, want string }{
		"other":     {"int other;", ""},
		"wanted":    {"extern __thread void *" + variableName + "; void *f(void) { return " + variableName + "; }", ""},
		"no TLS":    {"void *" + variableName + ";", "no thread-local pointer"},
		"small":     {"__thread int " + variableName + ";", "no thread-local pointer"},
		"unreached": {"__thread void *" + variableName + ";", "no code that reaches it"},
	} {
		source, library := filepath.Join(dir, "x.c"), filepath.Join(dir, "x.so")
		if err := os.WriteFile(source, []byte(c.source), 0o600); err != nil {
			t.Fatal(err)
		}
		compile(t, "gcc", "-fPIC", "-shared", "-nostdlib", "-o", library, source)
		raw, err := os.ReadFile(library)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Read(bytes.NewReader(raw))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || f.Variable != nil {
			t.Errorf("%s: %+v, %v, want %q", name, f, err, c.want)
		}
	}
	for _, text := range []string{"", "#!/bin/sh\n", "\x7fELF"} {
		if f, err := Read(strings.NewReader(text)); err != nil || f.Variable != nil {
			t.Errorf("%q: %+v, %v", text, f, err)
		}
	}
}

// TestRelocationsAreBounded: many headers may name the same bytes, which are not read for each of them.
func TestRelocationsAreBounded(t *testing.T) {
	const tables, size = 130, 1 << 20
	var raw bytes.Buffer
	header := elf.Header64{Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}, Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT), Shoff: 64, Ehsize: 64, Shentsize: 64, Shnum: tables + 1, Shstrndx: tables}
	sections := make([]elf.Section64, tables+1)
	for i := range sections {
		sections[i] = elf.Section64{Type: uint32(elf.SHT_RELA), Flags: uint64(elf.SHF_ALLOC), Off: 64 * (2 + tables), Size: size}
	}
	sections[tables] = elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: 64 * (2 + tables), Size: 1}
	for _, part := range []any{header, sections, make([]byte, size)} {
		if err := binary.Write(&raw, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	f, err := elf.NewFile(bytes.NewReader(raw.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := relocations(f, func(relocation) { n++ }); err == nil || n > mostRelocations/24 || n < size/24 {
		t.Errorf("%d relocations, %v", n, err)
	}
}

// TestNotYet: what the dynamic linker has not put in yet is no place, and neither is what cannot be read.
func TestNotYet(t *testing.T) {
	memory := make([]byte, 64)
	binary.NativeEndian.PutUint64(memory[40:], 1<<40) // a descriptor whose numbers are nowhere
	for _, v := range []Variable{{access: slot, slot: 8}, {access: index, slot: 8}, {access: descriptor, slot: 8}, {access: descriptor, slot: 32}, {access: slot, slot: 60}, {access: slot, slot: 1 << 63}} {
		if p, err := v.Place(bytes.NewReader(memory), 0); err == nil {
			t.Errorf("%+v: %+v", v, p)
		}
	}
}

// TestDescriptorARM64: the second word of a descriptor is a distance above the thread pointer, or an address.
func TestDescriptorARM64(t *testing.T) {
	const low = 0x500000 // of a heap
	memory := make([]byte, low+16)
	binary.NativeEndian.PutUint64(memory[low:], 2)
	binary.NativeEndian.PutUint64(memory[low+8:], 0x48)
	for second, want := range map[uint64]Place{16: {Offset: 16}, low: {Module: 2, Offset: 0x48}, 0x600000: {Offset: 0x600000}} {
		binary.NativeEndian.PutUint64(memory[4104:], second)
		v := Variable{access: descriptor, slot: 4096, above: true}
		if p, err := v.Place(bytes.NewReader(memory), 0); p != want || err != nil {
			t.Errorf("%#x: %+v, %v, want %+v", second, p, err, want)
		}
	}
}

// FuzzRead: no file makes it fail otherwise than by an error.
func FuzzRead(f *testing.F) {
	if raw, err := os.ReadFile("/bin/true"); err == nil {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		file, err := Read(bytes.NewReader(raw))
		if err != nil || file.Variable == nil {
			return
		}
		_, _ = file.Variable.Place(bytes.NewReader(raw), 0) // whatever it is
	})
}
