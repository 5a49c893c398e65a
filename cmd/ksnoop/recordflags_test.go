// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSameFile: a file is not written for two purposes, and not in the place of the recording that
// is read.
func TestSameFile(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile(recordedCalls)
	if err != nil {
		t.Fatal(err)
	}
	file, link, none := filepath.Join(dir, "a.ks"), filepath.Join(dir, "link.ks"), filepath.Join(dir, "none")
	if err := errors.Join(os.WriteFile(file, data, 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"replay", "--format", "json", "--force", "-o", file, file}, "-o " + file + " is the recording that is read"},
		{[]string{"replay", "--format", "json", "--force", "-o", file, recordedCalls, link}, "-o " + file + " is the recording that is read"},
		{[]string{"report", "--force", "-o", file, dir + "/./a.ks"}, "-o " + file + " is the recording that is read"},
		{[]string{"trace", "--record", file, "--print", "-o", link, "--force", "x"}, "--record and -o name the same file, " + file},
		{[]string{"trace", "--record", none, "--print", "-o", dir + "/./none", "x"}, "--record and -o name the same file, " + none},
	} {
		if _, errs, status := ran(c.args...); status != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%q: status %d, %s, want %s", c.args, status, errs, c.want)
		}
	}
	if now, err := os.ReadFile(file); err != nil || string(now) != string(data) {
		t.Errorf("the recording has %d bytes, %v", len(now), err)
	}
	for _, names := range [][2]string{{file, none}, {none, none + "2"}, {os.DevNull, os.DevNull}, {filepath.Join(none, "x"), filepath.Join(none, "x")}} {
		if sameFile(names[0], names[1]) {
			t.Errorf("%q are the same file", names)
		}
	}
}

// TestEndOnce: what went wrong is said once.
func TestEndOnce(t *testing.T) {
	_, errs, status := ran("replay", "-o", "/dev/full", recordedCalls)
	if status != exitFailed || strings.Count(errs, "no space left on device") != 1 {
		t.Errorf("status %d: %s", status, errs)
	}
}
