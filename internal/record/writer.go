// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
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
	cgroups *cgroupNamer
	users   *userNamer
	records uint64 // in this recording and in pending
	queued  uint64 // in pending
	err     error  // of out, which cannot be used after that

	info   Info
	begun  time.Time // when this recording was
	head   []byte    // the blocks between info and records
	source Source
	plan   *plan.Plan
	// shelf has the next recording when this one would be larger than its limit; nil if there
	// is only one.
	shelf *Shelf
	// inSeries says that what it is written to has begun.
	inSeries bool
}

// NewWriter starts a recording for p as it is attached, and writes what is known of the
// kernel. w is written to block by block and needs no buffer.
//
// From then on, s.View names addresses by the symbols that the kernel has now. A live print
// and a later replay therefore show the same.
func NewWriter(w io.Writer, s Source, p *plan.Plan) (*Writer, error) { return newWriter(w, s, p, nil) }

// newWriter starts the first recording of a run, if shelf is not nil.
func newWriter(w io.Writer, s Source, p *plan.Plan, shelf *Shelf) (*Writer, error) {
	return startWriter(w, s, p, func(r *Writer) {
		if shelf != nil {
			r.info.Run, r.info.Part, r.shelf = rand.Text(), 1, shelf
		}
	})
}

// startWriter starts a recording. set sets what is special about it.
func startWriter(w io.Writer, s Source, p *plan.Plan, set func(*Writer)) (*Writer, error) {
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
	r := &Writer{info: s.info(p), source: s, plan: p}
	set(r)
	if r.head, err = packed(files, probes); err == nil {
		r.out, err = newBlockWriter(io.Discard)
	}
	if err == nil {
		err = r.begin(w)
	}
	if err != nil {
		return nil, fmt.Errorf("writing a recording: %w", err)
	}
	r.timer = time.AfterFunc(flushAfter, r.flushLate)
	r.timer.Stop()
	return r, nil
}

// packed returns the blocks of files and of a plan.
func packed(files fileTree, probes []probe) ([]byte, error) {
	var b bytes.Buffer
	out, err := newBlockWriter(&b)
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
	return b.Bytes()[len(magic)+versionSize:], err
}

// begin writes all that comes before records.
func (w *Writer) begin(to io.Writer) error {
	w.names, w.cgroups, w.users, w.records = nil, newCgroupNamer(&w.source, w.plan), newUserNamer(&w.source, w.plan), w.queued
	if !w.source.Full {
		w.names = newNamer(w.source.View, w.plan)
	}
	w.info.Boot, w.begun = w.booted(), time.Now()
	var err error
	if w.inSeries {
		w.out.w = to
	} else {
		err = w.out.begin(to)
	}
	if err == nil {
		err = w.writeJSON(blockInfo, w.info)
	}
	if err == nil {
		err = w.out.put(w.head)
	}
	if err == nil {
		err = w.shelf.prune(w.out.size)
	}
	return err
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
	w.queued++
	w.scan(raw)
	if len(w.pending) >= blockSize {
		w.flush()
	}
	return w.err
}

// scan finds the names that a record needs.
func (w *Writer) scan(raw []byte) {
	if w.names != nil {
		w.names.scan(raw)
	}
	if w.cgroups != nil {
		w.cgroups.scan(raw)
	}
	if w.users != nil {
		w.users.scan(raw)
	}
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
	err := w.part()
	if err == nil && w.names != nil && len(w.names.text) > 0 {
		err = w.out.write(blockSymbols, w.names.text)
		w.names.text = w.names.text[:0]
	}
	if err == nil && w.cgroups != nil && len(w.cgroups.block) > 0 {
		err = w.out.write(blockCgroups, w.cgroups.block)
		w.cgroups.block = w.cgroups.block[:0]
	}
	if err == nil && w.users != nil && len(w.users.block) > 0 {
		err = w.out.write(blockUsers, w.users.block)
		w.users.block = w.users.block[:0]
	}
	if err == nil {
		err = w.out.write(blockRecords, w.pending)
	}
	if err == nil {
		err = w.shelf.prune(w.out.size)
	}
	if err != nil {
		w.err = fmt.Errorf("writing a recording: %w", err)
	}
	w.pending, w.queued = w.pending[:0], 0
}

// endSize is more than the last block takes, and the headers of others.
const endSize = 4 << 10

// booted returns when the clock of the records was zero, as it is by now.
func (w *Writer) booted() time.Time {
	if w.source.Booted == nil {
		return w.info.Boot
	}
	return w.source.Booted()
}

// A change of the time of day by clockStep since a recording began has another one begin. While this one is younger than
// settled, it takes largeStep: a clock that is set a little each minute, as by chrony's makestep without a limit, would
// fill a shelf with small recordings, which push out large ones (mostSmall).
const (
	clockStep = 100 * time.Millisecond
	largeStep = 10 * time.Second
	settled   = time.Hour
)

// clockSet reports whether the time of day is so far from that of this recording that another one is to have it.
func (w *Writer) clockSet() bool {
	step := w.booted().Sub(w.info.Boot).Abs()
	return step >= largeStep || step >= clockStep && time.Since(w.begun) >= settled
}

// part begins the next recording if the pending records may not have room in this one, which
// has others, or if this one has another time of day than they.
func (w *Writer) part() error {
	if w.shelf == nil {
		return nil
	}
	if !w.clockSet() && (w.records == w.queued || w.fits()) {
		return nil
	}
	return w.nextPart()
}

// fits reports whether there is room for the pending records.
func (w *Writer) fits() bool {
	size := w.out.size + int64(len(w.pending)) + endSize
	if w.names != nil {
		size += int64(len(w.names.text))
	}
	if w.cgroups != nil {
		size += int64(len(w.cgroups.block))
	}
	if w.users != nil {
		size += int64(len(w.users.block))
	}
	return size <= w.shelf.limit
}

// nextPart ends this recording and begins the next one, which the pending records are for.
func (w *Writer) nextPart() error {
	if err := w.writeJSON(blockEnd, ending{Records: w.records - w.queued, Lost: make([]uint64, bpf.Counters), More: true}); err != nil {
		return err
	}
	to, err := w.shelf.next()
	if err != nil {
		return err
	}
	w.info.Part++
	if err := w.begin(to); err != nil {
		return err
	}
	for rest := w.pending; len(rest) > 0; { // the names are not in this recording
		size, n := binary.Uvarint(rest)
		w.scan(rest[n : n+int(size)])
		rest = rest[n+int(size):]
	}
	return nil
}

// End completes the recording. It does not close the underlying writer.
func (w *Writer) End(l event.Losses) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
	if w.err != nil {
		return w.err
	}
	err := w.writeJSON(blockEnd, ending{Records: w.records, Lost: l.Lost[:], Cut: l.Cut, Uncounted: l.Uncounted})
	if err == nil {
		err = w.shelf.prune(w.out.size)
	}
	if err != nil {
		return fmt.Errorf("writing a recording: %w", err)
	}
	return nil
}

// stop waits for a block that is being written, and lets no other be: by the timer, or by a flight
// recorder that was asked to write.
func (w *Writer) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	if w.err == nil {
		w.err = fs.ErrClosed
	}
}

func (w *Writer) writeJSON(kind blockKind, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.out.write(kind, data)
}
