// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/debuginfo/find"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

const (
	release = "6.99-test"
	vmlinux = "usr/lib/debug/boot/vmlinux-" + release
	// linked is where vmlinux was linked to run, slide by how much the kernel was moved, and
	// loaded where the code of the module is.
	linked = 0xffffffff81000000
	slide  = 0x2600000
	loaded = 0xffffffffc0400000
)

// A fakeRoot is the root of a machine whose kernel is testdata/core.c, which gcc has compiled,
// with a module that is testdata/part.c.
type fakeRoot struct {
	t           *testing.T
	dir         string
	core, part  string                // the files with debug info
	coreSymbols map[string]elf.Symbol // as in the file
	partSymbols map[string]elf.Symbol
}

func newRoot(t *testing.T) *fakeRoot {
	t.Helper()
	for _, tool := range []string{"gcc", "ld", "addr2line"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	r := &fakeRoot{t: t, dir: t.TempDir()}
	r.core = filepath.Join(r.dir, vmlinux)
	object := filepath.Join(t.TempDir(), "part.o")
	r.write("proc/sys/kernel/osrelease", release+"\n")
	r.write("lib/modules/"+release+"/modules.dep", "kernel/part.ko:\n")
	r.part = filepath.Join(r.dir, "usr/lib/debug/lib/modules/"+release+"/kernel/part.ko")
	r.write("usr/lib/debug/lib/modules/"+release+"/kernel/part.ko", "")
	r.write(vmlinux, "")
	compile := []string{"gcc", "-O2", "-g", "-fno-pic", "-ffreestanding"}
	if runtime.GOARCH == "amd64" {
		compile = append(compile, "-fcf-protection=none", "-mcmodel=kernel")
	}
	r.run(append(slices.Clip(compile), "-nostdlib", "-static", "-no-pie", "-Wl,--build-id", fmt.Sprintf("-Wl,-Ttext=%#x", uint64(linked)), "-Wl,-e,_stext",
		"-o", r.core, "testdata/core.c")...)
	r.run(append(slices.Clip(compile), "-c", "-o", object, "testdata/part.c")...)
	r.run("ld", "-r", "--build-id=sha1", "-o", r.part, object)
	r.write("sys/kernel/notes", r.note(r.core))
	r.write("sys/module/part/notes/.note.gnu.build-id", r.note(r.part))
	r.write("sys/module/part/sections/.text", fmt.Sprintf("%#x\n", uint64(loaded)))
	r.coreSymbols, r.partSymbols = r.symbols(r.core), r.symbols(r.part)
	var kallsyms strings.Builder
	for name, s := range r.coreSymbols {
		fmt.Fprintf(&kallsyms, "%016x T %s\n", s.Value+slide, name)
	}
	for name, s := range r.partSymbols {
		fmt.Fprintf(&kallsyms, "%016x t %s\t[part]\n", s.Value+loaded, name)
	}
	r.write("proc/kallsyms", kallsyms.String())
	return r
}

func (r *fakeRoot) write(name, text string) {
	r.t.Helper()
	file := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *fakeRoot) run(args ...string) {
	r.t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		r.t.Fatalf("%q: %v\n%s", args, err, out)
	}
}

// note is the build ID of a file, as the kernel shows it.
func (r *fakeRoot) note(file string) string {
	r.t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	data, err := f.Section(".note.gnu.build-id").Data()
	if err != nil {
		r.t.Fatal(err)
	}
	return string(data)
}

// symbols are the functions of a file.
func (r *fakeRoot) symbols(file string) map[string]elf.Symbol {
	r.t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	all, err := f.Symbols()
	if err != nil {
		r.t.Fatal(err)
	}
	functions := map[string]elf.Symbol{}
	for _, s := range all {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			functions[s.Name] = s
		}
	}
	return functions
}

func (r *fakeRoot) open(file string) (*DebugInfo, error) {
	return OpenDebugInfo(r.dir, kernel.Open(os.DirFS(r.dir)), file)
}

// opened opens the debug info until the end of the test.
func (r *fakeRoot) opened() *DebugInfo {
	r.t.Helper()
	d, err := r.open("")
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := errors.Join(d.Err(), d.Missing(), d.Close()); err != nil {
			r.t.Error(err)
		}
	})
	return d
}

// TestModuleMoved: a module that was unloaded and loaded elsewhere has its lines there, and none where it was.
func TestModuleMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoot(t)
		r.write("proc/modules", fmt.Sprintf("part 8192 0 - Live %#x\n", uint64(loaded)))
		d := r.opened()
		resolver := New(kernel.Open(os.DirFS(r.dir)), d, LevelLine)
		const further = 0x10000
		part := r.partSymbols["part"].Value + loaded
		lines := func(addr uint64) string { return text(resolver.Frames(nil, addr, false))[0] }
		want := lines(part)
		if lines(part+further) != fmt.Sprintf("%#x", part+further) {
			t.Errorf("where nothing is: %s", lines(part+further))
		}
		kallsyms, err := os.ReadFile(filepath.Join(r.dir, "proc/kallsyms"))
		if err != nil {
			t.Fatal(err)
		}
		moved := strings.Builder{}
		for line := range strings.Lines(string(kallsyms)) {
			var addr uint64
			if _, err := fmt.Sscanf(line, "%x", &addr); err == nil && strings.Contains(line, "[part]") {
				line = fmt.Sprintf("%016x%s", addr+further, line[16:])
			}
			moved.WriteString(line)
		}
		r.write("proc/kallsyms", moved.String())
		r.write("proc/modules", fmt.Sprintf("part 8192 0 - Live %#x\n", uint64(loaded+further)))
		r.write("sys/module/part/sections/.text", fmt.Sprintf("%#x\n", uint64(loaded+further)))
		time.Sleep(2 * time.Second)
		if got := lines(part + further + 1); !strings.Contains(got, "part.c:") { // which was not asked for before
			t.Errorf("%s", got)
		}
		if got := lines(part + further); got != want || !strings.Contains(got, "part.c:") {
			t.Errorf("%s, want %s", got, want)
		}
		if got := lines(part); got != fmt.Sprintf("%#x", part) {
			t.Errorf("where it was: %s", got)
		}
	})
}

// addr2line asks GNU addr2line for functions and lines: "name file:line".
func (r *fakeRoot) addr2line(file string, addr uint64) []string {
	r.t.Helper()
	out, err := exec.Command("addr2line", "-fis", "-e", file, "-j", ".text", fmt.Sprintf("%#x", addr)).Output()
	if err != nil {
		r.t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var frames []string
	for i := 0; i+1 < len(lines); i += 2 {
		place, _, _ := strings.Cut(lines[i+1], " ")
		frames = append(frames, lines[i]+" "+place)
	}
	return frames
}

// TestLookupIsAddr2line: code of vmlinux, which was moved, and of a module is told as by GNU addr2line,
// which is told where it was linked.
func TestLookupIsAddr2line(t *testing.T) {
	r := newRoot(t)
	d := r.opened()
	for _, c := range []struct {
		module, file, function string
		symbol                 elf.Symbol
		runs, counted          uint64 // where it runs, and what addr2line -j .text begins at
	}{
		{"", r.core, "first", r.coreSymbols["first"], slide, linked},
		{"", r.core, "second", r.coreSymbols["second"], slide, linked},
		{"part", r.part, "part", r.partSymbols["part"], loaded, 0},
	} {
		for addr := c.symbol.Value; addr < c.symbol.Value+c.symbol.Size; addr++ {
			var got []string
			for _, f := range d.Lookup(nil, addr+c.runs, c.module) {
				got = append(got, fmt.Sprintf("%s %s:%d", f.Func, filepath.Base(f.File), f.Line))
			}
			if diff := cmp.Diff(r.addr2line(c.file, addr-c.counted), got); diff != "" {
				t.Errorf("%s+%#x (-want +got):\n%s", c.function, addr-c.symbol.Value, diff)
			}
		}
	}
	if got := d.Lookup(nil, loaded, "none"); len(got) != 0 {
		t.Errorf("of a module that is not there: %v", got)
	}
}

// TestRows: lines of a function are those of addr2line.
func TestRows(t *testing.T) {
	r := newRoot(t)
	d := r.opened()
	resolver := New(kernel.Open(os.DirFS(r.dir)), d, LevelLine)
	second := r.coreSymbols["second"]
	rows := resolver.Lines(nil, second.Value+slide)
	if len(rows) == 0 {
		t.Fatal("there are none")
	}
	for _, row := range rows {
		if row.Line == 0 || row.Addr < second.Value+slide || row.Addr >= second.Value+slide+second.Size {
			continue
		}
		want := r.addr2line(r.core, row.Addr-slide-linked)[0]
		if got := fmt.Sprintf("%s:%d", filepath.Base(row.File), row.Line); !strings.HasSuffix(want, " "+got) {
			t.Errorf("%#x: %s, want %s", row.Addr, got, want)
		}
	}
	if rows := New(kernel.Open(os.DirFS(r.dir)), d, LevelNone).Lines(nil, second.Value+slide); rows != nil {
		t.Errorf("lines that are not wanted: %v", rows)
	}
	if rows := resolver.Lines(nil, 4); rows != nil {
		t.Errorf("lines of no function: %v", rows)
	}
	if rows := d.Rows(nil, loaded, loaded+16, "none"); rows != nil {
		t.Errorf("lines of no module: %v", rows)
	}
}

// lineOf returns the line of a source file that has a text.
func lineOf(t *testing.T, file, text string) int {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(source), "\n") {
		if strings.Contains(line, text) {
			return i + 1
		}
	}
	t.Fatalf("%s has no %q", file, text)
	return 0
}

// TestOfFunctions: where functions are defined and inlined, and which are defined in a file, whether their addresses
// are known or only their names are.
func TestOfFunctions(t *testing.T) {
	r := newRoot(t)
	d := r.opened()
	at := func(name string, offset uint64, module string, from map[string]elf.Symbol) kernel.Function {
		return kernel.Function{Name: name, Addr: from[name].Value + offset, Module: module}
	}
	funcs := []kernel.Function{at("first", slide, "", r.coreSymbols), {Name: "second"}, at("part", loaded, "part", r.partSymbols), {Name: "other"}, {Name: "x", Module: "none"}}
	var got []string
	for _, f := range d.Definitions(funcs) {
		got = append(got, fmt.Sprintf("%s %s:%d", f.Name, filepath.Base(f.File), f.Line))
	}
	want := []string{
		fmt.Sprintf("first core.c:%d", lineOf(t, "testdata/core.c", "int first(")), fmt.Sprintf("second core.c:%d", lineOf(t, "testdata/core.c", "int second(")),
		fmt.Sprintf("part part.c:%d", lineOf(t, "testdata/part.c", "int part(")), " .:0", " .:0"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("definitions (-want +got):\n%s", d)
	}
	inlined := d.InlinedNamed("", func(name string) bool { return name == "bounded" })
	var into []string
	for _, at := range inlined {
		f := d.Into(at, "")
		into = append(into, fmt.Sprintf("%s:%d", f.Name, f.Line))
		if symbol := r.coreSymbols[f.Name]; f.Addr != symbol.Value+slide+f.Offset || f.Offset >= symbol.Size {
			t.Errorf("%+v is not in %s", f, f.Name)
		}
	}
	slices.Sort(into)
	if want := []string{fmt.Sprintf("first:%d", lineOf(t, "testdata/core.c", "return bounded")), fmt.Sprintf("second:%d", lineOf(t, "testdata/core.c", "*p = bounded"))}; !slices.Equal(into, want) {
		t.Errorf("bounded is a part of %q, want %q", into, want)
	}
	if none := d.InlinedNamed("none", func(string) bool { return true }); none != nil {
		t.Errorf("inlined in no module: %v", none)
	}
	if places := d.Inlined(funcs, true); len(places) != len(funcs) || slices.ContainsFunc(places, func(p []debuginfo.Inlining) bool { return len(p) != 0 }) {
		t.Errorf("functions that are nowhere inlined: %v", places)
	}
	core, part := d.Sources("*core.c"), d.Sources("*part.c")
	for i, want := range []struct{ core, part bool }{{true, false}, {false, false}, {false, true}, {false, false}, {false, false}} {
		if core(funcs[i]) != want.core || part(funcs[i]) != want.part {
			t.Errorf("%s is of core.c: %v, of part.c: %v", funcs[i].Name, core(funcs[i]), part(funcs[i]))
		}
	}
	if d.Vmlinux() == nil || d.Sources("*core.c") == nil {
		t.Error("nothing is known any more")
	}
}

// TestOpenRefused: debug info that is not there, is another kernel's, or cannot be placed.
func TestOpenRefused(t *testing.T) {
	r := newRoot(t)
	var refusal *find.Refusal
	if _, err := r.open(r.part); !errors.As(err, &refusal) || refusal.Path != strings.TrimPrefix(r.part, "/") {
		t.Errorf("the debug info of something else: %v", err)
	}
	if _, err := r.open(filepath.Join(r.dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if d, err := r.open(r.core); err != nil {
		t.Errorf("the file itself: %v", err)
	} else {
		d.Close()
	}
	kallsyms := filepath.Join(r.dir, "proc/kallsyms")
	for text, want := range map[string]string{
		"0000000000000000 T _stext\n": "find out where the kernel was loaded: ",
		"ffffffff81000000 T x\n":      "find out where the kernel was loaded: it has no symbol _stext",
	} {
		r.write("proc/kallsyms", text)
		if _, err := r.open(""); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s%v, want %s", text, err, want)
		}
	}
	// Without symbols there are addresses of the file.
	d, err := OpenDebugInfo(r.dir, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if f := d.Lookup(nil, r.coreSymbols["first"].Value, ""); len(f) == 0 {
		t.Error("nothing is known of an address as in the file")
	}
	// A module whose file is damaged is told.
	if err := os.Truncate(r.part, 200); err != nil {
		t.Fatal(err)
	}
	if m := d.module("part"); m != nil {
		t.Errorf("a damaged module is read")
	}
	var absent *find.AbsentError
	if err := errors.Join(os.Remove(r.core), os.Remove(kallsyms)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.open(""); !errors.As(err, &absent) {
		t.Errorf("no debug info: %v", err)
	}
	if err := os.Remove(filepath.Join(r.dir, "sys/kernel/notes")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.open(""); err == nil || !strings.HasPrefix(err.Error(), "kernel's build ID: ") {
		t.Errorf("no build ID: %v", err)
	}
}

// TestLevels: levels are read by the names that they are printed by.
func TestLevels(t *testing.T) {
	for _, l := range []Level{LevelNone, LevelLine, LevelInlines} {
		if got, err := ParseLevel(l.String()); err != nil || got != l {
			t.Errorf("%s: %v, %v", l, got, err)
		}
	}
}
