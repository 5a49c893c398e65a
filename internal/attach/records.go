// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"github.com/cilium/ebpf/ringbuf"
)

// ErrInterrupted is the cause of a context's end that leaves Records little time for
// what is still in the buffer: somebody waits for it to end.
var ErrInterrupted = errors.New("interrupted")

// drainTime is that time.
const drainTime = time.Second

// Records yields raw records until ctx ends and the buffer is empty: it does not
// become so unless Stop has been called, or nothing happens any more. A record is
// valid until the next one is asked for.
//
// The kernel can wake a reader for a record that finds the buffer read to its end,
// which costs the traced call more than all else, and is something that can be
// traced. So unless records are wanted at once, the reader looks by itself.
func (t *Tracer) Records(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		stop := context.AfterFunc(ctx, func() { t.reader.Flush() })
		defer stop()
		if t.options.Latency > 0 {
			t.reader.SetDeadline(time.Unix(1, 0)) // what is there is returned at once
		}
		var rec ringbuf.Record
		var deadline time.Time
		idle := false
		for n := 0; ; n++ {
			if ctx.Err() != nil && errors.Is(context.Cause(ctx), ErrInterrupted) {
				if deadline.IsZero() {
					deadline = time.Now().Add(drainTime)
				} else if n%64 == 0 && time.Now().After(deadline) {
					t.cut = t.countRest()
					return
				}
			}
			err := t.reader.ReadInto(&rec)
			switch {
			case errors.Is(err, ringbuf.ErrFlushed), errors.Is(err, os.ErrDeadlineExceeded):
				if ctx.Err() != nil {
					return
				}
				t.linger(ctx, idle)
				idle = true
				continue
			case errors.Is(err, ringbuf.ErrClosed):
				return
			case err != nil:
				yield(nil, fmt.Errorf("reading the ring buffer: %w", err))
				return
			}
			idle = false
			if !yield(rec.RawSample, nil) {
				return
			}
		}
	}
}

// countRest returns how many records are left in the buffer.
func (t *Tracer) countRest() (n uint64) {
	var rec ringbuf.Record
	t.reader.SetDeadline(time.Unix(1, 0))
	for end := t.Pending(); end > 0 && t.reader.ReadInto(&rec) == nil; n++ {
		end -= len(rec.RawSample)
	}
	return n
}

// Cut returns how many records Records has left out because there was no more time.
func (t *Tracer) Cut() uint64 { return t.cut }

// lingerSteps is how often, while it lingers, the reader looks whether the
// buffer fills up.
const lingerSteps = 4

// linger lets records collect for as long as they may wait, until a quarter of
// the buffer is in use or ctx ends. Where nothing has come lately it does not look in
// between: its timer, too, makes work that somebody may trace.
func (t *Tracer) linger(ctx context.Context, idle bool) {
	if t.options.Latency == 0 {
		return
	}
	steps := lingerSteps
	if idle {
		steps = 1
	}
	step := time.NewTicker(max(t.options.Latency/time.Duration(steps), 1))
	defer step.Stop()
	for range steps {
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
