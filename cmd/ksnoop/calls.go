// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
)

// A callsView says how records are printed.
type callsView struct {
	plan    *plan.Plan
	kernel  *kernel.View  // whose addresses are named
	join    bool          // one block for each call
	compact bool          // one line for each record, or call
	count   uint64        // stop after so many; 0: never
	tails   *output.Tails // prints stacks and branches; nil if there are none
}

// appendSymbol appends the name of what lies at an address: "tcp_v4_rcv+0x10".
func appendSymbol(dst []byte, k *kernel.View, addr uint64) []byte {
	if addr>>63 == 0 {
		return dst // not the kernel's
	}
	s, ok := k.Symbol(addr)
	if !ok {
		return dst
	}
	dst = append(dst, s.Name...)
	if s.Offset != 0 {
		dst = strconv.AppendUint(append(dst, "+0x"...), s.Offset, 16)
	}
	if s.Module != "" {
		dst = append(append(append(dst, " ["...), s.Module...), ']')
	}
	return dst
}

const compactUsage = "print a record on one line, values without types and cut at a width"

// compactWidth is how much of a value is shown on a line.
const compactWidth = 160

// print writes records, or calls, until there are no more or enough was
// printed. It writes what it holds back when idle says that it may take a
// while until the next one; idle may be nil.
func (v *callsView) print(out io.Writer, records iter.Seq2[[]byte, error], idle func() bool) (err error) {
	w := bufio.NewWriterSize(out, 64<<10)
	defer func() { err = errors.Join(err, w.Flush()) }()
	symbol := func(dst []byte, addr uint64) []byte { return appendSymbol(dst, v.kernel, addr) }
	calls := output.NewCalls(symbol)
	if v.compact {
		calls = output.NewCompactCalls(symbol, compactWidth)
	}
	calls.Tails = v.tails
	buf := calls.AppendHeader(nil)
	if _, err := w.Write(buf); err != nil {
		return err
	}
	if idle != nil {
		if err := w.Flush(); err != nil {
			return err
		}
		records = flushed(records, w, idle)
	}
	printed := uint64(0)
	for call, err := range v.calls(records) {
		if err != nil {
			return err
		}
		if buf, err = calls.AppendCall(buf[:0], call); err != nil {
			return err
		}
		if _, err := w.Write(buf); err != nil {
			return err
		}
		if printed++; printed == v.count {
			break
		}
	}
	return nil
}

// calls decodes records. Without join each is a call of its own.
func (v *callsView) calls(records iter.Seq2[[]byte, error]) iter.Seq2[*session.Call, error] {
	events := v.events(records)
	if v.join {
		return new(session.Joiner).Join(events)
	}
	return func(yield func(*session.Call, error) bool) {
		var call session.Call
		for e, err := range events {
			call = session.Call{Return: e, End: session.Whole}
			if !yield(&call, err) {
				return
			}
		}
	}
}

// events decodes records. One is valid until the next one is asked for.
func (v *callsView) events(records iter.Seq2[[]byte, error]) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		var e event.Event
		for raw, err := range records {
			if err == nil {
				err = event.Decode(v.plan, raw, &e)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&e, nil) {
				return
			}
		}
	}
}

// flushed passes records on and empties w before it waits for the next.
func flushed(records iter.Seq2[[]byte, error], w *bufio.Writer, idle func() bool) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for raw, err := range records {
			if !yield(raw, err) {
				return
			}
			if idle() {
				if err := w.Flush(); err != nil {
					yield(nil, err)
					return
				}
			}
		}
	}
}

// losses says what each counter of the engine means to a person.
var losses = [bpf.Counters]string{
	bpf.LostRingbuf:   "records lost because the ring buffer was full; try a larger --ringbuf or a narrower SPEC",
	bpf.LostDepth:     "calls not seen because too many calls of one thread were open",
	bpf.LostThread:    "calls not seen because the kernel had no memory for them",
	bpf.LostFamily:    "processes not followed because there are too many",
	bpf.LostScratch:   "records lost because too many with a stack or branches were under way on one CPU",
	bpf.LostBranches:  "records without their branches, which others overwrote too soon",
	bpf.LostValues:    "calls of sessions without their values, for which there was no room",
	bpf.LostReturn:    "times calls of a session ended unseen: the kernel did not run the program at their return",
	bpf.LostRecursion: "calls left out because tracing itself has made them",
	bpf.Fault:         "calls left out because a predicate met unreadable memory or divided by zero",
}

// reportLosses says what was lost, by cause.
func reportLosses(w io.Writer, counts [bpf.Counters]uint64) error {
	var b strings.Builder
	for i, n := range counts {
		if n > 0 {
			fmt.Fprintf(&b, "ksnoop: %d %s\n", n, losses[i])
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
