// SPDX-License-Identifier: Apache-2.0

package record

import (
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
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// A Source is the kernel being traced.
type Source struct {
	Root   fs.FS        // has its /proc and /sys
	View   *kernel.View // of the same kernel; the plan was made with it
	Arch   string       // as in GOARCH
	Writer string       // version of ksnoop
	// Sessions is set if the plan is for sessions.
	Sessions *Sessions
	Origin
}

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
	records uint64
	err     error // of out, which cannot be used after that
}

// NewWriter starts a recording for p as it is attached, and writes what is known of the
// kernel. w is written to block by block and needs no buffer.
//
// From then on, s.View names addresses by the recorded symbols. A live print and a later
// replay therefore show the same.
func NewWriter(w io.Writer, s Source, p *plan.Plan) (*Writer, error) {
	if err := Affordable(p); err != nil {
		return nil, err
	}
	probes, err := describe(p, s.View)
	if err != nil {
		return nil, fmt.Errorf("recording what is traced: %w", err)
	}
	files, err := s.files(p)
	if err != nil {
		return nil, fmt.Errorf("recording the kernel's types: %w", err)
	}
	out, err := newBlockWriter(w)
	if err != nil {
		return nil, fmt.Errorf("writing a recording: %w", err)
	}
	r := &Writer{out: out}
	err = r.writeJSON(blockInfo, Info{Arch: s.Arch, Writer: s.Writer, Header: bpf.EventSize, Sessions: s.Sessions.sized(), Origin: s.Origin.bounded()})
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
	if symbols := files[symbolFile]; symbols != nil {
		s.View.Pin(symbols)
	}
	r.timer = time.AfterFunc(flushAfter, r.flushLate)
	r.timer.Stop()
	return r, nil
}

// Files that are recorded whatever is traced.
var kernelFiles = [...]string{"proc/sys/kernel/osrelease", symbolFile, btfDir + "vmlinux"}

const btfDir = "sys/kernel/btf/"

// files returns the files needed to resolve p elsewhere. From tracefs, it takes the formats
// in which macros were found when p was resolved. It takes the BTF of modules with traced
// functions. Another module may define a type that a SPEC names, so files resolves p
// without the others to see whether it still works.
func (s *Source) files(p *plan.Plan) (fileTree, error) {
	t := make(fileTree)
	for _, name := range kernelFiles {
		if err := t.add(s.Root, name); err != nil {
			return nil, err
		}
	}
	traced := modulesOf(p)
	for _, m := range traced {
		if err := t.add(s.Root, btfDir+m); err != nil {
			return nil, err
		}
	}
	for _, name := range s.View.MacroFiles() {
		if err := t.add(s.Root, name); err != nil {
			return nil, err
		}
	}
	all, err := s.View.Modules()
	if err != nil || !slices.ContainsFunc(all, func(m string) bool { return !slices.Contains(traced, m) }) {
		return t, nil // without BTF there is nothing to leave out
	}
	probes, err := describe(p, s.View)
	if err != nil {
		return nil, err
	}
	if _, err := resolve(probes, kernel.Open(t), s.Arch, s.Sessions); err == nil {
		return t, nil
	}
	for _, m := range all {
		if err := t.add(s.Root, btfDir+m); err != nil {
			return nil, err
		}
	}
	return t, nil
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
	if err := w.out.write(blockRecords, w.pending); err != nil {
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
