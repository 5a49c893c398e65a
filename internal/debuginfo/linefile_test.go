// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLongPaths: a path that no file can have is none, and a unit remembers no more than some of its paths.
func TestLongPaths(t *testing.T) {
	dir := t.TempDir()
	source, program := filepath.Join(dir, "a.c"), filepath.Join(dir, "a")
	const functions = 100
	var text strings.Builder
	name := func(n int) string {
		if n == 0 {
			return "/" + strings.Repeat("x", mostPath)
		}
		return fmt.Sprintf("/%s%d.c", strings.Repeat("y", 2000), n)
	}
	for n := range functions {
		fmt.Fprintf(&text, "#line 1 %q\nint f%d(int x) { return x + %d; }\n", name(n), n, n)
	}
	if err := os.WriteFile(source, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-g", "-O1", "-nostdlib", "-static", "-Wl,-e,f1", "-o", program, source).CombinedOutput(); err != nil {
		t.Skipf("gcc: %v %s", err, out)
	}
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	info, err := Open(program, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer info.Close()
	for range 2 {
		found := 0
		for _, s := range symbols {
			var n int
			if _, err := fmt.Sscanf(s.Name, "f%d", &n); err != nil {
				continue
			}
			want := name(n)
			if n == 0 {
				want = ""
			}
			frames := info.Lookup(nil, s.Value)
			if len(frames) != 1 || frames[0].File != want {
				t.Fatalf("%s: %.80v…, want %.20q…", s.Name, frames, want)
			}
			found++
		}
		if found != functions {
			t.Fatalf("%d functions", found)
		}
	}
	kept := 0
	for _, u := range info.stream.units.units {
		sum := 0
		for _, p := range u.lines.paths {
			sum += len(p)
		}
		if sum != u.lines.pathText || sum > mostPaths {
			t.Errorf("paths of %d bytes are kept, %d are counted", sum, u.lines.pathText)
		}
		kept += sum
	}
	if kept == 0 {
		t.Error("no path is kept")
	}
}
