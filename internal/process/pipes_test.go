// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
)

// TestPipes: a process has made pipes of its map of generated code and of its program. They are not opened: who waits for
// that would go on.
func TestPipes(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "tmp"), 0o700), unix.Mkfifo(filepath.Join(dir, "tmp/perf-7.map"), 0o600),
		unix.Mkfifo(filepath.Join(dir, "program"), 0o600)); err != nil {
		t.Fatal(err)
	}
	mapOpened, programOpened := livetest.Opens(t, filepath.Join(dir, "tmp/perf-7.map")), livetest.Opens(t, filepath.Join(dir, "program"))
	root := os.DirFS(dir)
	within(t, func() {
		if path, f := newSymbols(root).openPerfMap(7); f != nil {
			t.Errorf("a pipe is opened as %s", path)
		}
		if f, _ := openMapped(root, 7, &mapping{file: fileID{path: "/program", buildID: "x"}}); f != nil {
			t.Error("a pipe is opened as a program")
		}
	})
	if mapOpened() || programOpened() {
		t.Error("a pipe was opened to see what it is")
	}
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
