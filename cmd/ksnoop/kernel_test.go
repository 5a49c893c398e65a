// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTypesMissing: a file that is not there is told with the option that names it.
func TestTypesMissing(t *testing.T) {
	types := typesFile(t)
	for args, want := range map[string]string{
		"info --btf /nope x":                      "--btf: open /nope: ",
		"trace --dry-run --btf /nope x":           "--btf: open /nope: ",
		"trace --btf /nope x":                     "--btf: open /nope: ",
		"print --btf /nope int /dev/null":         "--btf: open /nope: ",
		"info --btf " + types + " --base /nope x": "--base: open /nope: ",
		"sym -e /nope 0":                          "open debug info /nope: no such file",
	} {
		stdout, stderr, status := ran(strings.Fields(args)...)
		if status != exitFailed || stdout != "" || !strings.HasPrefix(stderr, "ksnoop: "+want) {
			t.Errorf("%s: status %d, %q", args, status, stderr)
		}
	}
}

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
			if want := "ksnoop: --btf: " + name + ": types are read from a regular file only"; status != exitFailed || stdout != "" || !strings.HasPrefix(stderr, want) {
				t.Errorf("%q: status %d, %q", args, status, stderr)
			}
		}
	}
}
