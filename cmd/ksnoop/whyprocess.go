// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/why"
)

// watchProcess waits for a call of a process that fails, and finds out why it does.
func (f *whyFlags) watchProcess(ctx context.Context, r *why.Runner, called *output.Tails, out *printout, stderr io.Writer) error {
	came := slow(stderr, fmt.Sprintf("waiting for a system call of process %d to fail; Ctrl-C ends it...", f.pid))
	seen, err := r.Watch(ctx)
	came()
	early := errors.Is(err, why.ErrEnded) || errors.Is(err, why.ErrInterrupted)
	if err != nil && (!early || seen == nil) {
		return unwatched(ctx, err)
	}
	out.keep()
	e := explanation{whyFlags: f, runner: r, seen: seen, page: why.NewProcessPage(r.Process.PID), called: called, out: out, stderr: stderr, early: err}
	return e.explain(ctx)
}

// choose returns which call matters, and the reason.
func (e *explanation) choose() (index int, reason string, err error) {
	switch {
	case e.runner.Process != nil:
	case e.early != nil: // there is no exit status
		return 0, "", e.early
	default:
		return e.seen.Choose(e.wish)
	}
	index, reason, err = e.seen.ChooseFirst(e.wish)
	switch ended := errors.Is(e.early, why.ErrEnded); {
	case err == nil || e.early == nil:
	case !e.seen.Listened && ended:
		err = fmt.Errorf("process %d ended before ksnoop listened", e.runner.Process.PID)
	case !e.seen.Listened: // no call was seen, but that says nothing of the process
		err = errors.New("interrupted before ksnoop listened")
	case ended:
		err = fmt.Errorf("process %d has ended: %w", e.runner.Process.PID, err)
	default:
		err = fmt.Errorf("interrupted: %w", err)
	}
	return index, reason, err
}

// again is what is said when the call is to fail again.
func (e *explanation) again() string {
	if e.runner.Process == nil {
		return "running the command again"
	}
	return "waiting for the call to fail again"
}

// gone says why the call has not failed again. It returns "" if err is another one.
func (e *explanation) gone(err error, chosen int) string {
	call := &e.seen.Calls[chosen]
	switch fd := call.Output(); {
	case errors.Is(err, why.ErrGone) && fd != 0 && e.runner.Process == nil:
		return fmt.Sprintf("the call did not fail when the command was run again with /dev/null as descriptor %d, as further runs are (where its output goes elsewhere it may fail again: ksnoop why --syscall %s -- sh -c 'COMMAND 2>&1 | cat')", fd, call.Name())
	case errors.Is(err, why.ErrGone):
		return "the call did not fail when the command was run again"
	case errors.Is(err, why.ErrEnded):
		return fmt.Sprintf("process %d ended before the call failed again", e.runner.Process.PID)
	case e.runner.Process != nil && errors.Is(err, why.ErrInterrupted):
		return "interrupted before the call failed again"
	}
	return ""
}
