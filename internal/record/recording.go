// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"iter"

	"github.com/ksnoop/ksnoop/internal/destination"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// A Recording is one that is being made of a run. A nil Recording does nothing.
type Recording struct {
	file   *destination.File
	source Source
	w      *Writer // nil until it has begun
}

// NewRecording prepares a recording to a new file, which Close closes.
func NewRecording(file *destination.File, s Source) *Recording {
	return &Recording{file: file, source: s}
}

// Begin begins the recording of a plan that is attached.
func (r *Recording) Begin(p *plan.Plan) (err error) {
	if r == nil {
		return nil
	}
	if r.w, err = NewWriter(r.file, r.source, p); err != nil {
		return fmt.Errorf("%s: %w", r.file.Name(), err)
	}
	return nil
}

// Tee passes records on that it has recorded.
func (r *Recording) Tee(records iter.Seq2[[]byte, error]) iter.Seq2[[]byte, error] {
	if r == nil {
		return records
	}
	return func(yield func([]byte, error) bool) {
		for raw, err := range records {
			if err == nil {
				err = r.w.Append(raw)
			}
			if !yield(raw, err) || err != nil {
				return
			}
		}
	}
}

// End completes the recording with what is missing in it.
func (r *Recording) End(l event.Losses) error {
	if r == nil {
		return nil
	}
	return r.w.End(l)
}

// Close closes the file. It leaves none behind if nothing could be attached.
func (r *Recording) Close() error {
	switch {
	case r == nil:
		return nil
	case r.w == nil:
		return r.file.Discard()
	}
	return r.file.Close()
}
