// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTypesOfNoFile: types are read in any order, which a pipe does not do. Nor is
// one waited for.
func TestTypesOfNoFile(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{fifo, "/dev/zero", t.TempDir()} {
		for _, args := range [][]string{{"info", "--btf", name, "vfs_read"}, {"trace", "--btf", name, "vfs_read"}, {"print", "--btf", name, "int", "/dev/null"}} {
			stdout, stderr, status := ran(args...)
			if want := "ksnoop: " + name + ": types are read from a regular file only"; status != exitFailed || stdout != "" || !strings.HasPrefix(stderr, want) {
				t.Errorf("%q: status %d, %q", args, status, stderr)
			}
		}
	}
}
