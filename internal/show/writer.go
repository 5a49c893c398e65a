// SPDX-License-Identifier: Apache-2.0

package show

import (
	"bufio"
	"errors"
	"io"
	"iter"
)

// A writer holds text back, so that much is written at once.
type writer struct {
	*bufio.Writer
	buf []byte // of the last text, for the next
}

func newWriter(out io.Writer) *writer { return &writer{Writer: bufio.NewWriterSize(out, 64<<10)} }

// put writes a text that was appended to w.buf, unless there was an error. No text is written in
// parts, unless it is longer than all that is held back.
func (w *writer) put(text []byte, err error) error {
	if err != nil {
		return err
	}
	w.buf = text
	if w.Available() < len(text) {
		if err := w.Flush(); err != nil {
			return err
		}
	}
	_, err = w.Write(text)
	return err
}

// failed reports whether something could not be written: the writer returns its error from
// then on.
func (w *writer) failed() bool { return w.Flush() != nil }

// finish writes what is left. A failed write is an error once, although the writer returns
// it from then on.
func (w *writer) finish(err error) error {
	if left := w.Flush(); !errors.Is(err, left) {
		return errors.Join(err, left)
	}
	return err
}

// flushed passes records on, and writes what is held back before it waits for the next. A
// nil idle never waits.
func (w *writer) flushed(records iter.Seq2[[]byte, error], idle func() bool) iter.Seq2[[]byte, error] {
	if idle == nil {
		return records
	}
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
