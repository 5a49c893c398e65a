// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"iter"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/destination"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// A Recording is one that is being made of a run. A nil Recording does nothing.
type Recording struct {
	file   *destination.File // nil if shelf is not
	shelf  *Shelf
	source Source
	w      *Writer // nil until it has begun
	flight *flight // nil: records are written as they come
	take   Takeoff
}

// A Takeoff says when a flight recorder writes what it has.
type Takeoff struct {
	// Trigger says that a record is one of those that are waited for. Nil: none is.
	Trigger func(raw []byte) bool
	// Count ends the records after so many triggers; 0: never.
	Count uint64
	// Written is told what was written, and how many records before it made room. It may be
	// called by another goroutine.
	Written func(records, overwritten uint64)
}

// Fly makes the recording a flight recorder, which keeps limit bytes of the newest records
// in memory. They are written when a trigger comes, when Write is called, and at the end.
func (r *Recording) Fly(limit int, t Takeoff) { r.flight, r.take = &flight{limit: limit}, t }

// NewRecording prepares a recording to a new file, which Close closes.
func NewRecording(file *destination.File, s Source) *Recording {
	lock(file.File)
	return &Recording{file: file, source: s}
}

// NewRecordings prepares recordings to a shelf, which Close closes.
func NewRecordings(shelf *Shelf, s Source) *Recording { return &Recording{shelf: shelf, source: s} }

// Begin begins the recording of a plan that is attached.
func (r *Recording) Begin(p *plan.Plan) (err error) {
	if r == nil {
		return nil
	}
	file := r.file
	if r.shelf != nil {
		if file, err = r.shelf.next(); err != nil {
			return err
		}
	}
	if r.w, err = newWriter(file, r.source, p, r.shelf); err != nil {
		return fmt.Errorf("%s: %w", file.Name(), err)
	}
	return nil
}

// Tee passes records on that it has recorded.
func (r *Recording) Tee(records iter.Seq2[[]byte, error]) iter.Seq2[[]byte, error] {
	if r == nil {
		return records
	}
	keep := r.w.Append
	if r.flight != nil {
		keep = r.flight.add
		if early := newCgroupNamer(&r.source, r.w.plan); early != nil {
			// The paths are to be found now: when the records are written, the cgroups may be gone.
			keep = func(raw []byte) error {
				early.scan(raw)
				early.block = early.block[:0]
				return r.flight.add(raw)
			}
		}
	}
	return func(yield func([]byte, error) bool) {
		triggers := uint64(0)
		for raw, err := range records {
			if err == nil {
				err = keep(raw)
			}
			last := false
			if r.take.Trigger != nil && err == nil && r.take.Trigger(raw) {
				triggers++
				if last = triggers == r.take.Count; !last { // else End writes
					r.Write()
				}
			}
			if !yield(raw, err) || err != nil || last {
				return
			}
		}
	}
}

// Write writes what a flight recorder has, in the background. One write may wait for another,
// and then writes what was kept until it begins: triggers may come faster than that.
func (r *Recording) Write() {
	if !r.flight.asked.Swap(true) {
		go r.write()
	}
}

// write keeps an error of writing in the flight, for the next record or End.
func (r *Recording) write() {
	if n, gone, err := r.flight.write(r.w, false); err == nil {
		r.take.Written(n, gone)
	}
}

// End completes the recording with what is missing in it. It adds to the losses what made
// room in a flight recorder.
func (r *Recording) End(l *event.Losses) error {
	if r == nil {
		return nil
	}
	if r.flight != nil {
		n, gone, err := r.flight.write(r.w, true)
		if err != nil {
			return err
		}
		if n > 0 || gone > 0 || !r.flight.hasWritten() { // else all was told
			r.take.Written(n, gone)
		}
		l.Lost[bpf.Overwritten] += r.flight.overwritten()
	}
	return r.w.End(*l)
}

// Close closes the file. It leaves none behind if nothing could be attached.
func (r *Recording) Close() error {
	switch {
	case r == nil:
		return nil
	case r.shelf != nil && r.w == nil:
		return r.shelf.discard()
	case r.shelf != nil:
		r.w.stop() // without End, somebody may be beginning the next recording
		return r.shelf.Close()
	case r.w == nil:
		return r.file.Discard()
	}
	return r.file.Close()
}
