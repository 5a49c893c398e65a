// SPDX-License-Identifier: Apache-2.0

package userfunc

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/code"
)

// program is the one that live tests trace: no C library, and names of all its functions.
func program(arch string) string { return "../livetest/user/testdata/user_" + arch }

// output runs a tool of the machine, or skips the test.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skip(err)
	}
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Fatalf("%s %q: %v", name, args, err)
	}
	return string(out)
}

// TestPlace compares places in the file with what binutils say of the code there.
func TestPlace(t *testing.T) {
	file := program("amd64")
	f, err := Open(file, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	listing := output(t, "objdump", "-d", "--no-show-raw-insn", "--file-offsets", file)
	// 0000000000201230 <user_open> (File Offset: 0x1230):
	heads := regexp.MustCompile(`(?m)^([0-9a-f]+) <(\w+)> \(File Offset: (0x[0-9a-f]+)\):$`).FindAllStringSubmatch(listing, -1)
	if len(heads) < 6 {
		t.Fatalf("objdump lists %d functions", len(heads))
	}
	begins := map[uint64]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ +([0-9a-f]+):\t`).FindAllStringSubmatch(listing, -1) {
		at, _ := strconv.ParseUint(m[1], 16, 64)
		begins[at] = true
	}
	for _, m := range heads {
		if m[2] == "_start" {
			continue // is no STT_FUNC
		}
		want, _ := strconv.ParseUint(m[3], 0, 64)
		fns := f.Named(m[2])
		if len(fns) != 1 || fns[0].Size == 0 {
			t.Errorf("%s: %+v", m[2], fns)
			continue
		}
		for off := range fns[0].Size + 2 {
			at, err := f.Place(&fns[0], off)
			wanted := off < fns[0].Size && begins[fns[0].Addr+off]
			if (err == nil) != wanted || err == nil && at != want+off {
				t.Errorf("%s+%#x: %#x, %v; want %#x, %v", m[2], off, at, err, want+off, wanted)
			}
		}
	}
}

// TestLibrary compares the functions of the C library with what nm lists.
func TestLibrary(t *testing.T) {
	file, err := Locate("libc.so.6", "", "amd64")
	if err != nil {
		t.Skip(err)
	}
	f, err := Open(file, "amd64")
	if err != nil {
		t.Skip(err) // another architecture
	}
	listed := 0
	for line := range strings.Lines(output(t, "nm", "-D", "--defined-only", file)) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[1] != "T" && fields[1] != "W" && fields[1] != "i" {
			continue
		}
		listed++
		addr, _ := strconv.ParseUint(fields[0], 16, 64)
		name, version, _ := strings.Cut(fields[2], "@")
		found := false
		for _, fn := range f.Named(name + "@" + strings.TrimPrefix(version, "@")) {
			found = found || fn.Addr == addr && fn.Chooser == (fields[1] == "i")
		}
		if !found {
			t.Errorf("%s", line)
		}
		if strings.HasPrefix(version, "@") { // the version of today
			if fns := f.Named(name); len(fns) != 1 || fns[0].Addr != addr || !fns[0].Default {
				t.Errorf("%s: %+v", strings.TrimSpace(line), fns)
			}
		}
	}
	if listed < 1000 {
		t.Errorf("nm lists %d functions", listed)
	}
	if fns := f.Named("strlen"); len(fns) != 1 || !fns[0].Chooser {
		t.Errorf("strlen: %+v", fns)
	}
}

// TestVectors compares where instructions begin in code of the C library with objdump: it has all
// kinds of vector instructions. What the decoder does not know must be an error, not an answer.
func TestVectors(t *testing.T) {
	file, err := Locate("libc.so.6", "", "amd64")
	if err != nil {
		t.Skip(err)
	}
	e, err := elf.Open(file)
	if err != nil {
		t.Skip(err)
	}
	defer e.Close()
	if e.Machine != elf.EM_X86_64 {
		t.Skip("not of amd64")
	}
	text := e.Section(".text")
	raw, err := text.Data()
	if err != nil {
		t.Fatal(err)
	}
	listing := output(t, "objdump", "-d", "--no-show-raw-insn", "-j", ".text", file)
	var starts []uint64
	for _, m := range regexp.MustCompile(`(?m)^ +([0-9a-f]+):\t`).FindAllStringSubmatch(listing, -1) {
		at, _ := strconv.ParseUint(m[1], 16, 64)
		starts = append(starts, at-text.Addr)
	}
	right, unknown := 0, 0
	for i := 0; i+1 < len(starts); i++ {
		at, next := starts[i], starts[i+1]
		err := code.Begins("amd64", raw[at:min(at+64, uint64(len(raw)))], next-at)
		switch {
		case err == nil:
			right++
		case strings.Contains(err.Error(), "is not known"):
			unknown++
		default:
			t.Errorf("%#x: %d bytes % x: %v", at+text.Addr, next-at, raw[at:next], err)
		}
	}
	t.Logf("%d instructions right, %d unknown to the decoder", right, unknown)
	if right < 200_000 || unknown > right/1000 {
		t.Errorf("%d instructions right, %d unknown", right, unknown)
	}
}

func TestOpenFaults(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ path, arch, want string }{
		{"/no/such/file", "amd64", "no such file"},
		{t.TempDir(), "amd64", "not a regular file"},
		{script, "amd64", "not an ELF file"},
		{program("arm64"), "amd64", "a program for arm64, and the machine is amd64"},
		{program("amd64"), "arm64", "a program for amd64, and the machine is arm64"},
	} {
		if _, err := Open(tt.path, tt.arch); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s on %s: %v, want %q", tt.path, tt.arch, err, tt.want)
		}
	}
	if f, err := Open(program("arm64"), "arm64"); err != nil || len(f.Named("user_*")) != 5 {
		t.Errorf("arm64: %v", err)
	} else if _, err := f.Place(&f.Named("user_open")[0], 2); err == nil {
		t.Error("arm64: an instruction begins at +0x2")
	} else if _, err := f.Place(&f.Named("user_open")[0], 4); err != nil {
		t.Error(err)
	}
}

func TestLocate(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tool")
	if err := os.WriteFile(file, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if at, err := Locate("tool", "relative:"+dir, "amd64"); err != nil || at != file {
		t.Errorf("%s, %v", at, err)
	}
	if at, err := Locate("./tool", dir, "amd64"); err != nil || !filepath.IsAbs(at) {
		t.Errorf("%s, %v", at, err)
	}
	if _, err := Locate("no-such-tool", dir, "amd64"); err == nil {
		t.Error("a tool that is not there")
	}
}

// FuzzFile: whatever a file claims, reading it ends, and places are in the file's code.
func FuzzFile(f *testing.F) {
	for _, arch := range []string{"amd64", "arm64"} {
		raw, err := os.ReadFile(program(arch))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, arch)
	}
	f.Fuzz(func(t *testing.T, raw []byte, arch string) {
		file, err := read(bytes.NewReader(raw), arch)
		if err != nil {
			return
		}
		for i, fn := range file.Named("*") {
			if _, err := file.Place(&fn, 0); err != nil && i < 3 {
				t.Errorf("%s: %v", fn.Name, err)
			}
		}
	})
}
