// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A program comes with all that it takes to start it: its loader and its libraries.
func TestInstalled(t *testing.T) {
	files, err := Installed(t.Context(), "git")
	if err != nil {
		t.Fatal(err)
	}
	if files[0].Guest != "/bin/git" {
		t.Errorf("the program is %s", files[0].Guest)
	}
	for _, want := range []string{"ld-linux", "libc.so"} {
		if !slices.ContainsFunc(files, func(f File) bool { return strings.HasPrefix(filepath.Base(f.Guest), want) }) {
			t.Errorf("no %s among %v", want, files)
		}
	}
	for _, f := range files {
		if info, err := os.Lstat(f.Host); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s: %v, %v", f.Host, info, err)
		}
	}
	if _, err := Installed(t.Context(), "no-such-program"); err == nil {
		t.Error("a program that is not there was found")
	}
}
