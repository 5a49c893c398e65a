// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/cilium/ebpf/ringbuf"
)

// Records yields raw records until ctx ends and the buffer is empty. A record
// is valid until the next one is asked for.
//
// The kernel wakes a reader for a record that finds the buffer read to its end,
// which costs the traced call more than all else. So a reader that has caught up
// does not ask for more at once.
func (t *Tracer) Records(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		stop := context.AfterFunc(ctx, func() { t.reader.Flush() })
		defer stop()
		var rec ringbuf.Record
		for {
			err := t.reader.ReadInto(&rec)
			switch {
			case errors.Is(err, ringbuf.ErrFlushed) && ctx.Err() != nil, errors.Is(err, ringbuf.ErrClosed):
				return
			case errors.Is(err, ringbuf.ErrFlushed):
				continue
			case err != nil:
				yield(nil, fmt.Errorf("reading the ring buffer: %w", err))
				return
			}
			if !yield(rec.RawSample, nil) {
				return
			}
			if t.options.Latency > 0 && t.Pending() == 0 {
				t.linger(ctx)
			}
		}
	}
}

// lingerSteps is how often, while it lingers, the reader looks whether the
// buffer fills up.
const lingerSteps = 4

// linger lets records collect for as long as they may wait, until a quarter of
// the buffer is in use or ctx ends.
func (t *Tracer) linger(ctx context.Context) {
	step := time.NewTicker(max(t.options.Latency/lingerSteps, 1))
	defer step.Stop()
	for range lingerSteps {
		select {
		case <-ctx.Done():
			return
		case <-step.C:
			if t.Pending() > t.reader.BufferSize()/4 {
				return
			}
		}
	}
}

// Pending returns how many bytes of records wait to be read.
func (t *Tracer) Pending() int { return t.reader.AvailableBytes() }
