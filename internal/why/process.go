// SPDX-License-Identifier: Apache-2.0

package why

import (
	"errors"
	"slices"
	"time"
)

// A Process is one that runs already. It is traced with what it starts. What a command does when it
// is run again is what a process does the next time: each run takes one failure of it.
type Process struct {
	PID   uint32
	Wish  Wish            // which call to wait for
	Ended <-chan struct{} // closed when it has ended
	stop  func()          // ends the records of the run
	// varies says that a failure was taken whose arguments are others than those of the first one.
	varies bool
}

// ErrEnded says that the process has ended.
var ErrEnded = errors.New("the process has ended")

// grace is how long the first run goes on when it has seen the call that it waits for: what the
// process says about it, and the signal that has interrupted it, come behind the call.
const grace = 200 * time.Millisecond

// hasEnded reports whether it has.
func (p *Process) hasEnded() bool {
	select {
	case <-p.Ended:
		return true
	default:
		return false
	}
}

// mostSeen is how many failures of a process are kept while it is waited for the one that matters.
const mostSeen = 1000

// latest drops the oldest of twice as many as are kept.
func latest[T any](all []T, most int) []T {
	if len(all) < 2*most {
		return all
	}
	return slices.Delete(all, 0, len(all)-most)
}

// An awaiting decides when the first run of a process has seen enough.
type awaiting struct {
	process *Process
	fit     int         // calls that are waited for
	timer   *time.Timer // runs when it has
	full    int         // at so many calls the oldest are forgotten
}

// call looks at the last call that has failed.
func (a *awaiting) call(s *Seen) {
	w := a.process.Wish
	if w.awaits(&s.Calls[len(s.Calls)-1]) {
		a.fit++
	}
	if a.fit >= max(w.Nth, 1) {
		a.enough()
	}
	if len(s.Calls) >= max(a.full, 2*mostSeen) {
		s.forget(w)
		a.full = len(s.Calls) + mostSeen // what is waited for is kept
	}
}

// message looks at the last message.
func (a *awaiting) message(s *Seen) {
	w := a.process.Wish
	if w.Nth == 0 && len(s.Messages) > 0 && named(s.Calls, fitting(s.Calls, w), &s.Messages[len(s.Messages)-1]) >= 0 {
		a.enough()
	}
}

// enough has the records end, but not at once.
func (a *awaiting) enough() {
	if a.timer == nil {
		a.timer = time.AfterFunc(grace, a.process.stop)
	}
}

// awaits reports whether a failure of a process is waited for: one that is asked for or, if none
// is, one that programs do not expect.
func (w Wish) awaits(f *Failure) bool {
	return w.fits(f) && (!w.empty() || !expected(f))
}

// forget drops the oldest of what has been seen that is not waited for.
func (s *Seen) forget(w Wish) {
	old := len(s.Calls) - mostSeen
	kept := s.Calls[:0]
	for i := range s.Calls {
		if i >= old || w.awaits(&s.Calls[i]) {
			kept = append(kept, s.Calls[i])
		}
	}
	s.earlier += len(s.Calls) - len(kept)
	clear(s.Calls[len(kept):])
	s.Calls = kept
}
