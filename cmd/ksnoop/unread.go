// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/destination"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// A readerWatch tells when nobody can read any more what is printed: the other end of the pipe or
// the socket was closed, as by `| head -1`. The next write would tell, too, but it may be hours
// until there is something to write.
type readerWatch struct {
	gone atomic.Bool
	end  func()
}

// watchReader calls lost once nobody can read any more what is written to out. It watches until
// close is called. Only pipes and sockets have somebody at the other end; the end of a terminal
// is a signal.
func watchReader(out io.Writer, lost func()) (*readerWatch, error) {
	w := &readerWatch{end: func() {}}
	file := fileOf(out)
	if file == nil {
		return w, nil
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return w, nil // what is wrong with it, the first write says
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if w.gone.Store(hungUp(int(file.Fd()), wake)); w.gone.Load() {
			lost()
		}
	}()
	w.end = sync.OnceFunc(func() {
		_, _ = unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // an event counter takes any number of 8 bytes
		<-done
		unix.Close(wake)
	})
	return w, nil
}

// hungUp waits until nobody can read what is written to fd, or until wake can be read, and
// reports whether it was the former. Errors and hang-ups are told without being asked for.
func hungUp(fd, wake int) bool {
	fds := []unix.PollFd{{Fd: int32(fd)}, {Fd: int32(wake), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); !errors.Is(err, unix.EINTR) {
			return err == nil && fds[0].Revents != 0
		}
	}
}

// close ends the watch.
func (w *readerWatch) close() { w.end() }

// err is the error that the next write would have if nobody could read it any more. A nil watch
// has seen nothing.
func (w *readerWatch) err() error {
	if w != nil && w.gone.Load() {
		return unix.EPIPE
	}
	return nil
}

// fileOf returns the file that is written to; nil if it is none.
func fileOf(out io.Writer) *os.File {
	switch w := out.(type) {
	case *printout:
		return fileOf(w.Writer)
	case *terminal.Writer:
		return fileOf(w.Raw())
	case *destination.File:
		return w.File
	case *os.File:
		return w
	}
	return nil
}
