// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	"os"
	"path/filepath"
	"strings"
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

// TestReplacedLate: what had the name comes back if the new file is gone, and does not take the name from another file.
func TestReplacedLate(t *testing.T) {
	for _, taken := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "file")
		f := replacing(t, file)
		want := "old"
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if taken {
			want = "another"
			if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Discard(); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
		if all, err := os.ReadDir(filepath.Dir(file)); err != nil || len(all) != 1 {
			t.Errorf("%v, %v", all, err)
		}
	}
}

// TestReplacedLong: a file whose name leaves no room for another one is replaced all the same.
func TestReplacedLong(t *testing.T) {
	file := filepath.Join(t.TempDir(), strings.Repeat("x", 250))
	if err := replacing(t, file).Close(); err != nil {
		t.Error(err)
	}
	if all, err := os.ReadDir(filepath.Dir(file)); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// replacing opens a new file in place of an old one.
func replacing(t *testing.T, name string) *destination.File {
	t.Helper()
	if err := os.WriteFile(name, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	f, err := destination.Create(name, true)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestReplaced: what had the name of a new file is there again if nothing is written, and gone if something is.
func TestReplaced(t *testing.T) {
	write := func(f *destination.File) error { _, err := f.WriteString("new"); return err }
	for name, c := range map[string]struct {
		do   func(f *destination.File) error
		end  func(f *destination.File) error
		want string
	}{
		"written":         {write, (*destination.File).Close, "new"},
		"replaced":        {func(f *destination.File) error { return f.Replace([]byte("new")) }, (*destination.File).Close, "new"},
		"nothing written": {nil, (*destination.File).Close, ""},
		"discarded":       {nil, (*destination.File).Discard, "old"},
		"cannot be written": {func(f *destination.File) error {
			f.File.Close()
			var err error
			if f.File, err = os.Open(f.Name()); err == nil && write(f) == nil {
				t.Error("written to a file that is open for reading")
			}
			return err
		}, (*destination.File).Close, "old"},
	} {
		file := filepath.Join(t.TempDir(), "file")
		f := replacing(t, file)
		if c.do != nil {
			if err := c.do(f); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := c.end(f); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != c.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
		if all, err := os.ReadDir(filepath.Dir(file)); err != nil || len(all) != 1 {
			t.Errorf("%s: %v, %v", name, all, err)
		}
	}
}
