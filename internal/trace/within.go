// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// How long a process's memory is read, and of how many processes such reads may wait for ever: each takes a thread.
const (
	mostMemory = time.Second
	mostStuck  = 16
)

var (
	errMemory = fmt.Errorf("to read its memory takes more than %v", mostMemory)
	errGoesOn = errors.New("an earlier read of its memory has not ended")
	errStuck  = fmt.Errorf("reads of the memory of %d processes have not ended", mostStuck)
)

// memoryReads are the processes whose memory is being read.
type memoryReads struct {
	mu   sync.Mutex
	pids map[int]bool
}

// begin takes a place for a read.
func (r *memoryReads) begin(pid int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.pids[pid]:
		return errGoesOn
	case len(r.pids) == mostStuck:
		return errStuck
	case r.pids == nil:
		r.pids = map[int]bool{}
	}
	r.pids[pid] = true
	return nil
}

func (r *memoryReads) end(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pids, pid)
}

// within returns what read does, unless that takes longer than mostMemory or ctx ends: read then goes on, and nothing else is
// read of the process until it ends.
func within[T any](ctx context.Context, reads *memoryReads, pid int, read func() (T, error)) (T, error) {
	var none T
	if err := reads.begin(pid); err != nil {
		return none, err
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := read()
		reads.end(pid)
		done <- result{v, err}
	}()
	ctx, stop := context.WithTimeoutCause(ctx, mostMemory, errMemory)
	defer stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}
