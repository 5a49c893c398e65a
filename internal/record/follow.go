// SPDX-License-Identifier: Apache-2.0

package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrInterrupted says that a recording was no longer followed, although it may grow.
var ErrInterrupted = errors.New("interrupted before the recording was complete")

// errAbandoned says that a recording without an end will never have one.
var errAbandoned = fmt.Errorf("%w: no ksnoop is writing it any more", errCut)

// A Follower reads a recording while it is written. At the end of what is there, it waits
// for more, until the writer is gone or the context ends. [Reader.Records] ends at the
// block that completes the recording.
type Follower struct {
	ctx     context.Context
	file    *os.File
	changes *os.File // inotify's; nil if there is none
	whole   bool     // all was read
}

// Follow follows a file. What is no regular file, such as a pipe, says itself when its
// writer is gone.
func Follow(ctx context.Context, file *os.File) *Follower {
	f := &Follower{ctx: ctx, file: file}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return f // it is looked at from time to time
	}
	// The descriptor's own name, since the file may have been renamed or exchanged.
	self := fmt.Sprintf("/proc/self/fd/%d", file.Fd())
	if _, err := unix.InotifyAddWatch(fd, self, unix.IN_MODIFY|unix.IN_CLOSE_WRITE); err != nil {
		unix.Close(fd)
		return f
	}
	f.changes = os.NewFile(uintptr(fd), "inotify")
	return f
}

// Close ends following. It does not close the file.
func (f *Follower) Close() error {
	if f.changes == nil {
		return nil
	}
	return f.changes.Close()
}

// Read implements io.Reader.
func (f *Follower) Read(p []byte) (int, error) {
	for abandoned := false; ; {
		n, err := f.file.Read(p)
		switch {
		case n > 0 || err != nil && err != io.EOF:
			return n, err
		case f.whole:
			return 0, io.EOF
		case f.ctx.Err() != nil:
			return 0, ErrInterrupted
		case abandoned:
			return 0, errAbandoned
		}
		// The writer may have written its last just before it was gone: read once more.
		if abandoned = !f.written(); !abandoned {
			f.wait()
		}
	}
}

// Idle reports whether nothing is there to be read now.
func (f *Follower) Idle() bool {
	at, err := f.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return true
	}
	info, err := f.file.Stat()
	return err != nil || info.Size() <= at
}

// lookAgain is how often a file is looked at that does not say when it grows: because there
// is no inotify, or because it is on a network file system.
const lookAgain = 200 * time.Millisecond

// wait waits until the file may have changed.
func (f *Follower) wait() {
	if f.changes == nil {
		select {
		case <-f.ctx.Done():
		case <-time.After(lookAgain):
		}
		return
	}
	stop := context.AfterFunc(f.ctx, func() { f.changes.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if f.changes.SetReadDeadline(time.Now().Add(lookAgain)); f.ctx.Err() != nil {
		return
	}
	var events [64 * unix.SizeofInotifyEvent]byte
	f.changes.Read(events[:]) // whatever it says, the file is looked at
}

// written reports whether somebody writes the file.
func (f *Follower) written() bool { return isLocked(f.file) }
