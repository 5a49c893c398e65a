// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// endOnQuit makes of SIGQUIT (Ctrl-\) what SIGTERM is, a request to end. Go would
// print the stacks of all goroutines and leave a recording without its end.
func endOnQuit() {
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, unix.SIGQUIT)
	go func() {
		for range quit {
			_ = unix.Kill(os.Getpid(), unix.SIGTERM) // nothing keeps a process from signalling itself
		}
	}()
}

// ignored gets the interrupts of a process that was started to ignore them. It is never changed.
var ignored = make(chan os.Signal, 1)

// endOnInterrupt has SIGINT end ksnoop if it is ignored, as a shell without job control has what it
// starts in the background ignore it: "ksnoop ... & sleep 5; kill -INT $!" in a script is meant.
// What waits for interrupts to end in order takes them itself: a run once it is about to attach,
// see untilSignal. Before that, ksnoop ends with the status that a shell gives to what SIGINT ends;
// Go cannot end by a signal that was ignored.
func endOnInterrupt() {
	if !signal.Ignored(unix.SIGINT) {
		return
	}
	signal.Notify(ignored, unix.SIGINT)
	go func() {
		for range ignored {
			os.Exit(exitInterrupt)
		}
	}()
}

// keepOnPipe makes of SIGPIPE an error of the write, so that what is attached is taken off first:
// events of tracefs do not go with the process. To ignore the signal would do so of commands, too.
func keepOnPipe() { signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE) }

// standardOutput is where to print to.
func standardOutput() io.Writer {
	if !unseen(unix.Stdout) {
		return os.Stdout
	}
	return closedOutput{}
}

// unseen reports whether a descriptor was closed when the program started. Before
// anything else runs, Go opens /dev/null for reading and writing in its place.
// Some that start programs do the same for output that they do not want: nothing
// tells the two apart.
func unseen(fd int) bool {
	var st, null unix.Stat_t
	if unix.Fstat(fd, &st) != nil || unix.Stat(os.DevNull, &null) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != null.Rdev {
		return false
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE == unix.O_RDWR
}

// A closedOutput is a standard output that was closed. Whoever wants to see nothing
// redirects it to /dev/null.
type closedOutput struct{}

var errClosedOutput = errors.New("standard output is closed, or /dev/null that was opened for reading as well; to have nothing printed: >/dev/null")

// Write implements io.Writer.
func (closedOutput) Write([]byte) (int, error) { return 0, errClosedOutput }

// columnsOf returns what tells how many columns the terminal has that w writes to,
// 0 if it writes to none; nil if w does not know.
func columnsOf(w io.Writer) func() int {
	if w, ok := w.(interface{ Columns() int }); ok {
		return w.Columns
	}
	return nil
}
