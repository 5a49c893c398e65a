// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// put creates and writes what Create opens.
func put(t *testing.T, name string, replace bool) {
	t.Helper()
	f, err := Create(name, replace)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("recording"); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func content(t *testing.T, name, want string) {
	t.Helper()
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Errorf("%s: %q, %v, want %q", name, got, err, want)
	}
}

// A recording is its owner's alone, whatever the umask is.
func TestCreate(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	name := filepath.Join(t.TempDir(), "new")
	put(t, name, false)
	content(t, name, "recording")
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	f, err := Create(name+"er", true)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Discard(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(name + "er"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("what was discarded is there:", err)
	}
}

// Nothing that is there is written to, unless it may be replaced; then its other
// names keep what they have.
func TestCreateExisting(t *testing.T) {
	for _, replace := range []bool{false, true} {
		dir := t.TempDir()
		at := func(name string) string { return filepath.Join(dir, name) }
		for _, err := range []error{os.WriteFile(at("file"), []byte("other"), 0o666), os.Link(at("file"), at("link")), os.Symlink("file", at("symlink")), os.Symlink("none", at("dangling"))} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"link", "symlink", "dangling"} {
			if replace {
				put(t, at(name), true)
				if info, err := os.Lstat(at(name)); err != nil || info.Mode() != 0o600 {
					t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
				}
				content(t, at(name), "recording")
				continue
			}
			if _, err := Create(at(name), false); !errors.Is(err, fs.ErrExist) {
				t.Errorf("%s: %v", name, err)
			}
		}
		content(t, at("file"), "other")
		if _, err := os.Lstat(at("none")); !errors.Is(err, fs.ErrNotExist) {
			t.Error("what a symbolic link names was made")
		}
	}
}

// A directory that is open is the same one when another gets its name.
func TestCreateIn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Symlink("none", filepath.Join(dir, "dangling"))); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	f, err := CreateIn(root, "new")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := f.Stat(); err != nil || info.Mode() != 0o600 || f.Name() != filepath.Join(dir, "new") {
		t.Errorf("%s: %v, %v", f.Name(), info, err)
	}
	for _, name := range []string{"new", "dangling"} {
		if _, err := CreateIn(root, name); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Rename(dir, dir+".moved"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir + ".moved/new"); err != nil {
		t.Error(err)
	}
	if err := f.Discard(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir + ".moved/new"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("what was discarded is there:", err)
	}
}

func TestCreateRefuses(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, want := range map[string]string{
		dir:                            "not a file, FIFO or character device",
		socket:                         "not a file, FIFO or character device",
		filepath.Join(dir, "no", "no"): "no such file or directory",
		"/dev/fd/987654":               "bad file descriptor",
		"/dev/ptmx":                    "a terminal: give a file, or redirect it",
	} {
		if _, err := Create(name, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if _, err := os.Lstat(socket); err != nil {
		t.Error("what was refused is gone:", err)
	}
}

// Devices and FIFOs are written to, and stay.
func TestCreateSpecial(t *testing.T) {
	put(t, "/dev/null", false)
	f, err := Create("/dev/full", true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("recording"); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("/dev/full: %v", err)
	}
	if err := f.Discard(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat("/dev/full"); err != nil || info.Mode()&fs.ModeCharDevice == 0 {
		t.Errorf("/dev/full: %v, %v", info, err)
	}

	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	got := make(chan string)
	go func() {
		data, err := os.ReadFile(fifo)
		got <- fmt.Sprint(string(data), err)
	}()
	put(t, fifo, true)
	if data := <-got; data != "recording<nil>" {
		t.Errorf("read from the FIFO: %s", data)
	}
}

// What another user has put into /tmp gets nothing of the kernel's memory.
func TestCreateOthersFIFO(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make somebody else's file")
	}
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		fifo, dir int // owners
		mode      fs.FileMode
		refused   bool
	}{
		{12345, 0, fs.ModeSticky | 0o777, true},
		{12345, 0, 0o755, false},
		{12345, 12345, fs.ModeSticky | 0o777, false},
		{0, 12345, fs.ModeSticky | 0o777, false},
	} {
		if err := errors.Join(os.Chown(fifo, test.fifo, 0), os.Chown(dir, test.dir, 0), os.Chmod(dir, test.mode)); err != nil {
			t.Fatal(err)
		}
		if !test.refused { // who is refused does not wait for a reader first
			reader, err := os.OpenFile(fifo, os.O_RDONLY|unix.O_NONBLOCK, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
		}
		f, err := Create(fifo, true)
		if refused := err != nil && strings.Contains(err.Error(), "another user's"); refused != test.refused {
			t.Errorf("%+v: %v", test, err)
		}
		if err == nil {
			f.Close()
		}
	}
}

// A descriptor goes on where it is: what was written before stays.
func TestCreateDescriptor(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	out, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := out.WriteString("before "); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/dev/fd", "/proc/self/fd"} {
		put(t, fmt.Sprintf("%s/%d", dir, out.Fd()), false)
		f, err := Create(fmt.Sprintf("%s/%d", dir, out.Fd()), true)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Discard(); err != nil {
			t.Error(err)
		}
	}
	if _, err := out.WriteString(" after"); err != nil {
		t.Error(err)
	}
	content(t, name, "before recordingrecording after")
}
