// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"io"
	"iter"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/symname"
)

// A callsView says how records are printed.
type callsView struct {
	plan    *plan.Plan
	kernel  *kernel.View  // whose addresses are named
	join    bool          // one block for each call
	compact bool          // one line for each record, or call
	count   uint64        // stop after so many; 0: never
	tails   *output.Tails // prints stacks and branches; nil if there are none
	tally   tally         // what was printed
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
	if s.Offset == 0 {
		return symname.Append(dst, s.Name, s.Module)
	}
	return symname.AppendAt(dst, s.Name, s.Offset, s.Module)
}

const compactUsage = "print a record on one line, values without types and cut at a width"

// compactWidth is how much of a value is shown on a line.
const compactWidth = 160

// print writes records, or calls, until there are no more or enough was
// printed. It writes what it holds back when idle says that it may take a
// while until the next one; idle may be nil.
func (v *callsView) print(out io.Writer, records iter.Seq2[[]byte, error], idle func() bool) (err error) {
	w := bufio.NewWriterSize(out, 64<<10)
	defer func() { err = finish(w, err) }()
	symbol := func(dst []byte, addr uint64) []byte { return appendSymbol(dst, v.kernel, addr) }
	printer := output.NewCalls(symbol)
	if v.compact {
		printer = output.NewCompactCalls(symbol, compactWidth)
	}
	printer.Tails = v.tails
	buf := printer.AppendHeader(nil)
	if _, err := w.Write(buf); err != nil {
		return err
	}
	if idle != nil {
		if err := w.Flush(); err != nil {
			return err
		}
		records = flushed(records, w, idle)
	}
	for call, err := range v.calls(records) {
		if err != nil {
			return err
		}
		if buf, err = printer.AppendCall(buf[:0], call); err != nil {
			return err
		}
		if _, err := w.Write(buf); err != nil {
			return err
		}
		if call.End == calls.Gap {
			v.tally.marked[call.Return.Cause] += call.Return.Lost
			continue
		}
		if v.tally.records++; v.tally.records == v.count {
			break
		}
	}
	return nil
}

// finish writes what is left in w. A failed write is an error once, although the
// writer returns it from then on.
func finish(w *bufio.Writer, err error) error {
	if left := w.Flush(); !errors.Is(err, left) {
		return errors.Join(err, left)
	}
	return err
}

// calls decodes records. Without join each is a call of its own.
func (v *callsView) calls(records iter.Seq2[[]byte, error]) iter.Seq2[*calls.Call, error] {
	events := v.events(records)
	if v.join {
		return v.joined(events)
	}
	return func(yield func(*calls.Call, error) bool) {
		var call calls.Call
		for e, err := range events {
			call = calls.Call{Return: e, End: calls.Whole}
			if err == nil && e.Kind == bpf.KindLost {
				call.End = calls.Gap
			}
			if !yield(&call, err) {
				return
			}
		}
	}
}

// joined puts the records of each call together.
func (v *callsView) joined(events iter.Seq2[*event.Event, error]) iter.Seq2[*calls.Call, error] {
	return func(yield func(*calls.Call, error) bool) {
		var j calls.Joiner
		for call, err := range j.Join(events) {
			if !yield(call, err) {
				break
			}
		}
		v.tally.evicted = j.Counts().Evicted
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
