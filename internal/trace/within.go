// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"fmt"
	"time"
)

// How long a process's memory is read, and how many such reads may wait for ever: each takes a thread.
const (
	mostMemory = time.Second
	mostStuck  = 16
)

var (
	errMemory = fmt.Errorf("to read its memory takes more than %v", mostMemory)
	errStuck  = fmt.Errorf("to read the memory of %d other processes has not ended", mostStuck)
)

// within returns what read does, unless that takes longer than mostMemory or ctx ends: read then goes on, and occupies a place
// in reading.
func within[T any](ctx context.Context, reading chan struct{}, read func() (T, error)) (T, error) {
	var none T
	select {
	case reading <- struct{}{}:
	default:
		return none, errStuck
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := read()
		<-reading
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
