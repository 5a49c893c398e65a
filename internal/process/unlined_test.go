// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/mappings"
)

// TestUnlined: debug info that cannot be read is told of, and what is beside a program is found.
func TestUnlined(t *testing.T) {
	const source = `#include <stdio.h>
static inline __attribute__((always_inline)) int inner(int x) { return getchar() + x; }
static inline __attribute__((always_inline)) int outer(int x) { return inner(x) * 2; }
__attribute__((noinline)) int called(int x) { return outer(x) + 1; }
int main(int argc, char **argv) { return called(argc); }
`
	const split = "mkdir build && cp a.c build && (cd build && gcc -O2 -gdwarf-5 -gsplit-dwarf -o program a.c) && mv build/* . && rmdir build"
	const cached = "gcc -O2 -g -Wl,--build-id -o program a.c && f=cache/$(readelf -n program | sed -n 's/.*Build ID: //p')/debuginfo && mkdir -p $(dirname $f) && objcopy --only-keep-debug program $f && strip program && "
	for _, test := range []struct {
		name, script string
		infos        int // that are open already
		wantInlined  bool
		want         string
	}{
		{"all there", "gcc -O2 -g -o program a.c", 0, true, ""},
		{"stripped", "gcc -O2 -s -o program a.c", 0, false, ""},
		{"32 bits", "grep -v include a.c > b.c && gcc -m32 -O2 -w -c -o program b.c", 0, false, ""},
		{"halves beside the program", split, 0, true, ""},
		{"no halves", split + " && rm *.dwo", 0, false, ".dwo: no such file or directory"},
		{"the shared file is missing", "gcc -O2 -g -o program a.c && cp program other && dwz -m shared program other && rm shared", 0, false, "program: the file that it shares with others (dwz -m) is missing"},
		{"compressed too much", "gcc -O2 -g -o program a.c && head -c 9999999 /dev/zero > zeros && objcopy --add-section .debug_addr=zeros program && objcopy --compress-debug-sections program", 0, false, "more than 64 times the file's size"},
		{"too many", "gcc -O2 -g -o program a.c", mostInfos, false, "1 file had debug info that was not read, besides the first 64"},
		{"too many, and stripped", "gcc -O2 -s -o program a.c", mostInfos, false, ""},
		{"cached", cached + "true", 0, true, ""},
		{"cached, too many", cached + "true", mostInfos, false, "1 file had debug info that was not read"},
		{"cached, damaged", cached + "echo this is no file of debug info > $f", 0, false, "/debuginfo: it does not begin like an ELF file"},
		{"no server knows it", cached + ": > $f", 0, false, ""},
		{"no server knows it, too many", cached + ": > $f", mostInfos, false, ""},
		{"a cache that cannot be entered", cached + "rm -r cache && ln -s cache cache", 0, false, ""},
		{"a cache that cannot be entered, too many", cached + "rm -r cache && ln -s cache cache", mostInfos, false, ""},
		{"a pipe in a cache", cached + "rm $f && mkfifo $f", 0, false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "a.c"), []byte(source), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("sh", "-ec", test.script)
			cmd.Dir = dir
			if said, err := cmd.CombinedOutput(); err != nil {
				t.Skipf("%v\n%s", err, said)
			}
			s := Following(os.DirFS("/"), NumberedOurs, &told{[]mappings.Event{mapped(t, filepath.Join(dir, "program"))}}, false)
			s.ShowLines(Lines{Root: "/", Caches: []string{filepath.Join(dir[1:], "cache")}, Inlined: true})
			s.infos = test.infos
			inlined := false
			e := bpf.Event{PID: 7, Time: 9}
			for at := uint64(0); at < 0x4000; at++ {
				frames := s.Of(&e, "a").AppendLines(nil, 0x7f0000000000+at, false)
				inlined = inlined || len(frames) == 3 && frames[0].Func == "inner" && frames[1].Func == "outer"
			}
			if inlined != test.wantInlined {
				t.Errorf("inlined functions: %v, want %v", inlined, test.wantInlined)
			}
			if got := s.Unlined(); got != test.want && (test.want == "" || !strings.Contains(got, test.want)) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestUnlinedOnce: a file that is dropped and read again is one file, as is one that is mapped by its inode and by its
// build ID. Files of one name in two containers are two, if nothing says that they are the same.
func TestUnlinedOnce(t *testing.T) {
	root := t.TempDir()
	var files []mapping // of processes 7, 8 and 9
	for i, id := range []string{"--build-id", "--build-id=none", "--build-id=none"} {
		program := compiled(t, "a.c", fmt.Sprintf("int main(void) { return %d; }", i), []string{"gcc", "-g", "-Wl," + id})
		in := filepath.Join(root, procOf(uint32(7+i)), "root/app")
		if err := errors.Join(os.MkdirAll(filepath.Dir(in), 0o755), os.Rename(program, in)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(in)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, mapping{file: fileID{path: "/app", inode: strconv.FormatUint(info.Sys().(*syscall.Stat_t).Ino, 10)}})
	}
	s := newSymbols(os.DirFS(root))
	s.ShowLines(Lines{Root: root})
	for range 2 {
		s.infos = mostInfos
		for i := range files {
			img, _ := (&Process{symbols: s, pid: uint32(7 + i)}).image(&files[i])
			if img == nil || (img.buildID == "") != (i > 0) {
				t.Fatalf("%+v: %+v", files[i], img)
			}
			byID, _ := (&Process{symbols: s, pid: 7}).image(&mapping{file: fileID{path: "/app", buildID: img.buildID}})
			if img.buildID != "" && byID != img {
				t.Fatal("not found by its build ID")
			}
		}
		s.keep(&image{parsed: &parsed{names: mostKept}}, nil)
	}
	if got, want := s.Unlined(), "3 files had debug info that was not read, besides the first 64"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestUnlinedErrors: an error is counted once, however often images are dropped and read again, and so many errors take
// bounded memory.
func TestUnlinedErrors(t *testing.T) {
	var u unlined
	for range 3 {
		for i := range 9 {
			u.add(fmt.Errorf("error %d", i))
		}
	}
	const want = "error 0; error 1; error 2; error 3; error 4; error 5; error 6; error 7; 1 more"
	if got := u.text(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for i := range 2 * mostSpaces {
		u.add(fmt.Errorf("error %d", i))
		u.addOver(&described{mapped: fileID{path: strconv.Itoa(i)}})
	}
	if len(u.errs) != 8 || len(u.seen) != mostSpaces || len(u.over) != mostSpaces {
		t.Errorf("%d, %d and %d are kept", len(u.errs), len(u.seen), len(u.over))
	}
}

// mapped says that process 7 has mapped the code of a program.
func mapped(t *testing.T, program string) mappings.Event {
	t.Helper()
	file, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	img, err := readImage(file)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(img.funcs, func(f function) bool { return f.name == "called" })
	e := mappings.Event{Kind: mappings.Mapped, PID: 7, TID: 7, Time: 1, Path: program, BuildID: img.buildID, Start: 0x7f0000000000, End: 0x7f0000100000}
	if i >= 0 {
		for _, p := range img.loads {
			if at := img.funcs[i].addr; at >= p.Vaddr && at-p.Vaddr < p.Filesz {
				e.Start, e.End, e.Offset = 0x7f0000000000+p.Vaddr, 0x7f0000000000+p.Vaddr+p.Filesz, p.Off
			}
		}
	}
	return e
}
