// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/mappings"
)

// TestLines compares the lines and inlined functions of a program, also of a recording, with what
// addr2line prints.
func TestLines(t *testing.T) {
	const source = `#include <stdio.h>
static inline __attribute__((always_inline)) int inner(int x) { return getchar() + x; }
static inline __attribute__((always_inline)) int outer(int x) { return inner(x) * 2; }
__attribute__((noinline)) int called(int x) { return outer(x) + 1; }
int main(int argc, char **argv) { return called(argc); }
`
	program := compiled(t, "a.c", source, []string{"gcc", "-g", "-O2", "-Wl,--build-id"})
	file, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	img, err := readImage(file)
	if err != nil {
		t.Fatal(err)
	}
	var called function
	for _, f := range img.funcs {
		if f.name == "called" {
			called = f
		}
	}
	const base = 0x7f0000000000
	event := mappings.Event{Kind: mappings.Mapped, PID: 7, TID: 7, Time: 1, Path: program, BuildID: img.buildID}
	for _, p := range img.loads {
		if called.addr >= p.Vaddr && called.addr-p.Vaddr < p.Filesz {
			event.Start, event.End, event.Offset = base+p.Vaddr, base+p.Vaddr+p.Filesz, p.Off
		}
	}
	s := Following(os.DirFS("/"), NumberedOurs, &told{{event}}, true)
	s.ShowLines(Lines{Root: "/", Inlined: true})
	recorder, recorded, e := s.NewRecorder(), NewRecorded(), bpf.Event{PID: 7, Time: 9}
	deepest := 0
	for at := called.addr; at < called.end; at++ {
		out, err := exec.Command("addr2line", "-fi", "-e", program, fmt.Sprintf("%#x", at)).Output()
		if err != nil {
			t.Skip(err)
		}
		var want, got, again []string
		for i, rest := 0, strings.Fields(string(out)); i+1 < len(rest); i += 2 {
			if !strings.Contains(rest[i+1], ":") {
				rest = append(rest[:i+1], rest[i+2:]...) // "(discriminator 1)"
			}
			want = append(want, rest[i]+" "+filepath.Base(rest[i+1]))
		}
		for _, f := range s.Of(&e, "a").AppendLines(nil, base+at, false) {
			got = append(got, fmt.Sprintf("%s %s:%d", f.Func, filepath.Base(f.File), f.Line))
		}
		deepest = max(deepest, len(got))
		if d := cmp.Diff(want, got); d != "" && !strings.Contains(string(out), "discriminator") {
			t.Errorf("%#x: %s", at, d)
		}
		if err := recorded.Add(recorder.Append(nil, &e, []bpf.UserFrame{bpf.NewUserFrame(base+at, 0, true)})); err != nil {
			t.Fatal(err)
		}
		for _, f := range recorded.Of(&e).AppendLines(nil, base+at, false) {
			again = append(again, fmt.Sprintf("%s %s:%d", f.Func, filepath.Base(f.File), f.Line))
		}
		if d := cmp.Diff(got, again); d != "" {
			t.Errorf("recorded, %#x: %s", at, d)
		}
	}
	if deepest < 3 {
		t.Errorf("%d functions at one address, want 3", deepest)
	}
}
