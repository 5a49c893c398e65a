// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/trace"
)

// A request is what the command line asks for, resolved.
type request struct {
	trace.Request
	trace.Resolved
	settings sessionSettings
}

// selects are the SPECs by which functions are selected.
func (r *request) selects() []*expr.Spec {
	if s := r.Sessions; s != nil {
		return slices.Concat(s.Entry, s.Allow, s.Specs)
	}
	return r.Specs
}

// resolve turns SPECs, and the options of sessions if there are any, into a
// plan.
func (f *traceFlags) resolve(view *kernel.View, args []string, o plan.Options) (*request, error) {
	r := &request{Request: trace.Request{Options: o, Method: f.wantedMethod(), Branches: f.tail.branches.text != ""}}
	var faults, err error
	if f.session.wanted() {
		err = f.sessions(r, args)
	} else {
		r.Specs, faults = parseSpecs(args)
	}
	if err == nil {
		r.Resolved, err = trace.Resolve(view, r.Request)
	}
	if err := errors.Join(faults, err); err != nil {
		return nil, unusable(view, err)
	}
	return r, nil
}

// sessions adds what is asked of sessions to a request.
func (f *traceFlags) sessions(r *request, args []string) (err error) {
	if r.settings, err = f.session.settings(); err != nil {
		return err
	}
	asked, deny, err := f.session.request(args)
	if err != nil {
		return err
	}
	if asked.Deny, err = parseSelectors(deny); err != nil {
		return err
	}
	asked.Args = f.session.args
	r.Sessions = &asked
	return nil
}

// dryRun says what would be traced; failed could not be.
func (r *request) dryRun(view *kernel.View, failed []attach.Failure) *dryRun {
	bad := map[*plan.Probe]bool{}
	for _, f := range failed {
		bad[f.Probe] = true
	}
	d := &dryRun{skipped: r.Skipped, failed: failed, refused: refused(view, r.selects()), passed: passedTexts(r.Choice), unsure: unsure(r.Plan, bad), caution: awaiting(r.Plan)}
	if r.Plan.Sessions {
		d.traced, d.methods = dryRunOfSessions(r.Plan, bad), methodCounts(r.Plan, bad)
	} else {
		d.traced = dryRunOf(r.Plan, bad)
	}
	return d
}

// engine is what the engine is told of sessions.
func (f *sessionFlags) engine(s sessionSettings) bpf.SessionSettings {
	e := bpf.SessionSettings{Longer: uint64(s.longer), Hung: uint64(f.hung), Success: f.success, Interim: f.interim, Traced: f.trace, Live: f.live, Count: f.open}
	if len(s.only)+len(s.except) == 0 {
		return e
	}
	e.Errors = new([bpf.MaxErrno/64 + 1]uint64)
	if len(s.only) == 0 {
		for i := range e.Errors {
			e.Errors[i] = ^uint64(0)
		}
	}
	for _, n := range s.only {
		e.Errors[n/64] |= 1 << (n % 64)
	}
	for _, n := range s.except {
		e.Errors[n/64] &^= 1 << (n % 64)
	}
	return e
}

// A sessionsView prints sessions.
type sessionsView struct {
	decoder *session.Decoder
	printer *output.Sessions
	count   uint64 // stop after so many sessions; 0: never
	printed uint64
	marked  [bpf.Counters]uint64 // losses that a mark in the output shows
}

// A shownSessions says how sessions are decoded and printed.
type shownSessions struct {
	record.Sessions
	look      lookFlags
	addresses bool
	columns   func() int // of the terminal
	branches  output.BranchOptions
	count     uint64
}

func newSessionsView(p *plan.Plan, o shownSessions, view *kernel.View, resolver *symbols.Resolver) *sessionsView {
	return &sessionsView{
		decoder: &session.Decoder{Plan: p, Traced: o.Traced, Live: o.Live},
		printer: output.NewSessions(output.SessionOptions{Resolver: resolver, Boot: o.Boot, Args: o.look.form, ArgsWidth: o.look.width, Columns: o.columns,
			Trace: o.Traced, Live: o.Live, NoStack: o.look.noStack, Unfiltered: o.look.fullStacks || o.branches.Unfiltered, Addresses: o.addresses, Branches: o.branches, Symbol: func(dst []byte, addr uint64) []byte { return appendSymbol(dst, view, addr) }}),
		count: o.count,
	}
}

// shown says how the sessions of a request are to be shown.
func (f *traceFlags) shown(columns func() int) (o shownSessions, err error) {
	s := &f.session
	boot, err := bootTime()
	return shownSessions{Sessions: record.Sessions{Traced: s.trace, Live: s.live, Args: s.args, Branches: f.tail.branches.text != "", Boot: boot},
		look: s.look, addresses: f.verbose || f.debug, columns: columns, branches: f.tail.branches.options(), count: f.count}, err
}

// bootTime is when the clock of the kernel's time stamps was zero.
func bootTime() (time.Time, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return time.Time{}, fmt.Errorf("reading the clock: %w", err)
	}
	return time.Now().Add(-time.Duration(ts.Nano())), nil
}

// print writes sessions until there are no more or enough were printed. It
// writes what it holds back when idle says that it may take a while until the
// next record; nil is never.
func (v *sessionsView) print(out io.Writer, records iter.Seq2[[]byte, error], idle func() bool) (err error) {
	w := bufio.NewWriterSize(out, 64<<10)
	defer func() { err = finish(w, err) }()
	var buf []byte
	if idle != nil {
		records = flushed(records, w, idle)
	}
	for s, err := range v.decoder.Sessions(records) {
		if err != nil {
			return err
		}
		if buf, err = v.printer.AppendSession(buf[:0], s); err != nil {
			return err
		}
		if _, err := w.Write(buf); err != nil {
			return err
		}
		switch s.State {
		case session.Missing:
			v.marked[s.Loss.Cause] += s.Loss.Count
			continue
		case session.Running:
			continue
		}
		if v.printed++; v.printed == v.count {
			break
		}
	}
	return nil
}

// tally is what is known of the run when all is printed.
func (v *sessionsView) tally() *tally {
	return &tally{records: v.printed, orphans: v.decoder.Orphans(), left: v.decoder.LeftOut(), marked: v.marked}
}
