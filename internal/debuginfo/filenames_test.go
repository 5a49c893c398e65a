// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFiles: the source files of a program are those that it was compiled from.
func TestFiles(t *testing.T) {
	const sources = "../../testdata/program"
	for _, version := range []string{"-gdwarf-5", "-gdwarf-4"} {
		program := filepath.Join(t.TempDir(), "program")
		gcc := exec.Command("gcc", version, "-O1", "-o", program, "one.c", "two.c", "three.c")
		gcc.Dir = sources
		if out, err := gcc.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", gcc, err, out)
		}
		info, err := Open(program, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer info.Close()
		for prefix, want := range map[string]string{"": "one.c three.c two.c", "t": "three.c two.c", "one": "one.c", "shared": "", "x": ""} {
			got := slices.DeleteFunc(info.Files(prefix), func(f string) bool { return strings.HasPrefix(f, "/") || strings.HasPrefix(f, "..") }) // the C library's
			if text := strings.Join(got, " "); text != want {
				t.Errorf("%s: files that begin with %q: %s, want %s", version, prefix, text, want)
			}
		}
	}
}
