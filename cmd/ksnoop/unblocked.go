// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ksnoop/ksnoop/internal/plural"
)

// mostUnwritten is how many bytes of messages wait for a reader, and one message more. With "debug: true" a request says what the
// verifier does, in thousands of lines at once.
const mostUnwritten = 1 << 20

// An unblocked writer has what is written to it written elsewhere, where nobody may read. It never waits: messages that find no
// room are counted, and a line stands in their place.
type unblocked struct {
	to   io.Writer
	done chan struct{}

	mu      sync.Mutex // guards the rest; not held while to is written to
	more    sync.Cond  // that there is something to do
	waiting []byte
	lost    int // messages behind those that wait
	ended   bool
}

func newUnblocked(to io.Writer) *unblocked {
	u := &unblocked{to: to, done: make(chan struct{})}
	u.more.L = &u.mu
	go u.run()
	return u
}

func (u *unblocked) run() {
	defer close(u.done)
	for text := u.take(); len(text) > 0; text = u.take() {
		_, _ = u.to.Write(text)
	}
}

// take waits for messages and returns them. At the end there are none.
func (u *unblocked) take() []byte {
	u.mu.Lock()
	defer u.mu.Unlock()
	for len(u.waiting) == 0 && !u.ended {
		u.more.Wait()
	}
	text := u.waiting
	if u.lost > 0 {
		text = fmt.Appendf(text, "ksnoop: %s left out, as nobody read\n", plural.Of(u.lost, "message{s}"))
	}
	u.waiting, u.lost = nil, 0
	return text
}

// Write is safe for concurrent use.
func (u *unblocked) Write(message []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.waiting) < mostUnwritten {
		u.waiting = append(u.waiting, message...)
	} else {
		u.lost++
	}
	u.more.Signal()
	return len(message), nil
}

// end waits until all is written, but not for long, and reports whether it is.
func (u *unblocked) end() bool {
	u.mu.Lock()
	u.ended = true
	u.more.Signal()
	u.mu.Unlock()
	select {
	case <-u.done:
		return true
	case <-time.After(stopTime):
		return false
	}
}
