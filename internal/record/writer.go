// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
)

const (
	// blockSize is how many bytes of records make a block.
	blockSize = 256 << 10
	// flushAfter is the longest time that a record stays in memory. A recording loses that
	// much if its writer is killed.
	flushAfter = time.Second
)

// A Writer writes one recording. It is safe for concurrent use.
type Writer struct {
	mu      sync.Mutex // guards the rest; the timer writes blocks too
	out     *blockWriter
	timer   *time.Timer
	pending []byte // records of the next block
	names   *namer // finds the symbols that pending needs; nil if all are recorded
	records uint64
	err     error // of out, which cannot be used after that
}

// NewWriter starts a recording for p as it is attached, and writes what is known of the
// kernel. w is written to block by block and needs no buffer.
//
// From then on, s.View names addresses by the symbols that the kernel has now. A live print
// and a later replay therefore show the same.
func NewWriter(w io.Writer, s Source, p *plan.Plan) (*Writer, error) {
	if err := Affordable(p); err != nil {
		return nil, err
	}
	symbols, err := s.pinSymbols()
	if err != nil {
		return nil, fmt.Errorf("recording the kernel's symbols: %w", err)
	}
	files, probes, err := s.contents(p)
	if err != nil {
		return nil, fmt.Errorf("recording the kernel's types: %w", err)
	}
	if s.Full && symbols != nil {
		files[symbolFile] = symbols
	}
	out, err := newBlockWriter(w)
	if err != nil {
		return nil, fmt.Errorf("writing a recording: %w", err)
	}
	r := &Writer{out: out}
	if !s.Full {
		r.names = newNamer(s.View, p)
	}
	err = r.writeJSON(blockInfo, s.info())
	var block []byte
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err == nil {
			block = files.appendBlock(block[:0], name)
			err = out.write(blockFile, block)
		}
	}
	if err == nil {
		block, err = appendProbes(nil, probes)
	}
	if err == nil {
		err = out.write(blockPlan, block)
	}
	if err != nil {
		return nil, fmt.Errorf("writing a recording: %w", err)
	}
	r.timer = time.AfterFunc(flushAfter, r.flushLate)
	r.timer.Stop()
	return r, nil
}

// Append adds a raw record.
func (w *Writer) Append(raw []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) == 0 {
		w.timer.Reset(flushAfter)
	}
	w.pending = binary.AppendUvarint(w.pending, uint64(len(raw)))
	w.pending = append(w.pending, raw...)
	w.records++
	if w.names != nil {
		w.names.scan(raw)
	}
	if len(w.pending) >= blockSize {
		w.flush()
	}
	return w.err
}

// flushLate writes a block that is old enough.
func (w *Writer) flushLate() {
	_ = w.Flush() // the next Append tells
}

// Flush writes what is pending.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
	return w.err
}

// flush writes the pending records as a block. The first error is kept.
func (w *Writer) flush() {
	w.timer.Stop()
	if len(w.pending) == 0 || w.err != nil {
		return
	}
	var err error
	if w.names != nil && len(w.names.text) > 0 {
		err = w.out.write(blockSymbols, w.names.text)
		w.names.text = w.names.text[:0]
	}
	if err == nil {
		err = w.out.write(blockRecords, w.pending)
	}
	if err != nil {
		w.err = fmt.Errorf("writing a recording: %w", err)
	}
	w.pending = w.pending[:0]
}

// End completes the recording. It does not close the underlying writer.
func (w *Writer) End(l event.Losses) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
	if w.err != nil {
		return w.err
	}
	if err := w.writeJSON(blockEnd, ending{w.records, l.Lost[:], l.Cut, l.Uncounted}); err != nil {
		return fmt.Errorf("writing a recording: %w", err)
	}
	return nil
}

func (w *Writer) writeJSON(kind blockKind, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.out.write(kind, data)
}
