// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf/ringbuf"

	"github.com/ksnoop/ksnoop/bpf"
)

// drainTime is how long Records goes on from when there is a hurry, at most until what it
// yielded then is printed: the first record of a run can take long, since names are read for it.
// What the writer and a pipe hold by then, 64 KiB each, takes a slow reader as long again: all in
// all an interrupt is to end ksnoop within two seconds.
const drainTime = time.Second / 2

// Records yields raw records until ctx has ended and the buffer is empty, or until there is
// a hurry and no more time. While the programs are on, the buffer may never be empty. A
// record is valid until the next one is asked for.
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
		var late atomic.Bool
		returned := make(chan struct{})
		defer close(returned)
		go func() {
			if t.afterHurry(drainTime, returned) {
				late.Store(true)
			}
		}()
		var rec ringbuf.Record
		for idle := false; ; {
			if late.Load() && ctx.Err() != nil {
				t.cut.Store(t.countRest())
				return
			}
			ended := ctx.Err() != nil // asked before the buffer is looked into: what was sent by then is found there
			err := t.reader.ReadInto(&rec)
			switch {
			case errors.Is(err, ringbuf.ErrFlushed), errors.Is(err, os.ErrDeadlineExceeded):
				if ended || errors.Is(err, ringbuf.ErrFlushed) && ctx.Err() != nil { // it was flushed as ctx ended
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
			t.read.Add(1)
			if !yield(rec.RawSample, nil) {
				return
			}
			t.taken.Add(roomOf(rec.RawSample))
		}
	}
}

// roomOf returns how much of the ring buffer a record takes (bpf_ringbuf_reserve of kernel/bpf/ringbuf.c).
func roomOf(record []byte) uint64 { return (uint64(len(record)) + 7 + 8) &^ 7 }

// Taken returns how many bytes of the ring buffer the records took that whoever asks Records for them has done with.
func (t *Tracer) Taken() uint64 { return t.taken.Load() }

// afterHurry waits until there is a hurry and some time has passed since. It reports false if
// it is told to stop.
func (t *Tracer) afterHurry(d time.Duration, stop <-chan struct{}) bool {
	select {
	case <-t.options.Hurry:
	case <-stop:
		return false
	}
	select {
	case <-time.After(d):
		return true
	case <-stop:
		return false
	}
}

func (t *Tracer) hurried() bool {
	select {
	case <-t.options.Hurry:
		return true
	default:
		return false
	}
}

// countRest returns how many records are left in the buffer. Marks of losses are none: what
// they stand for is in the counters.
func (t *Tracer) countRest() (n uint64) {
	var rec ringbuf.Record
	t.reader.SetDeadline(time.Unix(1, 0))
	for t.reader.ReadInto(&rec) == nil {
		if !bpf.IsLost(rec.RawSample) {
			n++
		}
		if rec.Remaining == 0 {
			break
		}
	}
	return n
}

// Cut returns how many records Records has left out because there was no more time. Another goroutine may ask
// while Records goes on.
func (t *Tracer) Cut() uint64 { return t.cut.Load() }

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

// Pending returns how many bytes of records wait to be read. From Close on there are none.
func (t *Tracer) Pending() int {
	t.looking.Lock()
	defer t.looking.Unlock()
	if t.closed {
		return 0
	}
	return t.reader.AvailableBytes()
}
