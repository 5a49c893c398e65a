// SPDX-License-Identifier: Apache-2.0

package tracer

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/session"
)

// A Session is what a thread did between the call of a function of Request.Entry and its
// return.
type Session struct {
	Function, Module string
	PID, TID         uint32 // in the initial PID namespace
	// UID, Cgroup and Comm are the thread's when the session began, as those of a Call are.
	UID    uint32
	Cgroup uint64
	Comm   string
	// Start and End are CLOCK_MONOTONIC. End is the time of the report if it had not ended.
	Start, End time.Duration
	Failed     bool
	// Calls are the call chain that failed, outermost first; of a session that did not fail,
	// the calls that were made last.
	Calls []SessionCall
	// Stack is the kernel's stack where the innermost of them returned, innermost first,
	// without what tracing itself adds to it.
	Stack []Frame
	// Incomplete says that something of the session is missing.
	Incomplete bool
	// Lost is set alone where sessions are missing. Losses counts them as well.
	Lost Loss
}

// A SessionCall is one call of a chain.
type SessionCall struct {
	Function, Module string
	// Result is the return register, of which a narrower type has the lower bits, and Text
	// what it says: "-ENOENT", "NULL", "3".
	Result   uint64
	Text     string
	Returned bool // else Result, Text and Duration are not final
	Failed   bool
	Duration time.Duration
	Values   []Value // what the SPEC of the function asks for
}

// Sessions yields sessions until ctx ends and all that was recorded before is read. A
// Session is valid until the next one is asked for. An error is the last that is yielded.
func (t *Tracer) Sessions(ctx context.Context) iter.Seq2[*Session, error] {
	return func(yield func(*Session, error) bool) {
		ctx, end, err := t.begin(ctx, true)
		if err != nil {
			yield(nil, err)
			return
		}
		ended := sync.OnceValue(end)
		defer ended()
		t.decoder = &session.Decoder{Plan: t.run.Plan}
		for s, err := range t.decoder.Sessions(t.run.Records(ctx, t.limits)) {
			var out *Session
			if err == nil {
				out, err = t.session(s)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(out, nil) {
				return
			}
		}
		if err := ended(); err != nil {
			yield(nil, err)
		}
	}
}

// session makes a session of what was decoded.
func (t *Tracer) session(s *session.Session) (*Session, error) {
	if s.State == session.Missing {
		return &Session{Lost: lossOf(s.Loss.Cause, s.Loss.Count)}, nil
	}
	out := &Session{Function: s.Func.Func.Name, Module: s.Func.Func.Module, PID: s.PID, TID: s.TID,
		UID: s.Owner.UID, Cgroup: s.Owner.Cgroup, Comm: s.Comm,
		Start: time.Duration(s.Start), End: time.Duration(s.End), Failed: s.Failed, Incomplete: s.Lost.Any()}
	for i := range s.Chain.Frames {
		f := &s.Chain.Frames[i]
		call := SessionCall{Function: f.Func.Func.Name, Module: f.Func.Func.Module, Result: f.Result, Text: output.ResultText(f.Func, f.Result),
			Returned: f.Finished, Failed: f.Failed, Duration: time.Duration(f.Duration)}
		if e := f.Values.Event; e != nil && e.Record != nil {
			var err error
			if call.Values, err = t.appendFields(nil, e); err != nil {
				return nil, err
			}
		}
		out.Calls = append(out.Calls, call)
	}
	for _, addr := range output.WithoutTracing(t.tails.Kernel, s.Chain.Stack) {
		out.Stack = append(out.Stack, t.frame(addr))
	}
	return out, nil
}
