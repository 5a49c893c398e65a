// SPDX-License-Identifier: Apache-2.0

package show

import (
	"io"
	"iter"

	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/symbols"
)

// compactWidth is how much of a value is shown on a line, in bytes.
const compactWidth = 160

// A Calls writes the calls view.
type Calls struct {
	Plan    *plan.Plan
	Kernel  *kernel.View  // whose addresses are named
	Join    bool          // one block for each call
	Compact bool          // one line for each record, or call
	Count   uint64        // stop after so many; 0: never
	Tails   *output.Tails // prints stacks and branches; nil if there are none

	tally Tally
}

// Tally returns what was written.
func (v *Calls) Tally() *Tally { return &v.tally }

// Write writes records, or calls, until there are no more or enough was written. It holds
// text back until idle says that it may take a while until the next record. idle may be
// nil.
func (v *Calls) Write(out io.Writer, records iter.Seq2[[]byte, error], idle func() bool) (err error) {
	w := newWriter(out)
	defer func() { err = w.finish(err) }()
	symbol := symbols.Appender(v.Kernel)
	printer := output.NewCalls(symbol)
	if v.Compact {
		printer = output.NewCompactCalls(symbol, compactWidth)
	}
	printer.Tails = v.Tails
	if err := w.put(printer.AppendHeader(w.buf[:0])); err != nil {
		return err
	}
	if idle != nil { // the header tells that calls are waited for
		if err := w.Flush(); err != nil {
			return err
		}
	}
	for call, err := range v.calls(w.flushed(records, idle)) {
		if err != nil {
			return err
		}
		text, err := printer.AppendCall(w.buf[:0], call)
		if err != nil {
			return err
		}
		if err := w.put(text); err != nil {
			return err
		}
		if call.End == calls.Gap {
			v.tally.marked[call.Return.Cause] += call.Return.Lost
			continue
		}
		if v.tally.Records++; v.tally.Records == v.Count {
			break
		}
	}
	return nil
}

// calls decodes records. Without Join each is a call of its own.
func (v *Calls) calls(records iter.Seq2[[]byte, error]) iter.Seq2[*calls.Call, error] {
	events := event.All(v.Plan, records)
	if !v.Join {
		return calls.Each(events)
	}
	return func(yield func(*calls.Call, error) bool) {
		var j calls.Joiner
		for call, err := range j.Join(events) {
			if !yield(call, err) {
				break
			}
		}
		v.tally.Evicted = j.Counts().Evicted
	}
}
