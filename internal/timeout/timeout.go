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

// Calls are calls of one kind. Do is safe for concurrent use.
type Calls struct {
	Most   int   // as many that were given up may go on
	Late   error // the call has taken too long
	GoesOn error // an earlier call of the same thing was given up, and goes on
	Many   error // Most calls were given up, and go on; or too long was waited in all

	// Patience bounds how long all calls together are waited for, less a tenth of the time that has passed; 0: nothing does.
	// Beyond it, a call is waited for only as long as Slow; beyond twice of it, there are no calls. Of a call that ends, what it
	// takes up to Slow does not count.
	Patience, Slow time.Duration

	mu      sync.Mutex
	late    map[any]bool // what they are calls of
	waited  time.Duration
	since   time.Time // of waited
	hurried bool
}

// Hurry has no call waited for longer than Slow from now on.
func (c *Calls) Hurry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hurried = true
}

// GaveUp reports whether Do returned err since it gave up, or had before, and not since the call failed or its context ended.
func (c *Calls) GaveUp(err error) bool { return errors.Is(err, c.Late) || c.Refused(err) }

// Refused reports whether err says that there was no call, because of earlier ones. Later there may be one.
func (c *Calls) Refused(err error) bool { return errors.Is(err, c.GoesOn) || errors.Is(err, c.Many) }

// Do returns what call does, unless that takes longer than limit or ctx ends. Then call goes on, nothing else is called of
// the same thing until it ends, and what it returns is closed if it is an io.Closer.
func Do[T any](ctx context.Context, c *Calls, limit time.Duration, of any, call func() (T, error)) (T, error) {
	var none T
	limit, err := c.limit(of, limit)
	if err != nil {
		return none, err
	}
	start := time.Now()
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
		c.wait(time.Since(start) - c.Slow)
		return r.value, r.err
	case <-timer.C:
		why = c.Late
	case <-ctx.Done():
		why = context.Cause(ctx)
	}
	c.wait(time.Since(start))
	c.begin(of)
	close(over)
	return none, why
}

// limit returns how long a call may take that may take so long by itself, or why there is to be none.
func (c *Calls) limit(of any, limit time.Duration) (time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.waited, c.since = max(0, c.waited-max(0, now.Sub(c.since))/10), now
	spent := c.Patience > 0 && c.waited >= c.Patience
	switch {
	case c.late[of]:
		return 0, c.GoesOn
	case len(c.late) >= c.Most, spent && c.waited >= 2*c.Patience:
		return 0, c.Many
	case spent, c.hurried:
		return min(limit, c.Slow), nil
	}
	return limit, nil
}

// wait takes note of how long a call was waited for.
func (c *Calls) wait(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waited += max(0, d)
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
