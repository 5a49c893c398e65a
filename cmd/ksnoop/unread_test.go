// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// pipe returns the ends of what two processes are connected by.
func pipe(t *testing.T, socket bool) (read, write *os.File) {
	t.Helper()
	var fds [2]int
	var err error
	if socket {
		fds, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	} else {
		err = unix.Pipe2(fds[:], unix.O_CLOEXEC)
	}
	if err != nil {
		t.Fatal(err)
	}
	read, write = os.NewFile(uintptr(fds[0]), "read"), os.NewFile(uintptr(fds[1]), "write")
	t.Cleanup(func() { read.Close(); write.Close() })
	return read, write
}

// TestWatchReader: that nobody reads any more is told without a write, and only then.
func TestWatchReader(t *testing.T) {
	for _, socket := range []bool{false, true} {
		read, write := pipe(t, socket)
		lost := make(chan struct{})
		w, err := watchReader(&printout{Writer: terminal.NewWriter(write)}, func() { close(lost) })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := write.Write([]byte("unread")); err != nil {
			t.Fatal(err)
		}
		select {
		case <-lost:
			t.Fatalf("socket %t: it was told although there is a reader", socket)
		case <-time.After(50 * time.Millisecond):
		}
		read.Close()
		select {
		case <-lost:
		case <-time.After(livetest.Patience(20 * time.Second)):
			t.Fatalf("socket %t: nothing was told", socket)
		}
		if err := w.err(); err != unix.EPIPE {
			t.Errorf("socket %t: %v", socket, err)
		}
		w.close()
		w.close() // twice does no harm
	}
}

// TestWatchNoReader: of what has no reader at its other end nothing is told, and watching ends.
func TestWatchNoReader(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	_, write := pipe(t, false)
	for _, out := range []io.Writer{file, null, write, io.Discard, closedOutput{}} {
		w, err := watchReader(out, func() { t.Errorf("%T: it was told", out) })
		if err != nil {
			t.Fatal(err)
		}
		w.close()
		if err := w.err(); err != nil {
			t.Errorf("%T: %v", out, err)
		}
	}
}

// TestFollowReaderGone: who follows a recording that does not grow ends when nobody reads any more
// what it prints.
func TestFollowReaderGone(t *testing.T) {
	data, err := os.ReadFile("../../testdata/calls.ks")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "growing.ks"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(data[:len(data)-1]); err != nil {
		t.Fatal(err)
	}
	// This is somebody who is writing it.
	if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		t.Fatal(err)
	}
	c, stderr := program(t, `exec "$0" replay --follow "$1"`, file.Name())
	stdout, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stdout, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	stdout.Close()
	if err := c.Wait(); c.ProcessState.ExitCode() != exitPipe || stderr.Len() > 0 {
		t.Errorf("%v, %q", err, stderr)
	}
}
