// SPDX-License-Identifier: Apache-2.0

package show

import (
	"io"
	"iter"

	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// A Calls writes the calls view.
type Calls struct {
	Plan    *plan.Plan
	Printer CallPrinter
	Join    bool   // one event for each call
	Count   uint64 // stop after so many; 0: never
	// Keep reports whether a call is shown. Nil shows all.
	Keep func(*calls.Call) (bool, error)

	enough func() bool // reports whether to write no more; nil: Count alone decides
	ending
}

var _ View = (*Calls)(nil)

// Write writes records, or calls, until there are no more or enough was written. It holds
// text back until idle says that it may take a while until the next record. idle may be
// nil.
func (v *Calls) Write(out io.Writer, records iter.Seq2[[]byte, error], idle func() bool) (err error) {
	w := newWriter(out)
	defer func() { err = v.stopped(w, err) }()
	if err := v.begin(w, v.Printer); err != nil {
		return err
	}
	if idle != nil { // the header tells that calls are waited for
		if err := w.Flush(); err != nil {
			return err
		}
	}
	for call, err := range v.calls(w.flushed(records, idle)) {
		if v.enough != nil && v.enough() {
			break
		}
		if err != nil {
			return err
		}
		if call.End == calls.Gap {
			if err := v.loss(w, call.Return.Loss()); err != nil {
				return err
			}
			continue
		}
		if v.Keep != nil {
			if keep, err := v.Keep(call); err != nil {
				return err
			} else if !keep {
				continue
			}
		}
		if err := w.put(v.Printer.AppendCall(w.buf[:0], call)); err != nil {
			return err
		}
		if v.Join || call.Return.First() {
			v.tally.Calls++
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
