// SPDX-License-Identifier: Apache-2.0

package show

import (
	"io"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
)

// An ending is what the views of calls and of sessions have in common: how they begin, what
// they count, and how they end.
type ending struct {
	printer Printer // nil until Write was called
	broken  bool    // what was to be written could not be
	tally   Tally
}

// begin writes the header of a format.
func (e *ending) begin(w *writer, p Printer) error {
	e.printer = p
	return w.put(p.AppendHeader(w.buf[:0]))
}

// loss marks that records are missing.
func (e *ending) loss(w *writer, l event.Loss) error {
	e.tally.marked[l.Cause] += l.Count
	return w.put(e.printer.AppendLoss(w.buf[:0], l), nil)
}

// stopped writes what is held back.
func (e *ending) stopped(w *writer, err error) error {
	err = w.finish(err)
	e.broken = w.failed()
	return err
}

// Tally returns what was written.
func (e *ending) Tally() *Tally { return &e.tally }

// End writes what is known when all is over: the losses after the last record, and the end
// of the format. failed is the error of Write; nothing is written if it is about out.
func (e *ending) End(out io.Writer, l event.Losses, failed error) error {
	e.tally.Losses, e.tally.Failed = l, failed
	if e.printer == nil || e.broken {
		return nil
	}
	var text []byte
	for _, cause := range bpf.Marked {
		if n := l.Lost[cause]; n > e.tally.marked[cause] {
			text = e.printer.AppendLoss(text, event.Loss{Cause: cause, Count: n - e.tally.marked[cause]})
		}
	}
	text, err := e.printer.AppendEnd(text, &e.tally.Totals)
	if err != nil || len(text) == 0 {
		return err
	}
	_, err = out.Write(text)
	return err
}
