// SPDX-License-Identifier: Apache-2.0

package show

import (
	"io"
	"iter"

	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
)

// A Sessions writes sessions.
type Sessions struct {
	Plan         *plan.Plan
	Traced, Live bool // as in session.Decoder
	StacksOnly   bool // leave out the calls that Traced has brought
	Printer      SessionPrinter
	Count        uint64 // stop after so many; 0: never
	// Keep reports whether a session, or a part of one, is shown. Nil shows all.
	Keep func(*session.Session) (bool, error)

	ending
}

var _ View = (*Sessions)(nil)

// Write writes sessions until there are no more or enough were written. It holds text back
// until idle says that it may take a while until the next record. A nil idle never waits.
func (v *Sessions) Write(out io.Writer, records iter.Seq2[[]byte, error], idle func() bool) (err error) {
	w := newWriter(out)
	defer func() { err = v.stopped(w, err) }()
	if err := v.begin(w, v.Printer); err != nil {
		return err
	}
	if idle != nil {
		if err := w.Flush(); err != nil {
			return err
		}
	}
	hung := hungSessions{}
	decoder := &session.Decoder{Plan: v.Plan, Traced: v.Traced, Live: v.Live}
	defer func() { v.tally.Orphans, v.tally.Left = decoder.Orphans(), decoder.LeftOut() }()
	for s, err := range decoder.Sessions(w.flushed(records, idle)) {
		if err != nil {
			return err
		}
		if s.State == session.Missing {
			if err := v.loss(w, s.Loss); err != nil {
				return err
			}
			continue
		}
		if v.Keep != nil {
			if keep, err := v.Keep(s); err != nil {
				return err
			} else if !keep {
				continue
			}
		}
		if v.StacksOnly {
			s.Trace = nil
		}
		if err := w.put(v.Printer.AppendSession(w.buf[:0], s)); err != nil {
			return err
		}
		if !hung.counts(s) {
			continue
		}
		v.tally.Calls++
		if v.tally.Records++; v.tally.Records == v.Count {
			break
		}
	}
	return nil
}

// hungSessions are sessions that were reported as hung, and have not ended.
type hungSessions map[hungSession]bool

type hungSession struct {
	tid   uint32
	start uint64
}

// mostHung is more than there are sessions at a time. Those whose ends were lost are forgotten with all others.
const mostHung = 1 << 20

// counts reports whether a session counts: once, though it is reported several times.
func (h hungSessions) counts(s *session.Session) bool {
	if s.State == session.Running {
		return false
	}
	key := hungSession{s.TID, s.Start}
	before := h[key]
	switch {
	case s.State != session.Hung:
		delete(h, key)
	case len(h) >= mostHung:
		clear(h)
		h[key] = true
	default:
		h[key] = true
	}
	return !before
}
