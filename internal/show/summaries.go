// SPDX-License-Identifier: Apache-2.0

package show

import (
	"bytes"
	"io"
	"iter"
	"sync"

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
	// Last returns the last summary; nil: there is none. It is called when the records have ended.
	Last func() (*summary.Summary, error)
	// Draw shows the summary of a time in place of the one before; nil: they follow each other.
	// The last one is not drawn but written: it stays.
	Draw func(text []byte) error
	// Clear takes away what Draw has shown; nil like Draw.
	Clear func() error
}

var _ View = (*Summaries)(nil)

// Write writes records as they come and what is added up. Each summary is one write.
func (v *Summaries) Write(out io.Writer, records iter.Seq2[[]byte, error], idle func() bool) error {
	shared := &sharedWriter{out: out}
	done := make(chan error, 1)
	if v.Times == nil {
		done <- nil
	} else {
		go func() { done <- v.writeTimes(shared) }()
	}
	err := v.Records.Write(shared, records, idle)
	if timed := <-done; err == nil {
		err = timed
	}
	if shared.failed || v.Last == nil {
		return err
	}
	if late := v.writeLast(out); err == nil { // what was added up before something failed is worth as much
		err = late
	}
	return err
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

// writeTimes writes the summaries of times.
func (v *Summaries) writeTimes(out *sharedWriter) error {
	var failed error
	for s, err := range v.Times { // to their end: somebody waits for it
		switch {
		case failed != nil:
		case err != nil:
			failed = err
		case v.Draw != nil:
			var text bytes.Buffer
			if failed = v.put(&text, s); failed == nil {
				out.mu.Lock()
				failed = v.Draw(text.Bytes())
				out.mu.Unlock()
			}
		default:
			failed = v.put(out, s)
		}
	}
	return failed
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

// A sharedWriter is written to by several goroutines, each of which writes whole texts.
type sharedWriter struct {
	mu     sync.Mutex
	out    io.Writer
	failed bool
}

// Write implements io.Writer.
func (w *sharedWriter) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.out.Write(text)
	w.failed = w.failed || err != nil
	return n, err
}
