// SPDX-License-Identifier: Apache-2.0

// Package timeout gives up on calls that may never return: reads of files and of memory that others choose, and that may lie
// on a file system of theirs, which never answers. Linux waits for such a file system even when the process is killed
// (request_wait_answer of fs/fuse/dev.c). A call that is given up goes on, in a thread of its own.
package timeout

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// Calls are calls of one kind. It is safe for concurrent use, by Do.
type Calls struct {
	Most   int   // as many that were given up may go on
	Late   error // the call has taken too long
	GoesOn error // an earlier call of the same thing was given up, and goes on
	Many   error // Most calls were given up, and go on

	mu   sync.Mutex
	late map[any]bool // what they are calls of
}

// GaveUp reports whether Do returned err since it gave up, or had before, and not since the call failed or its context ended.
func (c *Calls) GaveUp(err error) bool { return errors.Is(err, c.Late) || c.Refused(err) }

// Refused reports whether err says that there was no call, because of earlier ones. Later there may be one.
func (c *Calls) Refused(err error) bool { return errors.Is(err, c.GoesOn) || errors.Is(err, c.Many) }

// Do returns what call does, unless that takes longer than limit or ctx ends. Then call goes on, nothing else is called of
// the same thing until it ends, and what it returns is closed if it is an io.Closer.
func Do[T any](ctx context.Context, c *Calls, limit time.Duration, of any, call func() (T, error)) (T, error) {
	var none T
	if err := c.refuse(of); err != nil {
		return none, err
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result) // without room: a result is taken, or it is late
	over := make(chan struct{})
	go func() {
		v, err := call()
		select {
		case done <- result{v, err}:
			return
		case <-over:
		}
		c.end(of)
		if closer, ok := any(v).(io.Closer); ok && err == nil {
			_ = closer.Close()
		}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var why error
	select {
	case r := <-done:
		return r.value, r.err
	case <-timer.C:
		why = c.Late
	case <-ctx.Done():
		why = context.Cause(ctx)
	}
	c.begin(of)
	close(over)
	return none, why
}

// refuse says why there is to be no call of a thing.
func (c *Calls) refuse(of any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.late[of]:
		return c.GoesOn
	case len(c.late) >= c.Most:
		return c.Many
	}
	return nil
}

func (c *Calls) begin(of any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late == nil {
		c.late = map[any]bool{}
	}
	c.late[of] = true
}

func (c *Calls) end(of any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.late, of)
}
