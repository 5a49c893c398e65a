// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
)

// TestOpenRegular: pipes, devices and directories are no files to read, and nobody waits for
// them.
func TestOpenRegular(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600), os.Mkdir(filepath.Join(dir, "dir"), 0o700),
		unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600), os.Symlink("/dev/null", filepath.Join(dir, "device"))); err != nil {
		t.Fatal(err)
	}
	root := os.DirFS(dir)
	f, err := openRegular(root, "file", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if text, err := io.ReadAll(f); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	within(t, func() {
		for _, name := range []string{"dir", "pipe", "device"} {
			if _, err := openRegular(root, name, 0); !errors.Is(err, errNotRegular) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	if _, err := openRegular(root, "nothing", 0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing: %v", err)
	}
	if _, err := openRegular(root, "../"+filepath.Base(dir)+"/file", 0); !errors.Is(err, os.ErrInvalid) {
		t.Errorf("above the root: %v", err)
	}
	if _, err := openRegular(fstest.MapFS{"a/b": {}}, "a", 0); !errors.Is(err, errNotRegular) {
		t.Errorf("a directory of a test: %v", err)
	}
}

// TestPipes: a process has made pipes of its map of generated code and of its program.
func TestPipes(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "tmp"), 0o700), unix.Mkfifo(filepath.Join(dir, "tmp/perf-7.map"), 0o600),
		unix.Mkfifo(filepath.Join(dir, "program"), 0o600)); err != nil {
		t.Fatal(err)
	}
	root := os.DirFS(dir)
	within(t, func() {
		if path, f := newSymbols(root).openPerfMap(7); f != nil {
			t.Errorf("a pipe is opened as %s", path)
		}
		if f := openMapped(root, 7, &mapping{file: fileID{path: "/program", buildID: "x"}}); f != nil {
			t.Error("a pipe is opened as a program")
		}
	})
}

// within fails the test if f waits for something.
func within(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(livetest.Patience(10 * time.Second)):
		t.Fatal("it waits")
	}
}
