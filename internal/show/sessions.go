// SPDX-License-Identifier: Apache-2.0

package show

import (
	"io"
	"iter"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/symbols"
)

// A SessionForm says how sessions are decoded and printed.
type SessionForm struct {
	record.Sessions
	Args       output.ArgsForm
	ArgsWidth  int // of a value, in columns; 0: as wide as it is
	NoStack    bool
	FullStacks bool // with the frames of tracing itself, and all addresses
	Addresses  bool
	Columns    func() int // of the terminal; nil if there is none
	Lines      output.BranchOptions
	Count      uint64 // stop after so many sessions; 0: never
}

// A Sessions writes sessions.
type Sessions struct {
	decoder *session.Decoder
	printer *output.Sessions
	count   uint64
	tally   Tally
}

// NewSessions returns a writer of the sessions of a plan. The resolver names the addresses
// of stacks, and view those that values hold.
func NewSessions(p *plan.Plan, f SessionForm, view *kernel.View, resolver *symbols.Resolver) *Sessions {
	return &Sessions{
		decoder: &session.Decoder{Plan: p, Traced: f.Traced, Live: f.Live},
		printer: output.NewSessions(output.SessionOptions{Resolver: resolver, Boot: f.Boot, Args: f.Args, ArgsWidth: f.ArgsWidth, Columns: f.Columns,
			Trace: f.Traced, Live: f.Live, NoStack: f.NoStack, Unfiltered: f.FullStacks || f.Lines.Unfiltered, Addresses: f.Addresses, Branches: f.Lines,
			Symbol: symbols.Appender(view)}),
		count: f.Count,
	}
}

// Write writes sessions until there are no more or enough were written. It holds text back
// until idle says that it may take a while until the next record. A nil idle never waits.
func (v *Sessions) Write(out io.Writer, records iter.Seq2[[]byte, error], idle func() bool) (err error) {
	w := newWriter(out)
	defer func() { err = w.finish(err) }()
	for s, err := range v.decoder.Sessions(w.flushed(records, idle)) {
		if err != nil {
			return err
		}
		text, err := v.printer.AppendSession(w.buf[:0], s)
		if err != nil {
			return err
		}
		if err := w.put(text); err != nil {
			return err
		}
		switch s.State {
		case session.Missing:
			v.tally.marked[s.Loss.Cause] += s.Loss.Count
			continue
		case session.Running:
			continue
		}
		if v.tally.Records++; v.tally.Records == v.count {
			break
		}
	}
	return nil
}

// Tally returns what was written.
func (v *Sessions) Tally() *Tally {
	v.tally.Orphans, v.tally.Left = v.decoder.Orphans(), v.decoder.LeftOut()
	return &v.tally
}
