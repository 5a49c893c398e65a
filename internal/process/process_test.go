// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestParseMaps(t *testing.T) {
	const text = `00400000-00401000 r--p 00000000 fe:01 131  /bin/a b
00401000-00402000 r-xp 00001000 fe:01 131                    /bin/a b
7f0000000000-7f0000001000 r-xp 00000000 00:00 0
7ffe7a5f3000-7ffe7a5f5000 r-xp 00000000 00:00 0              [vdso]
00402000-00403000 r-xp 00000000 00:2a 7  /tmp/x\012y
`
	got, err := parseMaps(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []mapping{
		{0x401000, 0x402000, 0x1000, fileID{"fe:01", "131", "/bin/a b", ""}},
		{0x402000, 0x403000, 0, fileID{"00:2a", "7", "/tmp/x\ny", ""}},
		{0x7f0000000000, 0x7f0000001000, 0, fileID{"00:00", "0", "//anon", ""}},
		{0x7ffe7a5f3000, 0x7ffe7a5f5000, 0, fileID{"00:00", "0", "[vdso]", ""}},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(mapping{}, fileID{})); d != "" {
		t.Error(d)
	}
	for _, c := range []struct {
		addr uint64
		want int // index, -1: none
	}{{0x400fff, -1}, {0x401000, 0}, {0x401fff, 0}, {0x402000, 1}, {0x403000, -1}, {0x7f0000000fff, 2}, {1 << 63, -1}, {0, -1}} {
		m, want := mappingAt(got, c.addr), (*mapping)(nil)
		if c.want >= 0 {
			want = &got[c.want]
		}
		if m != want {
			t.Errorf("%#x: %+v, want %+v", c.addr, m, want)
		}
	}
	for _, bad := range []string{"x", "zz-2 r-xp 0 0 0", "1 r-xp 0 0 0"} {
		if _, err := parseMaps(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was taken for a mapping", bad)
		}
	}
}

// TestParseMapsLong: a process may map a file whose path has a megabyte, as often as it likes, and as much as it likes.
func TestParseMapsLong(t *testing.T) {
	path := "/" + strings.Repeat("d/", 400_000) + "f"
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, "%08x-%08x r-xp 00001000 fe:01 131 %s\n", i<<12, (i+1)<<12, path)
	}
	maps, err := parseMaps(strings.NewReader(text.String()))
	if !errors.Is(err, errCutMaps) || len(maps) != 21 { // 16 MiB of lines of 800 kB
		t.Fatalf("%d mappings, %v", len(maps), err)
	}
	for _, m := range maps {
		if m.file.path != path[:unix.PathMax] {
			t.Errorf("a path of %d bytes", len(m.file.path))
		}
	}
	l := newLives(fstest.MapFS{"proc/7/maps": {Data: []byte(text.String())}}, &told{})
	if n := l.at(7, 0); len(n.maps) != len(maps) || l.lost != 1 {
		t.Errorf("%d mappings are known, %d lost", len(n.maps), l.lost)
	}
}

// TestParseMapsLongest: of a process that has mapped a file whose path has more than a megabyte, what comes before is known.
func TestParseMapsLongest(t *testing.T) {
	const known = "00401000-00402000 r-xp 00001000 fe:01 131 /bin/a\n"
	text := known + "00500000-00501000 r-xp 00001000 fe:01 132 /" + strings.Repeat("d/", 600_000) + "f\n"
	root := fstest.MapFS{"proc/7/maps": {Data: []byte(text)}, "proc/7/task/7/stat": {Data: []byte(stat("prog", 1, 2))}}
	l := newLives(root, &told{})
	if n := l.at(7, 0); n == nil || len(n.maps) != 1 || l.lost != 1 {
		t.Errorf("known are %+v, %d lost", n, l.lost)
	}
	if p := newSymbols(root).process(7, 7, "prog"); p.space == nil || len(p.space.maps) != 1 {
		t.Errorf("%+v: %s", p.space, p.why)
	}
}

func FuzzParseMaps(f *testing.F) {
	f.Add("00401000-00402000 r-xp 00001000 fe:01 131 /bin/a b\n")
	f.Fuzz(func(t *testing.T, text string) {
		maps, err := parseMaps(strings.NewReader(text))
		if err != nil {
			return
		}
		for i := range maps {
			mappingAt(maps, maps[i].start)
		}
	})
}

func FuzzReadImage(f *testing.F) {
	f.Add("\x7fELF\x02\x01\x01")
	f.Add(string(claiming(10)) + strings.Repeat("\x01\x00\x00\x00\x02\x00\x01\x00\x10\x00\x00\x00\x00\x00\x00\x00", 15))
	f.Fuzz(func(t *testing.T, file string) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if m, err := readImage(strings.NewReader(file)); err == nil {
			m.find(0)
		}
		runtime.ReadMemStats(&after)
		// All limits together, and what slices have of room while they grow.
		const limit = 1 << 29
		if used := after.TotalAlloc - before.TotalAlloc; used > limit {
			t.Errorf("%d bytes took %d of memory", len(file), used)
		}
	})
}

// stat is a line of /proc/PID/task/TID/stat with what is read of it.
func stat(comm string, code, stack int) string {
	return "7 (" + comm + ") S" + strings.Repeat(" 0", 22) + fmt.Sprintf(" %d 0 %d 0 0\n", code, stack)
}

func TestParseStat(t *testing.T) {
	comm, id, ok := parseStat([]byte(stat("a) b (c", 26, 28)))
	if comm != "a) b (c" || id != (identity{"26", "28"}) || !ok {
		t.Errorf("%q %+v %v", comm, id, ok)
	}
	// What the kernel says of this process has its name and some address there.
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Skip(err)
	}
	if comm, id, ok = parseStat(text); !ok || !strings.HasPrefix(filepath.Base(os.Args[0]), comm) || len(id.stack) < 8 {
		t.Errorf("%q %+v %v of %s", comm, id, ok, text)
	}
	if _, _, ok := parseStat([]byte("7 (a) S 0")); ok {
		t.Error("half a line was taken")
	}
}

// TestExits: what the kernel says of a thread that ends has PF_EXITING (4) in its flags, the 9th field of proc(5).
func TestExits(t *testing.T) {
	for _, c := range []struct {
		stat string
		want bool
	}{
		{"9 (a) R) S 1 7 7 0 -1 4194368 0", false},
		{"9 (a) R) R 1 7 7 0 -1 4194372 0", true},
		{"9 (a) R 1", true},
		{"", true},
	} {
		if got := exits([]byte(c.stat)); got != c.want {
			t.Errorf("%q: %v, want %v", c.stat, got, c.want)
		}
	}
	text, err := os.ReadFile("/proc/thread-self/stat")
	if err != nil {
		t.Skip(err)
	}
	if exits(text) {
		t.Errorf("this thread ends: %s", text)
	}
}

// build compiles a C program and returns it and its functions' addresses.
func build(t *testing.T, args ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	src, out := filepath.Join(dir, "a.c"), filepath.Join(dir, "a")
	const text = "int one(int x) { return x + 1; }\nint two(int x) { return x + 2; }\nint main(void) { return one(two(3)); }\n"
	if err := os.WriteFile(src, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if msg, err := exec.Command("gcc", append(args, "-O0", "-o", out, src)...).CombinedOutput(); err != nil {
		t.Skipf("gcc: %v %s", err, msg)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// machine is one with a process 7 that runs a program, loaded so far above
// where it was linked to.
func machine(t *testing.T, program []byte, slide uint64) (fstest.MapFS, *image) {
	t.Helper()
	img, err := readImage(strings.NewReader(string(program)))
	if err != nil {
		t.Fatal(err)
	}
	var maps strings.Builder
	for _, p := range img.loads {
		start, end := p.Vaddr&^0xfff, (p.Vaddr+p.Memsz+0xfff)&^0xfff
		fmt.Fprintf(&maps, "%x-%x r-xp %x fe:01 9 /bin/prog\n", start+slide, end+slide, p.Off&^0xfff)
	}
	return fstest.MapFS{
		"proc/7/maps":          {Data: []byte(maps.String())},
		"proc/7/root/bin/prog": {Data: program},
		"proc/7/task/7/stat":   {Data: []byte(stat("prog", 1, 2))},
	}, img
}

func addressOf(t *testing.T, img *image, name string) uint64 {
	t.Helper()
	for _, f := range img.funcs {
		if f.name == name {
			return f.addr
		}
	}
	t.Fatalf("no function %s", name)
	return 0
}

// offsetOf returns where a function is in the file.
func offsetOf(t *testing.T, img *image, name string) uint64 {
	t.Helper()
	addr := addressOf(t, img, name)
	for _, l := range img.loads {
		if addr-l.Vaddr < l.Filesz {
			return addr - l.Vaddr + l.Off
		}
	}
	t.Fatalf("%s is in no part of the file", name)
	return 0
}

func TestAppendFrame(t *testing.T) {
	for _, c := range []struct {
		name  string
		args  []string
		slide uint64
	}{{"static", []string{"-static"}, 0}, {"pie", []string{"-static-pie"}, 0x7f1234560000}, {"shared", []string{"-shared", "-fPIC", "-s"}, 0x7f1234560000}} {
		t.Run(c.name, func(t *testing.T) {
			fsys, img := machine(t, build(t, c.args...), c.slide)
			p := newSymbols(fsys).process(7, 7, "prog")
			one, two := addressOf(t, img, "one")+c.slide, addressOf(t, img, "two")+c.slide
			for _, q := range []struct {
				addr     uint64
				returned bool
				want     string
			}{
				{one, false, "one+0x0 (/bin/prog)"},
				{one + 3, true, "one+0x3 (/bin/prog)"},
				{two, false, "two+0x0 (/bin/prog)"},
				{two, true, fmt.Sprintf("one+0x%x (/bin/prog)", two-one)}, // a call that ends one()
				{0x1000, false, "0x1000"},
			} {
				if got := string(p.AppendFrame(nil, q.addr, q.returned)); got != q.want {
					t.Errorf("%#x: %s, want %s", q.addr, got, q.want)
				}
			}
			if p.Missing() != "" {
				t.Error(p.Missing())
			}
		})
	}
}

// Whoever made a program chose the names of its functions and of the file.
func TestHostileNames(t *testing.T) {
	const evil, shown = "\x1b\n\u009b", `\x1b\n\xc2\x9b`
	program := bytes.ReplaceAll(build(t, "-shared", "-fPIC"), []byte("\x00one\x00"), []byte("\x00\x1b\n\x9b\x00"))
	fsys, img := machine(t, program, 0)
	fsys["proc/7/maps"].Data = bytes.ReplaceAll(fsys["proc/7/maps"].Data, []byte("/bin/prog"), []byte("/bin/"+strings.ReplaceAll(evil, "\n", `\012`)))
	fsys["proc/7/root/bin/"+evil] = fsys["proc/7/root/bin/prog"]
	one := addressOf(t, img, "\x1b\n\x9b")
	p := newSymbols(fsys).process(7, 7, "prog")
	if got, want := string(p.AppendFrame(nil, one, false)), `\x1b\n\x9b+0x0 (/bin/`+shown+")"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestHostileSection: the name of a section is shown where its table cannot be read.
func TestHostileSection(t *testing.T) {
	program := build(t, "-shared", "-fPIC")
	fsys, img := machine(t, program, 0)
	one := addressOf(t, img, "one")
	program = bytes.ReplaceAll(program, []byte("\x00.symtab\x00"), []byte("\x00*/\n\x1b[1m\x00"))
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	table := binary.LittleEndian.Uint64(program[0x28:])
	for i, s := range f.Sections {
		if s.Type == elf.SHT_SYMTAB {
			binary.LittleEndian.PutUint64(program[table+64*uint64(i)+32:], elf.Sym64Size*(mostSymbols+1))
		}
	}
	fsys["proc/7/root/bin/prog"].Data = program
	p := newSymbols(fsys).process(7, 7, "prog")
	p.AppendFrame(nil, one, false)
	if want := `/bin/prog: no names: */\n\x1b[1m: 8388609 symbols, the most are 8388608`; p.Missing() != want {
		t.Errorf("%q, want %q", p.Missing(), want)
	}
}

// A stripped Go program has a table of its own, which counts from where Go's
// code begins: in a C linker's file that is not where the code begins. Its
// addresses are those of the symbols that the program had before. Up to Go 1.25
// the table of PIE is in a section of another name.
func TestGoTable(t *testing.T) {
	const plain = "package main\n\nimport \"os\"\n\n//go:noinline\nfunc fail() { os.Exit(3) }\n\nfunc main() { fail() }\n"
	const withC = "package main\n\n// void c(void) {}\nimport \"C\"\nimport \"os\"\n\n//go:noinline\nfunc fail() { C.c(); os.Exit(3) }\n\nfunc main() { fail() }\n"
	for _, c := range []struct{ name, text, mode, section string }{
		{"plain", plain, "exe", ".gopclntab"}, {"pie", plain, "pie", ".gopclntab"}, {"cgo", withC, "exe", ".gopclntab"}, {"cgo pie", withC, "pie", ".gopclntab"},
		{"older pie", plain, "pie", ".data.rel.ro.gopclntab"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			src, whole, stripped := filepath.Join(dir, "a.go"), filepath.Join(dir, "a"), filepath.Join(dir, "b")
			if err := os.WriteFile(src, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"go", "build", "-buildmode=" + c.mode, "-o", whole, src}, {"objcopy", "--strip-all", "--rename-section", ".gopclntab=" + c.section, whole, stripped}} {
				if msg, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
					t.Fatalf("%v: %v %s", args, err, msg)
				}
			}
			addr := addressOf(t, imageOf(t, whole), "main.fail")
			img := imageOf(t, stripped)
			fn, ok := img.find(addr)
			if !ok || fn.name != "main.fail" || fn.addr != addr || !img.goCode {
				t.Errorf("%#x: %+v %v, of Go: %v", addr, fn, ok, img.goCode)
			}
			f, err := os.Open(stripped)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			left := 1 << 10
			if _, err := img.readUnwinding(f); err != nil || img.frames == nil || img.frames.row(addr, &left) == nil {
				t.Errorf("no frames: %v", err)
			}
		})
	}
}

func imageOf(t *testing.T, path string) *image {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := readImage(f)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// What was read of a process is used after its end, and of no other one.
func TestLives(t *testing.T) {
	fsys, img := machine(t, build(t, "-static"), 0)
	addr := addressOf(t, img, "one")
	const named = "one+0x0 (/bin/prog)"
	bare := fmt.Sprintf("0x%x", addr)
	s := newSymbols(fsys)
	step := func(name, comm, want, why string) {
		t.Helper()
		p := s.process(7, 7, comm)
		got := string(p.AppendFrame(nil, addr, false))
		if got != want || !strings.Contains(p.Missing(), why) || why == "" && p.Missing() != "" {
			t.Errorf("%s: %s, %q; want %s, %q", name, got, p.Missing(), want, why)
		}
	}
	step("before its exec", "sh", bare, "new name")
	step("alive", "prog", named, "")
	fsys["proc/7/task/7/stat"] = &fstest.MapFile{Data: []byte(stat("next", 3, 4))}
	step("late, after its exec", "prog", named, "")
	delete(fsys, "proc/7/task/7/stat")
	delete(fsys, "proc/7/maps")
	step("ended", "prog", named, "")
	step("ended, another program", "next", bare, "ended")
	s = newSymbols(fsys)
	step("ended before", "prog", bare, "ended")
}

// The names of this process's own functions, and of the kernel's in it.
func TestOwnProcess(t *testing.T) {
	text, err := os.ReadFile("/proc/thread-self/stat")
	if err != nil {
		t.Skip(err)
	}
	comm, _, _ := parseStat(text)
	p := newSymbols(os.DirFS("/")).process(uint32(os.Getpid()), uint32(os.Getpid()), comm)
	if p.Missing() != "" {
		t.Fatal(p.Missing())
	}
	pc, _, _, _ := runtime.Caller(0)
	// `go test -race` strips the program, in which C code comes before Go's.
	if got := string(p.AppendFrame(nil, uint64(pc), false)); !strings.HasPrefix(got, "github.com/ksnoop/ksnoop/internal/process.TestOwnProcess+0x") {
		t.Error(got)
	}
	for i := range p.space.maps {
		m := &p.space.maps[i]
		if m.file.path != vdso {
			continue
		}
		img, _ := p.image(m)
		if img == nil {
			t.Fatal("the vdso cannot be read")
		}
		for _, f := range img.funcs {
			if got := string(p.AppendFrame(nil, m.start+f.addr, false)); got != f.name+"+0x0 ([vdso])" {
				t.Errorf("%s: %s", f.name, got)
			}
		}
		if len(img.funcs) == 0 {
			t.Error("the vdso has no functions")
		}
	}
}
