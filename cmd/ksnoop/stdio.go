// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"

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

// standardOutput is where to print to.
func standardOutput() io.Writer {
	if !unseen(unix.Stdout) {
		return os.Stdout
	}
	return &unseenOutput{stderr: os.Stderr}
}

// unseen reports whether a descriptor was closed when the program started. Before
// anything else runs, Go opens /dev/null for reading and writing in its place.
// Some that start programs do the same for output that they do not want, so it
// is no more than likely.
func unseen(fd int) bool {
	var st, null unix.Stat_t
	if unix.Fstat(fd, &st) != nil || unix.Stat(os.DevNull, &null) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != null.Rdev {
		return false
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE == unix.O_RDWR
}

// An unseenOutput says, once, that what is written to it goes nowhere. It is no
// failure: that may be what was wanted.
type unseenOutput struct {
	stderr io.Writer
	say    sync.Once
}

// Write implements io.Writer.
func (o *unseenOutput) Write(text []byte) (int, error) {
	o.say.Do(func() {
		fmt.Fprintln(o.stderr, "ksnoop: standard output is closed, or it is /dev/null: what ksnoop prints there is lost")
	})
	return len(text), nil
}
