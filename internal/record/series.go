// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/ksnoop/ksnoop/internal/destination"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/process"
)

// Limits on what is read of a series.
const (
	maxRuns = 32
	maxPage = 1 << 20 // bytes
)

// A Series is a recording of several runs that is being made. A nil Series does nothing.
type Series struct {
	file   *destination.File
	source Source // of all runs, without their Sessions
	begun  bool
	run    *Writer
}

// NewSeries prepares a series to a new file, which Close closes.
func NewSeries(file *destination.File, s Source) *Series {
	lock(file.File)
	return &Series{file: file, source: s}
}

// Begin begins the recording of the next run, with a plan that is attached. sessions is as in
// Source. The recording of the last run must have ended.
func (s *Series) Begin(p *plan.Plan, sessions *Sessions) (err error) {
	if s == nil {
		return nil
	}
	if err := s.begin(); err != nil {
		return err
	}
	of := s.source
	of.Sessions = sessions
	if s.run, err = startWriter(s.file, of, p, func(w *Writer) { w.inSeries = true }); err != nil {
		return fmt.Errorf("%s: %w", s.file.Name(), err)
	}
	return nil
}

// begin writes what the file begins with.
func (s *Series) begin() error {
	if s.begun {
		return nil
	}
	s.begun = true
	_, err := s.file.Write(binary.LittleEndian.AppendUint32([]byte(magic), seriesVersion))
	return err
}

// Append adds a raw record to the run.
func (s *Series) Append(raw []byte) error {
	if s == nil {
		return nil
	}
	return s.run.Append(raw)
}

// EndRun completes the recording of a run, if one has begun.
func (s *Series) EndRun(l event.Losses) error {
	if s == nil || s.run == nil {
		return nil
	}
	w := s.run
	s.run = nil
	return w.End(l)
}

// End completes the series with its page.
func (s *Series) End(page []byte) error {
	if s == nil {
		return nil
	}
	if err := s.begin(); err != nil {
		return err
	}
	out, err := newBlockWriter(io.Discard)
	if err != nil {
		return err
	}
	out.w = s.file
	return out.write(blockPage, page)
}

// Close closes the file. It leaves none behind if nothing was recorded.
func (s *Series) Close() error {
	switch {
	case s == nil:
		return nil
	case !s.begun:
		return s.file.Discard()
	}
	return s.file.Close()
}

// A SeriesReader reads a series.
type SeriesReader struct {
	in   *blockReader
	runs int
	page []byte
}

// TrySeries returns a reader of the series that begins in r. If something else begins there, it is
// in what it returns besides.
func TrySeries(r io.Reader) (io.Reader, *SeriesReader, error) {
	head := make([]byte, len(magic)+versionSize)
	n, err := io.ReadFull(r, head)
	if err != nil && !ended(err) {
		return nil, nil, err
	}
	whole := io.MultiReader(bytes.NewReader(head[:n]), r)
	if n < len(head) || string(head[:len(magic)]) != magic || binary.LittleEndian.Uint32(head[len(magic):]) != seriesVersion {
		return whole, nil, nil
	}
	in, err := newBlockReader(whole)
	return nil, &SeriesReader{in: in}, err
}

// Next returns the recording of the next run. That of the run before must have been read to its
// end. Behind the last run it returns nil.
func (s *SeriesReader) Next() (*Reader, error) {
	kind, block, err := s.in.read(nil)
	switch {
	case err == io.EOF:
		return nil, cutBefore("its page")
	case err != nil:
		return nil, err
	case kind == blockPage && len(block) > maxPage:
		return nil, damaged("a page of %d bytes", len(block))
	case kind == blockPage:
		s.page = block
		if _, _, err := s.in.read(nil); !errors.Is(err, io.EOF) {
			return nil, damaged("something follows its end")
		}
		return nil, nil
	case kind != blockInfo:
		return nil, misplaced(kind)
	case s.runs == maxRuns:
		return nil, damaged("it has more than %d runs", maxRuns)
	}
	s.runs++
	s.in.sizes = [len(s.in.sizes)]Size{}
	r := &Reader{in: s.in, cgroups: &cgroups{}, users: process.NewRecorded(), inSeries: true}
	if err := r.begin(block); err != nil {
		return nil, err
	}
	return r, nil
}

// Page reads the series to its end and returns its page. It does not look at what runs have
// recorded.
func (s *SeriesReader) Page() ([]byte, error) {
	for s.page == nil {
		r, err := s.Next()
		if err != nil {
			return nil, err
		}
		if r == nil {
			break
		}
		for _, err := range r.Records() {
			if err != nil {
				return nil, err
			}
		}
	}
	return s.page, nil
}

// Runs returns how many runs have been read so far.
func (s *SeriesReader) Runs() int { return s.runs }
