// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/process"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// A Reader reads one recording.
type Reader struct {
	in   *blockReader
	info Info
	view *kernel.View
	plan *plan.Plan
	// cgroups is that of the whole run.
	cgroups *cgroups
	users   *process.Recorded // so is this

	block      []byte
	left       int // bytes of block whose records are still to be yielded
	records    uint64
	symbolText int // bytes
	losses     event.Losses
	more       bool
	inSeries   bool // other runs follow
}

// NewReader reads a recording up to its records and resolves its plan.
func NewReader(r io.Reader) (*Reader, error) {
	in, err := newBlockReader(r)
	if err != nil {
		return nil, err
	}
	if in.version == seriesVersion {
		return nil, errSeries
	}
	kind, block, err := in.read(nil)
	switch {
	case err == io.EOF:
		return nil, cutBefore("its plan")
	case err != nil:
		return nil, err
	case kind != blockInfo:
		return nil, misplaced(kind)
	}
	rec := &Reader{in: in, cgroups: &cgroups{}, users: process.NewRecorded()}
	if err := rec.begin(block); err != nil {
		return nil, err
	}
	return rec, nil
}

// begin reads the blocks between that of info, which it is given, and the records.
func (r *Reader) begin(info []byte) error {
	if err := parseJSON(info, &r.info); err != nil {
		return err
	}
	r.info.Writer, r.info.BootID = terminal.Name(r.info.Writer), terminal.Name(r.info.BootID)
	if r.info.Header != bpf.EventSize {
		return fmt.Errorf("recorded by ksnoop %s, whose records have headers of %d bytes rather than %d", r.info.Writer, r.info.Header, bpf.EventSize)
	}
	if s := r.info.Sessions; s != nil && *s != *s.sized() {
		return fmt.Errorf("recorded by ksnoop %s, whose sessions have headers of %d and calls of %d bytes rather than %d and %d",
			r.info.Writer, s.Header, s.Call, bpf.SessionHeaderSize, bpf.CallSize)
	}
	if s := r.info.Sessions; s != nil && r.info.Boot.IsZero() {
		r.info.Boot = s.Boot
	}
	files := make(fileTree)
	for {
		kind, block, err := r.in.read(nil)
		switch {
		case err == io.EOF:
			return cutBefore("its plan")
		case err != nil:
			return err
		case kind == blockFile:
			if err := files.addBlock(block); err != nil {
				return err
			}
			continue
		case kind != blockPlan:
			return misplaced(kind)
		}
		probes, err := parseProbes(block)
		if err != nil {
			return err
		}
		r.view = kernel.Open(files)
		if r.plan, err = resolve(probes, r.view, r.info); err != nil {
			// The SPEC was right when it was recorded, so this is not shown as a fault of
			// the user's text.
			return fmt.Errorf("recorded by ksnoop %s: %s", r.info.Writer, reason(err))
		}
		return nil
	}
}

// reason returns the text of an error about a recording's contents. Faults of a SPEC keep
// their lines; anything else goes on one line, whatever names the recording put into it.
func reason(err error) string {
	var spec *expr.ErrorList
	if errors.As(err, &spec) {
		return err.Error()
	}
	return terminal.Name(err.Error())
}

func parseJSON(block []byte, v any) error {
	if len(block) > maxJSON {
		return damaged("%d bytes of JSON", len(block))
	}
	if err := json.Unmarshal(block, v); err != nil {
		return damaged("%v", err)
	}
	return nil
}

func cutBefore(what string) error { return fmt.Errorf("%w before %s", errCut, what) }

func misplaced(kind blockKind) error { return damaged("a block of kind %d is out of place", kind) }

// Info returns the recording's first block.
func (r *Reader) Info() Info { return r.info }

// Kernel returns a view of the kernel that was traced, as far as it was recorded.
func (r *Reader) Kernel() *kernel.View { return r.view }

// Plan returns what was traced.
func (r *Reader) Plan() *plan.Plan { return r.plan }

// Losses returns what the recording lacks. It is only known after Records has ended without
// an error.
func (r *Reader) Losses() event.Losses { return r.losses }

// Pending reports whether more of the records are at hand.
func (r *Reader) Pending() bool { return r.left > 0 }

// More reports whether the run goes on in the next part, whose end has the losses. It is only
// known after Records has ended without an error.
func (r *Reader) More() bool { return r.more }

// Records yields the raw records. It can be used once. A record is valid until the next one
// is yielded. If the recording was cut off or is damaged, an error comes last; the records
// before it are as they were written.
func (r *Reader) Records() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for {
			kind, block, err := r.in.read(r.block[:0])
			r.block = block
			switch {
			case err == io.EOF:
				err = errCut
			case err == nil && kind == blockEnd:
				if err := r.end(block); err != nil {
					yield(nil, err)
				}
				return
			case err == nil && kind == blockSymbols:
				err = r.addSymbols(block)
			case err == nil && kind == blockCgroups:
				err = r.cgroups.add(block)
			case err == nil && kind == blockUsers:
				if err = r.users.Add(block); err != nil {
					err = damaged("%v", err)
				}
			case err == nil && kind != blockRecords:
				err = misplaced(kind)
			}
			if err == nil && kind == blockRecords {
				var more bool
				if more, err = r.split(block, yield); !more {
					return
				}
			}
			if err != nil {
				yield(nil, fmt.Errorf("after %s: %w", plural.Of(r.records, "record{s}"), err))
				return
			}
		}
	}
}

// maxSymbolText bounds the symbols of all addresses in records, in bytes. A kernel has 12 MB
// of them.
const maxSymbolText = 64 << 20

// addSymbols adds the symbols of addresses in the records that follow.
func (r *Reader) addSymbols(block []byte) error {
	if r.symbolText += len(block); r.symbolText > maxSymbolText {
		return damaged("it has more than %d bytes of symbols", maxSymbolText)
	}
	if err := r.view.AddSymbols(string(block)); err != nil {
		return damaged("%v", err)
	}
	return nil
}

// split yields the records of a block. It returns false if the consumer wants no more.
func (r *Reader) split(block []byte, yield func([]byte, error) bool) (bool, error) {
	for len(block) > 0 {
		size, n := binary.Uvarint(block)
		if n <= 0 || size > uint64(len(block)-n) {
			return true, damaged("a record is longer than its block")
		}
		raw := block[n : n+int(size) : n+int(size)]
		block = block[n+int(size):]
		r.left = len(block)
		r.records++
		if !yield(raw, nil) {
			return false, nil
		}
	}
	return true, nil
}

// end checks that nothing is missing and that nothing follows.
func (r *Reader) end(block []byte) error {
	var e ending
	if err := parseJSON(block, &e); err != nil {
		return err
	}
	if e.Records != r.records {
		return damaged("it has %d records of %d", r.records, e.Records)
	}
	if len(e.Lost) > len(r.losses.Lost) { // counters are only ever added, never removed
		return fmt.Errorf("recorded by ksnoop %s, which counts %d causes of losses rather than %d", r.info.Writer, len(e.Lost), len(r.losses.Lost))
	}
	copy(r.losses.Lost[:], e.Lost)
	r.losses.Cut, r.losses.Uncounted, r.more = e.Cut, e.Uncounted, e.More
	if r.inSeries {
		return nil
	}
	if f, ok := r.in.r.(*Follower); ok {
		f.whole = true
	}
	if _, _, err := r.in.read(nil); !errors.Is(err, io.EOF) {
		return damaged("something follows its end")
	}
	return nil
}
