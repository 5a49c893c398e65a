// SPDX-License-Identifier: Apache-2.0

package output

import (
	"iter"
	"strconv"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// Sessions prints sessions: a line that says when it was and in which thread, its calls if
// wanted, and the stack of its failing chain.
type Sessions struct {
	options SessionOptions
	trace   *traceView
	stack   *stackView
	branch  branchView
	tails   Tails      // of processes
	last    sessionKey // the session printed last
	open    bool       // more of it will come
}

// A sessionKey identifies a session.
type sessionKey struct {
	tid   uint32
	start uint64
}

// NewSessions returns a printer of sessions.
func NewSessions(o SessionOptions) *Sessions {
	values := newValuePrinter(&o)
	return &Sessions{options: o, trace: newTraceView(values, o.Live, o.Colour), stack: newStackView(&o, values),
		branch: branchView{resolver: o.Resolver}, tails: Tails{Kernel: o.Resolver, User: o.User}}
}

// AppendHeader appends nothing: each session has a header of its own.
func (*Sessions) AppendHeader(dst []byte) ([]byte, error) { return dst, nil }

// AppendLoss appends the mark that stands where sessions are missing.
func (p *Sessions) AppendLoss(dst []byte, l event.Loss) []byte {
	return appendMark(dst, l.Cause, l.Count, p.options.Colour)
}

// AppendEnd appends nothing: what was lost has been marked.
func (*Sessions) AppendEnd(dst []byte, _ *Totals) ([]byte, error) { return dst, nil }

// AppendSession appends a session, or the next piece of an open one. A complete session
// ends with an empty line.
func (p *Sessions) AppendSession(dst []byte, s *session.Session) (_ []byte, err error) {
	base := len(dst)
	defer func() {
		if err != nil {
			dst = dst[:base]
		}
	}()
	key := sessionKey{s.TID, s.Start}
	piece, continued := s.State == session.Running, p.open && key == p.last
	if p.open && !continued {
		dst = append(dst, '\n')
	}
	p.last, p.open = key, piece
	if !continued {
		dst = append(p.appendHeader(dst, s), '\n')
	}
	if p.options.Trace && len(s.Trace) > 0 {
		first := s.Trace[0].Depth == 0 && s.Trace[0].Kind != session.StepExit && s.Trace[0].Kind != session.StepOpen
		if dst, err = p.trace.append(dst, s.Trace, first); err != nil {
			return dst, err
		}
	}
	if piece {
		return dst, nil
	}
	if continued { // now it is known how it ended
		dst = append(p.appendHeader(append(dst, '\n'), s), '\n')
	} else if p.options.Trace && len(s.Trace) > 0 {
		dst = append(dst, '\n')
	}
	above := len(dst)
	if dst, err = p.appendStacks(dst, s); err != nil {
		return dst, err
	}
	if len(dst) == above && p.options.NoStack {
		dst = dst[:above-1] // there is an empty line already
	}
	return append(appendLost(dst, &s.Lost, p.options.Colour), '\n'), nil
}

// appendStacks appends the interim chains, oldest first, and then the final chain.
func (p *Sessions) appendStacks(dst []byte, s *session.Session) (_ []byte, err error) {
	for i := range s.Interim {
		if p.options.NoStack && len(s.Interim[i].Branches) == 0 {
			continue
		}
		dst = append(strconv.AppendInt(append(dst, "interim stack "...), int64(i+1), 10), ":\n"...)
		if dst, err = p.AppendStack(dst, &s.Interim[i]); err != nil {
			return dst, err
		}
		dst = append(dst, '\n')
	}
	if dst, err = p.AppendStack(dst, &s.Chain); err != nil || p.options.NoStack {
		return dst, err
	}
	return p.appendUser(dst, s), nil
}

// appendUser appends the stack of the process below that of the kernel.
func (p *Sessions) appendUser(dst []byte, s *session.Session) []byte {
	if s.User == nil || p.options.User == nil {
		return dst
	}
	of, ok := s.User.Tail.Section(bpf.SectionUserStack)
	if !ok {
		return dst
	}
	dst = p.tails.AppendUserStack(append(dst, '\n'), s.User, of)
	return dst[:len(dst)-1] // an empty line follows the session
}

// AppendStack appends a chain, after the branches that led to its end.
func (p *Sessions) AppendStack(dst []byte, c *session.Chain) ([]byte, error) {
	dst = p.appendBranches(dst, c)
	if p.options.NoStack {
		return dst, nil
	}
	return p.stack.append(dst, c)
}

// appendBranches appends the branches that led to the return of a chain's innermost call,
// and an empty line.
func (p *Sessions) appendBranches(dst []byte, c *session.Chain) []byte {
	if c.NoBranches != 0 {
		return append(appendWhyNoBranches(append(dst, "--- no branches"...), uint32(c.NoBranches)), " ---\n"...)
	}
	last := len(c.Frames) - 1
	if len(c.Branches) == 0 || last < 0 {
		return dst
	}
	p.branch.all = c.AllBranches
	dst, _ = p.branch.appendChosen(dst, c.Branches, c.Frames[last].Func, true, p.options.Branches, "")
	return append(dst, '\n')
}

// appendHeader appends the first line of a session:
//
//	20:19:36.372607 -> 20:19:36.372682 TID/PID 8346/8346 (simfail/simfail):
func (p *Sessions) appendHeader(dst []byte, s *session.Session) []byte {
	boot := bootNow(p.options.Boot, p.options.Booted)
	dst = append(appendClock(dst, boot, s.Start), " -> "...)
	if s.State == session.Running {
		dst = append(dst, "..."...)
	} else {
		dst = appendClock(dst, boot, s.End)
	}
	dst = appendIDs(append(dst, " TID/PID "...), s.Inner, []uint32{s.TID, s.PID}, []uint32{s.Inner.TID, s.Inner.PID})
	dst = terminal.AppendName(append(dst, " ("...), s.Comm)
	if s.Leader != "" { // unknown while the session is open
		dst = terminal.AppendName(append(dst, '/'), s.Leader)
	}
	dst = append(dst, "):"...)
	if s.Interrupt {
		dst = append(dst, " in an interrupt"...)
	}
	switch s.State {
	case session.Hung:
		dst = append(dst, " still open\n"...)
	case session.Exited, session.Replaced:
		dst = append(append(append(dst, ' '), s.State.Unreturned()...), '\n')
	default:
		dst = append(dst, '\n')
	}
	return dst
}

func appendClock(dst []byte, boot time.Time, ns uint64) []byte {
	return boot.Add(time.Duration(ns)).AppendFormat(dst, "15:04:05.000000")
}

// LostIn yields what is missing in a session, and how much of it. What does not depend on how much.
func LostIn(l *session.Lost) iter.Seq2[string, uint32] {
	return func(yield func(string, uint32) bool) {
		for what, n := range lostIn(l) {
			if !yield(plural.Text(0, what), n) {
				return
			}
		}
	}
}

// lostIn is LostIn with texts for plural.Text.
func lostIn(l *session.Lost) iter.Seq2[string, uint32] {
	return func(yield func(string, uint32) bool) {
		for _, x := range [...]struct {
			n    uint32
			text string
		}{
			{l.Deep, "call{s} {was|were} nested deeper than is kept"},
			{l.Returns, "call{s} ended unseen"},
			{l.Room, "call{s} not seen: the kernel has no room to wait for more returns at once"},
			{l.Reasons, "failure{s} gave way to later ones before it was known whether {it was|they were} the reason"},
			{l.Chunk, "part{s} of this session could not be sent"},
			{l.Args, "call{s} had values for which there was no room"},
			{l.Chains, "interim stack{s} left out: the session took too much memory"},
		} {
			if x.n > 0 && !yield(x.text, x.n) {
				return
			}
		}
	}
}

// appendLost appends a line for each kind of loss.
func appendLost(dst []byte, l *session.Lost, colour bool) []byte {
	for what, n := range lostIn(l) {
		dst = appendMissing(dst, uint64(n), what, colour)
	}
	if l.Stack {
		dst = append(dst, "--- the kernel's stack could not be taken ---\n"...)
	}
	return dst
}
