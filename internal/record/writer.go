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
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// A Source is the kernel that is traced.
type Source struct {
	Root   fs.FS        // holds its /proc and /sys
	View   *kernel.View // of the same; the plan was made with it
	Arch   string       // as Go names it
	Writer string       // the version of ksnoop
	// Sessions is not nil if the plan is that of sessions.
	Sessions *Sessions
}

const (
	// blockSize is how many bytes of records make a block.
	blockSize = 256 << 10
	// flushAfter is how long a record stays in memory at most. It is what a
	// recording loses when its writer is killed.
	flushAfter = time.Second
)

// A Writer writes one recording.
type Writer struct {
	mu      sync.Mutex // guards the rest: blocks are also written by the timer
	out     *blockWriter
	timer   *time.Timer
	pending []byte // records of the next block
	records uint64
	err     error // of out, which is of no use then
}

// NewWriter begins a recording of what p, as it is attached, traces: it writes what is
// known of the kernel. w is written to block by block and wants no buffer.
//
// From then on the Source's View names addresses by the symbols that were written: what
// is printed now and what is printed of the recording is the same.
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
	err = r.writeJSON(blockInfo, Info{Arch: s.Arch, Writer: s.Writer, Header: bpf.EventSize, Sessions: s.Sessions.sized()})
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

// Files of the kernel that are recorded whatever is traced.
var kernelFiles = [...]string{"proc/sys/kernel/osrelease", symbolFile, btfDir + "vmlinux"}

// symbolFile has those of trampolines, too, if it is read when all is attached.
const symbolFile = "proc/kallsyms"

const btfDir = "sys/kernel/btf/"

// files returns what it takes to resolve p elsewhere. Of tracefs, that is where
// macros were found when p was resolved; of the modules, those whose functions are
// traced. Any other may have a type that a SPEC or a pointer names; whether one
// does shows when p is resolved without them.
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
		return t, nil // without BTF there is none to be left out
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

// flushLate writes a block because of its age.
func (w *Writer) flushLate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
}

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

// End completes the recording with what is missing in it. It does not close what the
// recording was written to.
func (w *Writer) End(e Ending) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
	if w.err != nil {
		return w.err
	}
	if err := w.writeJSON(blockEnd, ending{w.records, e.Lost[:], e.Cut, e.Uncounted}); err != nil {
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
