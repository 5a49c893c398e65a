// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ksnoop/ksnoop/internal/destination"
)

// TestReplace: whoever has opened the file goes on reading what it had, its mode stays, and nothing else is left
// in its folder.
func TestReplace(t *testing.T) {
	name := filepath.Join(t.TempDir(), "metrics.prom")
	f, err := destination.Create(name, false)
	if err != nil || !f.Made() {
		t.Fatal(err)
	}
	if err := os.Chmod(name, 0o644); err != nil {
		t.Fatal(err)
	}
	var before *os.File
	for _, text := range []string{"first\n", "2nd\n", ""} {
		if err := f.Replace([]byte(text)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil || string(got) != text {
			t.Errorf("%q, %v, want %q", got, err, text)
		}
		if before == nil {
			if before, err = os.Open(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	old := make([]byte, 100)
	if n, err := before.Read(old); err != nil || string(old[:n]) != "first\n" {
		t.Errorf("who has opened it reads %q, %v", old[:n], err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if all, err := os.ReadDir(filepath.Dir(name)); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	if err := f.Discard(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(name); err == nil {
		t.Error("it is there after Discard")
	}
}

// TestDiscard: a file that has taken the name of one that is discarded stays.
func TestDiscard(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		name := filepath.Join(t.TempDir(), "file")
		f, err := destination.Create(name, false)
		if err != nil {
			t.Fatal(err)
		}
		if replaced {
			other, err := destination.Create(name, true)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
		}
		if err := f.Discard(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(name); (err == nil) != replaced {
			t.Errorf("replaced %v: %v", replaced, err)
		}
	}
}
