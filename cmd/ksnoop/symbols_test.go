// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/internal/kernel"
)

// TestOpenSymbols hands over files that are not the debug info of the running
// kernel.
func TestOpenSymbols(t *testing.T) {
	view := kernel.Open(fstest.MapFS{"proc/kallsyms": {Data: []byte("ffffffff81001000 T vfs_read\nffffffff81002000 T _etext\n")}})
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no ELF file\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ args, hint, fault string }{
		{"-k " + text, "without source lines", ""},
		{"-k " + text + " -s n", "", ""},
		{"-k /does/not/exist", "", "no such file"},
		{"-slines", "", "none of none, line and inlines"},
	} {
		var f symbolFlags
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		f.add(flags)
		var stderr bytes.Buffer
		err := flags.Parse(strings.Fields(test.args))
		if err == nil {
			err = printSymbol(t, &f, view, &stderr)
		}
		if test.fault == "" && err != nil || test.fault != "" && (err == nil || !strings.Contains(err.Error(), test.fault)) {
			t.Errorf("%s: %v, want %q", test.args, err, test.fault)
		}
		hint := stderr.String()
		if test.hint == "" && hint != "" || !strings.Contains(hint, test.hint) || strings.Count(hint, "\n") > 1 {
			t.Errorf("%s: %q on stderr, want %q", test.args, hint, test.hint)
		}
	}
}

// printSymbol opens symbols and checks that they name at least functions.
func printSymbol(t *testing.T, f *symbolFlags, view *kernel.View, stderr io.Writer) error {
	t.Helper()
	r, err := f.open(view, stderr)
	if err != nil {
		return err
	}
	frames := r.Frames(nil, 0xffffffff81001010, false)
	if got := string(frames[0].AppendName(nil)); got != "vfs_read+0x10" {
		t.Errorf("the frame is %s", got)
	}
	f.close(stderr)
	return nil
}

// TestAbsentPaths: a file or folder that is named and not there is said, also where nothing would have read it.
func TestAbsentPaths(t *testing.T) {
	needBTF(t)
	const nothing = "/does/not/exist"
	for _, c := range []struct {
		args   []string
		want   string
		status int
	}{
		{[]string{"--dry-run", "--source", nothing, "vfs_read"}, "--source: stat " + nothing, exitFailed},
		{[]string{"why", "--source", nothing, "--", "true"}, "--source: stat " + nothing, exitFailed},
		{[]string{"why", "--source", "/dev/null", "--", "true"}, "--source /dev/null: it is no folder", exitUsage},
		{[]string{"--base", nothing, "vfs_read"}, "--base goes with --btf", exitUsage},
		{[]string{"info", "--base", nothing, "vfs_read"}, "--base goes with --btf", exitUsage},
		{[]string{"info", "-k", nothing, "vfs_read"}, "-k: stat " + nothing, exitFailed},
	} {
		if stdout, stderr, status := ran(c.args...); status != c.status || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: status %d, printed %q, said %q", c.args, status, stdout, stderr)
		}
	}
}
