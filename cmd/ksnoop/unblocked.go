// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/ksnoop/ksnoop/internal/plural"
)

// mostUnwritten is how many messages wait for a reader.
const mostUnwritten = 256

// An unblocked writer has what is written to it written elsewhere, where nobody may read. It never waits: a message that finds no
// room is counted.
type unblocked struct {
	to      io.Writer
	waiting chan []byte
	lost    atomic.Uint64
	done    chan struct{}
}

func newUnblocked(to io.Writer) *unblocked {
	u := &unblocked{to: to, waiting: make(chan []byte, mostUnwritten), done: make(chan struct{})}
	go u.run()
	return u
}

func (u *unblocked) run() {
	defer close(u.done)
	for message := range u.waiting {
		if message == nil {
			return
		}
		_, _ = u.to.Write(message)
		if n := u.lost.Swap(0); n > 0 {
			fmt.Fprintf(u.to, "ksnoop: %s left out, as nobody read\n", plural.Of(int(n), "message{s}"))
		}
	}
}

// Write is safe for concurrent use.
func (u *unblocked) Write(message []byte) (int, error) {
	select {
	case u.waiting <- bytes.Clone(message):
	default:
		u.lost.Add(1)
	}
	return len(message), nil
}

// end waits until all is written, but not for long, and reports whether it is.
func (u *unblocked) end() bool {
	late := time.After(stopTime)
	select {
	case u.waiting <- nil:
	case <-late:
		return false
	}
	select {
	case <-u.done:
		return true
	case <-late:
		return false
	}
}
