// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ksnoop/ksnoop/internal/debuginfo/find"
)

// TestImageIsReadelf compares the functions that are read of a file with what
// "readelf -s" prints of it, for each class and byte order.
func TestImageIsReadelf(t *testing.T) {
	const text = "int one(int x) { return x + 1; }\nint two(int x) { return one(x) + 2; }\nint _start(void) { return two(3); }\n"
	for _, command := range []string{
		"gcc -static -O0", "gcc -O0 -s -rdynamic",
		"clang --target=i386-linux-gnu -fPIC -nostdlib -fuse-ld=lld -shared", "clang --target=powerpc64-linux-gnu -nostdlib -fuse-ld=lld -shared",
		"clang --target=mips-linux-gnu -nostdlib -fuse-ld=lld -shared", "clang --target=aarch64-linux-gnu -nostdlib -fuse-ld=lld -shared",
	} {
		t.Run(command, func(t *testing.T) {
			dir := t.TempDir()
			src, out := filepath.Join(dir, "a.c"), filepath.Join(dir, "a")
			source := text
			if strings.HasPrefix(command, "gcc") {
				source = strings.Replace(text, "_start", "main", 1)
			}
			if err := os.WriteFile(src, []byte(source), 0o600); err != nil {
				t.Fatal(err)
			}
			args := append(strings.Fields(command), "-o", out, src)
			if msg, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
				t.Skipf("%v: %v %s", args, err, msg)
			}
			want := readelfFunctions(t, out)
			img := imageOf(t, out)
			got := map[uint64]string{}
			for _, f := range img.funcs {
				got[f.addr] = f.name
			}
			for addr, names := range want {
				if !names[got[addr]] {
					t.Errorf("%#x: %q, want one of %v", addr, got[addr], names)
				}
			}
			if len(got) != len(want) || len(want) < 3 {
				t.Errorf("%d functions, want %d", len(got), len(want))
			}
		})
	}
}

// TestImageOfAssembler: assembler code has symbols without a size, or that are not said to be functions. gdb names the
// same addresses, and none in the procedure linkage table by what comes before.
func TestImageOfAssembler(t *testing.T) {
	for _, compiler := range []string{"gcc", "musl-gcc -static"} {
		dir := t.TempDir()
		src, out := filepath.Join(dir, "a.S"), filepath.Join(dir, "a")
		const text = `
			.text
			.globl main, typed, label, sized, inner, outer, within, last
			.type main, @function
			.type typed, @function
			.type sized, @function
			.type outer, @function
			.type within, @function
		main: call puts@PLT
			ret
		typed: nop
			nop
		label: nop
			nop
		sized: nop
		inner: nop
			nop
			.size sized, . - sized
			nop
		outer: nop
		within: nop
			.size within, . - within
			nop
			.size outer, . - outer
		last: nop
			ret
			.section .note.GNU-stack, "", @progbits
		`
		if err := os.WriteFile(src, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args := append(strings.Fields(compiler), "-o", out, src)
		if msg, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%v: %v %s", args, err, msg)
		}
		img := imageOf(t, out)
		addr := map[string]uint64{}
		for _, f := range img.funcs {
			addr[f.name] = f.addr
		}
		for place, want := range map[string]string{"_init": "_init", "_init+1": "_init", "_start": "_start", "_start+4": "_start", "main+5": "main", "typed+1": "typed", "label": "label", "label+1": "label",
			"sized": "sized", "sized+2": "sized", "outer": "outer", "within": "within", "outer+2": "outer", "last": "last", "last+1": "last", "_fini": "_fini", "_fini+2": "_fini"} {
			name, off, _ := strings.Cut(place, "+")
			n, _ := strconv.Atoi(off)
			if f, ok := img.find(addr[name] + uint64(n)); !ok || f.name != want {
				t.Errorf("%s, %s: %v %t, want %s", compiler, place, f, ok, want)
			}
			if gdb, err := exec.Command("gdb", "-batch", "-ex", "info symbol "+place, out).Output(); err != nil {
				t.Logf("not compared with gdb: %v", err)
			} else if !strings.HasPrefix(string(gdb), want+" ") {
				t.Errorf("%s, %s: gdb says %s, want %s", compiler, place, gdb, want)
			}
		}
		if f, ok := img.find(addr["sized"] + 3); ok {
			t.Errorf("%s: behind the end: %v", compiler, f)
		}
		f, err := elf.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if plt := f.Section(".plt"); plt != nil {
			if f, ok := img.find(plt.Addr + 4); ok {
				t.Errorf("%s: in the procedure linkage table: %v", compiler, f)
			}
		}
	}
}

// readelfFunctions returns the names that readelf has for each address.
func readelfFunctions(t *testing.T, file string) map[uint64]map[string]bool {
	t.Helper()
	out, err := exec.Command("readelf", "-sW", file).Output()
	if err != nil {
		t.Skip(err)
	}
	want := map[uint64]map[string]bool{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 8 || fields[3] != "FUNC" && fields[3] != "IFUNC" || fields[len(fields)-2] == "UND" {
			continue
		}
		addr, err := strconv.ParseUint(fields[1], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(fields[len(fields)-1], "@")
		if want[addr] == nil {
			want[addr] = map[string]bool{}
		}
		want[addr][name] = true
	}
	delete(want, 0)
	return want
}

// sparse is a file of any size in which all but its first bytes are zero. On a
// disk it takes a few kilobytes.
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

// headed returns the first bytes of a file: headers of sections, of which two come before the given ones, and their names.
func headed(size int, names string, sections ...elf.Section64) []byte {
	sections = append([]elf.Section64{{}, {Type: uint32(elf.SHT_STRTAB), Size: uint64(len(names))}}, sections...)
	sections[1].Off = uint64(64 + 64*len(sections))
	var b bytes.Buffer
	for _, part := range []any{elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1},
		Type:  uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64, Shoff: 64, Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: 1,
	}, sections} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			panic(err) // a bytes.Buffer takes all
		}
	}
	b.WriteString(names)
	return append(b.Bytes(), make([]byte, size-b.Len())...)
}

// claiming returns a file with a symbol table of some size at 4096.
func claiming(symbols uint64) []byte {
	return headed(4096, "\x00.symtab\x00.strtab\x00",
		elf.Section64{Name: 1, Type: uint32(elf.SHT_SYMTAB), Off: 4096, Size: symbols * elf.Sym64Size, Link: 3, Entsize: elf.Sym64Size},
		elf.Section64{Name: 9, Type: uint32(elf.SHT_STRTAB), Off: 1024, Size: 1 << 11})
}

// TestClaims has files that claim more than they have. debug/elf takes 1.9 GB
// and 20 seconds for the symbols of the first.
func TestClaims(t *testing.T) {
	full := claiming(1 << 16)
	for n := range uint64(1 << 16) { // each with a name of its own that ends where all end
		full = binary.LittleEndian.AppendUint32(full, uint32(1+n%1000))
		full = append(full, byte(elf.STT_FUNC), 0, 1, 0)
		full = binary.LittleEndian.AppendUint64(full, n+1)
		full = binary.LittleEndian.AppendUint64(full, 1)
	}
	copy(full[1025:], bytes.Repeat([]byte{'f'}, 1<<11-2))
	for _, test := range []struct {
		name  string
		file  io.ReaderAt
		want  string
		funcs int
		limit uint64 // of memory
	}{
		{"15 million symbols", sparse{claiming(15_000_000), 4096 + 24*15_000_000}, "15000000 symbols, the most are 8388608", 0, 1 << 20},
		{"as many as may be, all empty", sparse{claiming(mostSymbols), 4096 + 24*mostSymbols}, "", 0, 1 << 20},
		{"more than the file has", bytes.NewReader(claiming(1 << 20)), "", 0, 1 << 20},
		{"names inside of names", bytes.NewReader(full), "", 1 << 16, 1<<27 + 1<<25},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		img, err := readImage(test.file)
		runtime.ReadMemStats(&after)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
		if err == nil && len(img.funcs) != test.funcs {
			t.Errorf("%s: %d functions, want %d", test.name, len(img.funcs), test.funcs)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > test.limit {
			t.Errorf("%s: %d bytes of memory, the most are %d", test.name, used, test.limit)
		}
	}
}

// A counting file counts what is read of it.
type counting struct {
	io.ReaderAt
	bytes int
}

func (c *counting) ReadAt(b []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(b, off)
	c.bytes += n
	return n, err
}

// TestManyTables: of many tables of symbols, one of each kind is read.
func TestManyTables(t *testing.T) {
	const size = 1 << 22
	var tables []elf.Section64
	for range 10 {
		for _, kind := range []elf.SectionType{elf.SHT_SYMTAB, elf.SHT_DYNSYM} {
			tables = append(tables, elf.Section64{Type: uint32(kind), Off: 4096, Size: size, Link: 1})
		}
	}
	file := &counting{ReaderAt: sparse{headed(4096, "\x00", tables...), 4096 + size}}
	if _, err := readImage(file); err != nil || file.bytes < 2*size || file.bytes > 3*size {
		t.Errorf("%v, %d bytes were read, want those of two tables: %d", err, file.bytes, 2*size)
	}
}

// TestClaimsAreTold says why a file names nothing.
func TestClaimsAreTold(t *testing.T) {
	file := claiming(mostSymbols + 1)
	fsys := fstest.MapFS{
		"proc/7/maps":          {Data: []byte("1000-2000 r-xp 0 fe:01 9 /bin/prog\n3000-4000 r-xp 0 fe:01 8 /bin/text\n")},
		"proc/7/root/bin/prog": {Data: file},
		"proc/7/root/bin/text": {Data: []byte("no ELF file")},
		"proc/7/task/7/stat":   {Data: []byte(stat("prog", 1, 2))},
	}
	s := newSymbols(fsys)
	for range 2 {
		p := s.process(7, 7, "prog")
		if got := string(p.AppendFrame(nil, 0x3010, false)); got != "0x3010 (/bin/text)" || p.Missing() != "" {
			t.Errorf("%s, %q", got, p.Missing())
		}
		if got := string(p.AppendFrame(nil, 0x1010, false)); got != "0x1010 (/bin/prog)" {
			t.Error(got)
		}
		if want := "/bin/prog: no names: .symtab: 8388609 symbols, the most are 8388608"; p.Missing() != want {
			t.Errorf("%q, want %q", p.Missing(), want)
		}
	}
}

// TestInstalledNames: a stripped program has the names of the file that is installed for its build ID, if that is of the same build.
func TestInstalledNames(t *testing.T) {
	whole := build(t, "-static-pie", "-Wl,--build-id")
	dir := t.TempDir()
	file, apart := filepath.Join(dir, "file"), filepath.Join(dir, "apart")
	if err := os.WriteFile(file, whole, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][]string{{"objcopy", "--only-keep-debug", file, apart}, {"strip", file}} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v %s", c, err, out)
		}
	}
	read := func(name string) []byte {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	const slide = 0x7f1234560000
	_, img := machine(t, whole, slide)
	other := build(t, "-static-pie", "-Wl,--build-id=0x1234")
	for name, c := range map[string]struct {
		installed []byte
		want, why string
	}{
		"none":              {nil, fmt.Sprintf("0x%x (/bin/prog)", addressOf(t, img, "two")+slide), ""},
		"of the same build": {read(apart), "two+0x0 (/bin/prog)", ""},
		"of another build":  {other, fmt.Sprintf("0x%x (/bin/prog)", addressOf(t, img, "two")+slide), ".debug: it is of another build"},
		"no ELF file":       {[]byte("text"), fmt.Sprintf("0x%x (/bin/prog)", addressOf(t, img, "two")+slide), ".debug: EOF"},
	} {
		fsys, stripped := machine(t, read(file), slide)
		at, ok := find.BuildID(stripped.buildID).File()
		if !ok {
			t.Fatal("no build ID")
		}
		if c.installed != nil {
			fsys[at] = &fstest.MapFile{Data: c.installed}
		}
		s := newSymbols(fsys)
		if got := string(s.process(7, 7, "prog").AppendFrame(nil, addressOf(t, img, "two")+slide, false)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if why := s.Unlined(); (why != "") != (c.why != "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: %q", name, why)
		}
	}
}

// TestNested: an address has the innermost function that it is in, whichever end before it. A label extends up to the next symbol.
func TestNested(t *testing.T) {
	m := parsed{
		funcs:  []function{{0x100, 0x200, "outer"}, {0x120, 0x130, "inner"}, {0x140, 0x1c0, "second"}, {0x150, 0x160, "within"}, {0x1f0, 0x220, "over"}, {0x300, 0x310, "alone"}},
		labels: []function{{0x1a0, 0x1000, "passed over"}, {0x240, 0x1000, "label"}, {0x400, 0x1000, "last"}},
	}
	slices.Reverse(m.funcs)
	m.sort()
	for addr, want := range map[uint64]string{0xff: "", 0x100: "outer", 0x120: "inner", 0x12f: "inner", 0x130: "outer", 0x155: "within", 0x160: "second", 0x1a5: "second", 0x1c0: "outer",
		0x1ef: "outer", 0x1f0: "over", 0x21f: "over", 0x220: "", 0x240: "label", 0x2ff: "label", 0x30f: "alone", 0x310: "", 0x400: "last", 0xfff: "last", 0x1000: ""} {
		got := ""
		if f, ok := m.find(addr); ok {
			got = f.name
		}
		if got != want {
			t.Errorf("%#x is in %q, want %q", addr, got, want)
		}
	}
}

// TestReopened: a label of one table is no function if it is in one of another, and does not extend beyond what that has.
func TestReopened(t *testing.T) {
	m := parsed{funcs: []function{{0x100, 0x110, "known"}}, labels: []function{{0x180, 0x1000, "first"}, {0x300, 0x1000, "second"}}}
	m.sort()
	m.reopen()
	m.funcs = append(m.funcs, function{0x170, 0x190, "around"}, function{0x320, 0x330, "behind"})
	m.labels = append(m.labels, function{0x380, 0x1000, "third"})
	m.sort()
	for addr, want := range map[uint64]string{0x180: "around", 0x195: "", 0x300: "second", 0x31f: "second", 0x325: "behind", 0x335: "", 0x380: "third", 0x105: "known"} {
		got := ""
		if f, ok := m.find(addr); ok {
			got = f.name
		}
		if got != want {
			t.Errorf("%#x is in %q, want %q", addr, got, want)
		}
	}
}
