// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
)

// print writes the calls view until ctx ends or enough was printed, then
// detaches and writes what was still on its way.
func (t *tracing) print(ctx context.Context, tracer *attach.Tracer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w := bufio.NewWriterSize(t.stdout, 64<<10)
	calls := output.NewCalls()
	buf := calls.AppendHeader(nil)
	if _, err := w.Write(buf); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var e event.Event
	printed := uint64(0)
	for raw, err := range tracer.Records(ctx) {
		if err != nil {
			return err
		}
		if err := event.Decode(t.plan, raw, &e); err != nil {
			return err
		}
		if buf, err = calls.AppendEvent(buf[:0], &e); err != nil {
			return err
		}
		if _, err := w.Write(buf); err != nil {
			return err
		}
		if tracer.Pending() == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
		if printed++; printed == t.flags.count {
			break
		}
	}
	return w.Flush()
}

// losses says what each counter of the engine means to a person.
var losses = [bpf.Counters]string{
	bpf.LostRingbuf: "records lost because the ring buffer was full; try a larger --ringbuf or a narrower SPEC",
	bpf.LostDepth:   "calls not seen because too many calls of one thread were open",
	bpf.LostThread:  "calls not seen because the kernel had no memory for them",
	bpf.LostFamily:  "processes not followed because there are too many",
	bpf.Fault:       "calls left out because a predicate met unreadable memory or divided by zero",
}

// report says on stderr what was lost, by cause.
func (t *tracing) report(tracer *attach.Tracer) error {
	counts, err := tracer.Counters()
	if err != nil {
		return err
	}
	var b strings.Builder
	for i, n := range counts {
		if n > 0 {
			fmt.Fprintf(&b, "ksnoop: %d %s\n", n, losses[i])
		}
	}
	_, err = fmt.Fprint(t.stderr, b.String())
	return err
}
