// SPDX-License-Identifier: Apache-2.0

package show

import (
	"bytes"
	"io"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/summary"
)

// A SummaryPrinter prints what aggregations have added up.
type SummaryPrinter interface {
	Printer
	AppendSummary(dst []byte, s *summary.Summary) ([]byte, error)
}

var _ SummaryPrinter = (*output.Summaries)(nil)

// A Summaries writes what is added up besides the calls that are sent: summaries of times while
// there are records, and the last one when there are no more.
type Summaries struct {
	// Records is the view of the records: the calls of SPECs that do not aggregate, and losses.
	Records View
	Printer SummaryPrinter
	// Times yields the summaries of times until the records end, in another goroutine; nil: there
	// are none.
	Times iter.Seq2[*summary.Summary, error]
	// Ended is called when no more records are read, which ends Times. Failed is called when a summary of a time could not be
	// written, and is to end the records. Both are nil without Times.
	Ended, Failed func()
	// Last returns the last summary; nil: there is none. It is called when the records have ended.
	Last func() (*summary.Summary, error)
	// Draw shows the summary of a time in place of the one before; nil: they follow each other.
	// The last one is not drawn but written: it stays.
	Draw func(text []byte) error
	// Clear takes away what Draw has shown; nil like Draw.
	Clear func() error
}

var _ View = (*Summaries)(nil)

// Write writes records as they come and what is added up. Each summary is one write, and none comes
// while text of records is held back: a printer of both numbers its lines in the order in which they
// are written, and names no stack before it has written it.
func (v *Summaries) Write(out io.Writer, records iter.Seq2[[]byte, error], idle func() bool) error {
	noted := &notedWriter{out: out}
	if v.Times == nil {
		return v.finish(noted, v.Records.Write(noted, records, idle))
	}
	var turn turn
	turn.mu.Lock() // until the header is written
	done := make(chan error, 1)
	go func() { done <- v.writeTimes(noted, &turn) }()
	err := v.Records.Write(noted, turn.records(records), turn.idle(idle))
	v.Ended() // it may have failed before it read any
	turn.mu.Unlock()
	if timed := <-done; err == nil {
		err = timed
	}
	return v.finish(noted, err)
}

// finish writes the last summary behind the records, which ended with err.
func (v *Summaries) finish(out *notedWriter, err error) error {
	if out.failed || v.Last == nil {
		return err
	}
	if late := v.writeLast(out); err == nil { // what was added up before something failed is worth as much
		err = late
	}
	return err
}

// A turn is whose it is to print and to write: records' or summaries'.
type turn struct {
	mu     sync.Mutex
	wanted atomic.Bool // by a summary
	over   bool        // records have nothing to write at the moment
}

// records passes records on. From each one on it is their turn, which they have when they begin and
// when they end, until what is held back is written.
func (t *turn) records(records iter.Seq2[[]byte, error]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		held := false
		t.mu.Unlock()
		for raw, err := range records {
			if !held {
				t.mu.Lock()
				held = true
			}
			t.over = false
			if !yield(raw, err) {
				break
			}
			if t.over {
				t.mu.Unlock()
				held = false
			}
		}
		if !held {
			t.mu.Lock()
		}
	}
}

// idle has what is held back written where a summary waits, too.
func (t *turn) idle(idle func() bool) func() bool {
	return func() bool {
		t.over = t.wanted.Load() || idle != nil && idle()
		return t.over
	}
}

// writeLast writes the summary of what was added up until the end.
func (v *Summaries) writeLast(out io.Writer) error {
	last, err := v.Last()
	if err != nil || last == nil {
		return err
	}
	if v.Clear != nil {
		if err := v.Clear(); err != nil {
			return err
		}
	}
	return v.put(out, last)
}

// writeTimes writes the summaries of times, until one cannot be written.
func (v *Summaries) writeTimes(out io.Writer, turn *turn) error {
	for s, err := range v.Times {
		if err == nil {
			turn.wanted.Store(true)
			turn.mu.Lock()
			turn.wanted.Store(false)
			err = v.putTime(out, s)
			turn.mu.Unlock()
		}
		if err != nil {
			v.Failed()
			return err
		}
	}
	return nil
}

// putTime draws the summary of a time, or writes it.
func (v *Summaries) putTime(out io.Writer, s *summary.Summary) error {
	if v.Draw == nil {
		return v.put(out, s)
	}
	var text bytes.Buffer
	if err := v.put(&text, s); err != nil {
		return err
	}
	return v.Draw(text.Bytes())
}

func (v *Summaries) put(out io.Writer, s *summary.Summary) error {
	text, err := v.Printer.AppendSummary(nil, s)
	if err == nil && len(text) > 0 {
		_, err = out.Write(text)
	}
	return err
}

// Tally implements View.
func (v *Summaries) Tally() *Tally { return v.Records.Tally() }

// End implements View.
func (v *Summaries) End(out io.Writer, l event.Losses, failed error) error {
	return v.Records.End(out, l, failed)
}

// A notedWriter notes whether a write has failed.
type notedWriter struct {
	out    io.Writer
	failed bool
}

// Write implements io.Writer.
func (w *notedWriter) Write(text []byte) (int, error) {
	n, err := w.out.Write(text)
	w.failed = w.failed || err != nil
	return n, err
}
