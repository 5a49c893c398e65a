// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/symbols"
)

const (
	fakeSlide  = 0xffffffff81000000
	fakeModule = 0xffffffffc0200000
)

// fakeKernel makes the files of a kernel, for which a program stands: it has a
// symbol _stext, its build ID is that of the kernel, and kallsyms says it was
// moved. It has a module m, which defines the function three a second time.
func fakeKernel(t *testing.T) (root string) {
	t.Helper()
	program, dir := symProgram(t, "-Wl,--defsym=_stext=main", "-Wl,--build-id")
	module := filepath.Join(t.TempDir(), "m.ko")
	cmd := exec.Command("gcc", "-O2", "-g", "-r", "-nostdlib", "-Wl,--build-id", "three.c", "-o", module)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	var kallsyms bytes.Buffer
	notes := appendFakeSymbols(t, &kallsyms, program, "", func(*elf.Section) uint64 { return fakeSlide })
	sections := map[string][]byte{}
	next := uint64(fakeModule)
	moduleNotes := appendFakeSymbols(t, &kallsyms, module, "\t[m]", func(s *elf.Section) uint64 {
		file := "sys/module/m/sections/" + s.Name
		if sections[file] == nil {
			sections[file] = fmt.Appendf(nil, "%#x\n", next)
			next += 1 << 12
		}
		addr, err := strconv.ParseUint(strings.TrimSpace(string(sections[file])), 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		return addr
	})
	files := map[string][]byte{
		"proc/sys/kernel/osrelease":                             []byte("6.12.0-test\n"),
		"proc/kallsyms":                                         kallsyms.Bytes(),
		"sys/kernel/notes":                                      notes,
		"usr/lib/debug/boot/vmlinux-6.12.0-test":                read(t, program),
		"sys/module/m/notes/.note.gnu.build-id":                 moduleNotes,
		"lib/modules/6.12.0-test/modules.dep":                   []byte("kernel/lib/m.ko.xz:\n"),
		"usr/lib/debug/lib/modules/6.12.0-test/kernel/lib/m.ko": read(t, module),
	}
	maps.Copy(files, sections)
	root = t.TempDir()
	for name, data := range files {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// appendFakeSymbols appends the functions of a file, whose sections are moved by
// what place says, and returns its build ID.
func appendFakeSymbols(t *testing.T, kallsyms *bytes.Buffer, file, suffix string, place func(*elf.Section) uint64) (notes []byte) {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if notes, err = f.Section(".note.gnu.build-id").Data(); err != nil {
		t.Fatal(err)
	}
	table, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range table {
		if s.Section != elf.SHN_UNDEF && (elf.ST_TYPE(s.Info) == elf.STT_FUNC || s.Name == "_stext") {
			fmt.Fprintf(kallsyms, "%016x T %s%s\n", s.Value+place(f.Sections[s.Section]), s.Name, suffix)
		}
	}
	return notes
}

// TestKernelSources selects functions of vmlinux and of a module by file.
func TestKernelSources(t *testing.T) {
	root := fakeKernel(t)
	view := kernel.Open(os.DirFS(root))
	info, err := symbols.OpenDebugInfo(root, view, "")
	if err != nil {
		t.Fatal(err)
	}
	defer info.Close()
	for glob, want := range map[string][]string{
		"t*.c":    {"parse", "push", "push[m]", "rare", "send", "send[m]", "three", "three[m]", "two", "unused"},
		"three.c": {"push", "push[m]", "send", "send[m]", "three", "three[m]"},
		"m.c":     nil,
	} {
		funcs, err := view.Select(info.Sources(glob))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, fn := range funcs {
			got = append(got, fn.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", glob, diff)
		}
	}
}

// TestSymMistyped: only what is neither an address nor a symbol was mistyped.
func TestSymMistyped(t *testing.T) {
	var f symFlags
	source, err := newKernelSource(fakeKernel(t), &f.kernel, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer source.close()
	s := symbolizer{flags: &f, source: source}
	for text, want := range map[string]string{
		"three": "", "three+0x1": "", "0": "", "ffffffffffffffff": "", "0xdead": "",
		"vfs_raed":  `"vfs_raed" is neither an address nor a symbol, with or without an offset`,
		"xyz three": `"xyz three" is neither`,
	} {
		err := s.unknown([]string{text})
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want) || statusOf(err) != exitUsage) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	file, err := os.Open(typesFile(t))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	view, err := kernel.OpenBTF(file, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	s.source = &kernelSource{view: view}
	if err := s.unknown([]string{"vfs_raed+0x10"}); err == nil || !strings.HasSuffix(err.Error(), `; did you mean "vfs_read"?`) {
		t.Errorf("no suggestion: %v", err)
	}
}

// TestSymOfKernel asks for addresses of a kernel and its module, in the ways
// that kernels write them.
func TestSymOfKernel(t *testing.T) {
	root := fakeKernel(t)
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"function", []string{"three"}, "three at three.c:"},
		{"function of the module", []string{"three+0x0/0x10 [m]"}, "three at three.c:"},
		{"no module without a space", []string{"three.cold[m]"}, "?? at ??:?"},
		{"rare part", []string{"three.cold+0x1/0x5 [m]"}, "three.cold at three.c:"},
		{"far behind the module", []string{fmt.Sprintf("%x", uint64(fakeModule+1<<20))}, "?? at ??:?"},
		{"no such function", []string{"four"}, "?? at ??:?"},
		{"no such module", []string{"three [n]"}, "?? at ??:?"},
	} {
		var stderr, out bytes.Buffer
		f := symFlags{pretty: true}
		source, err := newKernelSource(root, &f.kernel, &stderr)
		if err != nil {
			t.Fatal(err)
		}
		s := symbolizer{flags: &f, source: source, w: bufio.NewWriter(&out)}
		if err := errors.Join(s.answer(test.args), s.w.Flush(), source.close()); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.Contains(got, test.want) || stderr.Len() > 0 {
			t.Errorf("%s: %s, %q on stderr, want %s", test.name, got, &stderr, test.want)
		}
	}
}

// TestSymOfDamagedModule has a module whose relocations cannot be applied. That
// is no answer like "??", and an address of the kernel is still answered.
func TestSymOfDamagedModule(t *testing.T) {
	root := fakeKernel(t)
	file := filepath.Join(root, "usr/lib/debug/lib/modules/6.12.0-test/kernel/lib/m.ko")
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data := read(t, file)
	const typeAt, unknown = 8, 200 // in Elf64_Rela; no machine has so many kinds of 32 bits
	binary.LittleEndian.PutUint32(data[f.Section(".rela.debug_info").Offset+typeAt:], unknown)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"three": "", "three [m]": "m.ko: section .rela.debug_info: relocation 200 of "} {
		var stderr, out bytes.Buffer
		f := symFlags{pretty: true}
		source, err := newKernelSource(root, &f.kernel, &stderr)
		if err != nil {
			t.Fatal(err)
		}
		s := symbolizer{flags: &f, source: source, w: bufio.NewWriter(&out)}
		err = s.answer([]string{text})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if err := errors.Join(s.w.Flush(), source.close()); err != nil || (want == "") != (out.Len() > 0) {
			t.Errorf("%s: printed %q, %v", text, &out, err)
		}
	}
}

// TestSymWithoutDebugInfo leaves symbols only, and says so.
func TestSymWithoutDebugInfo(t *testing.T) {
	root := fakeKernel(t)
	if err := os.RemoveAll(filepath.Join(root, "usr")); err != nil {
		t.Fatal(err)
	}
	var stderr, out bytes.Buffer
	f := symFlags{pretty: true}
	source, err := newKernelSource(root, &f.kernel, &stderr)
	if err != nil {
		t.Fatal(err)
	}
	s := symbolizer{flags: &f, source: source, w: bufio.NewWriter(&out)}
	if err := errors.Join(s.answer([]string{"three+1", "three+2 [m]"}), s.w.Flush(), source.close()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("three+0x1 at ??:?\nthree+0x2 at ??:?\n", out.String()); diff != "" {
		t.Error(diff)
	}
	if hint := stderr.String(); !strings.Contains(hint, "no debug info of kernel 6.12.0-test") || strings.Count(hint, "\n") != 1 {
		t.Errorf("stderr: %q, want one hint", hint)
	}
}
