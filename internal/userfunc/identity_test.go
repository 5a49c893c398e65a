// SPDX-License-Identifier: Apache-2.0

package userfunc

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestReopen: what is read of a file later is of the same file, or of none.
func TestReopen(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "program")
	write := func(path string) {
		if err := os.WriteFile(path, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(path)
	f, err := Open(path, runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	again, err := f.Identity.Reopen(path)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	for name, change := range map[string]func() error{
		"replaced": func() error {
			write(path + ".new")
			return os.Rename(path+".new", path)
		},
		"a link to another": func() error {
			write(path + ".other")
			return errors.Join(os.Remove(path), os.Symlink(path+".other", path))
		},
		"removed, and a pipe": func() error { return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if again, err := f.Identity.Reopen(path); err == nil {
			again.Close()
			t.Errorf("%s: it is read", name)
		}
		if _, err := f.Marks(); err == nil || errors.Is(err, errNoMarks) {
			t.Errorf("%s: notes are read: %v", name, err)
		}
		if _, _, err := f.ownDebugInfo(); err == nil || errors.Is(err, errNoDebugInfo) {
			t.Errorf("%s: debug info is read: %v", name, err)
		}
		for i := range f.funcs {
			if f.funcs[i].Size < 16 {
				continue
			}
			if _, err := f.Place(&f.funcs[i], 8); err == nil {
				t.Errorf("%s: code is read", name)
			}
			break
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		write(path)
	}
	// Written to, without being another inode.
	if f, err = Open(path, runtime.GOARCH); err != nil {
		t.Fatal(err)
	}
	write(path)
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(out, "more"); err != nil {
		t.Fatal(err)
	}
	out.Close()
	if _, err := f.Identity.Reopen(path); !errors.Is(err, errReplaced) {
		t.Errorf("written to: %v", err)
	}
	// Written to in place, with the old size and time.
	write(path)
	f, err = Open(path, runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond) // the clock of files is coarse
	write(path)
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Identity.Reopen(path); !errors.Is(err, errReplaced) {
		t.Errorf("written to, with the time set back: %v", err)
	}
	// A recording has no identity.
	if again, err = (Identity{}).Reopen(path); err != nil {
		t.Fatal(err)
	}
	again.Close()
}
