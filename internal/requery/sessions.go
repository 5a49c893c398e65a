// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"errors"
	"slices"
	"time"

	"github.com/ksnoop/ksnoop/internal/session"
)

// A Sessions says which sessions of a recording are shown. The zero value lets all pass.
type Sessions struct {
	Filter
	// Failed asks for sessions that failed: with one of Only, or with any error if it is
	// empty.
	Failed bool
	Only   []uint16
	Except []uint16
	Longer time.Duration

	span span
}

// Check returns an error if what is asked for cannot be answered. live says that the sessions
// are printed call by call, before their ends are known.
func (f *Sessions) Check(live bool) error {
	if live && (f.Failed || len(f.Except) > 0 || f.Longer > 0) {
		return errors.New("these sessions were recorded with --live: they are printed before it is known how they end")
	}
	return f.Range.Check()
}

// Keep reports whether a session is shown. Those that were open in the time asked for are.
func (f *Sessions) Keep(s *session.Session) bool {
	f.span.begin(&f.Range, s.Start)
	switch {
	case !f.passes(s.PID, s.TID, s.Inner, []byte(s.Comm), s.Owner):
		return false
	case s.End < f.span.from && s.State != session.Running, s.Start > f.span.to:
		return false
	case s.State == session.Running:
		return true
	case s.End-s.Start < uint64(f.Longer):
		return false
	}
	number, failed := failure(s)
	switch {
	case f.Failed && (!failed || len(f.Only) > 0 && !slices.Contains(f.Only, number)):
		return false
	}
	return !failed || !slices.Contains(f.Except, number)
}

// failure returns the number of the error that a session failed with; 0 is that of NULL.
func failure(s *session.Session) (number uint16, failed bool) {
	f := s.Chain.Failure()
	if !s.Failed || f == nil {
		return 0, s.Failed
	}
	return uint16(-uint32(f.Result) & maxError), true
}

// maxError is the largest number that the engine keeps of an error.
const maxError = 4095
