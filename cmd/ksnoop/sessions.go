// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"slices"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/trace"
	"github.com/ksnoop/ksnoop/layout"
)

// A request is what the command line asks for, resolved.
type request struct {
	trace.Request
	trace.Resolved
	settings sessionSettings
	triggers []*expr.Spec // of a flight recorder of calls; Specs has them, too
	// waiting are the calls that a flight recorder of sessions waits for, which waited asks for;
	// nil: none are.
	waiting *trace.Resolved
	waited  trace.Request
	// unasked says that methods are as planned, since there is no kernel to be asked for those that it has.
	unasked bool
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
	if args, err = f.parented(args); err != nil {
		return nil, err
	}
	if f.session.wanted() {
		err = errors.Join(f.sessions(r, args), f.resolveTriggers(view, r))
	} else {
		r.Specs, faults = trace.ParseSpecs(args)
		var bad error
		r.triggers, bad = trace.ParseSpecs(f.record.flight.triggers)
		r.Specs, faults = append(r.Specs, r.triggers...), errors.Join(faults, bad)
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
	if asked.Deny, err = denied(deny); err != nil {
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
	d.unasked = r.unasked && slices.ContainsFunc(r.Plan.Probes, func(p *plan.Probe) bool { return p.Method == layout.MethodFentry && !bad[p] })
	if p, err := view.Privileges(); err == nil {
		if o, found := view.Obstacle(p); found && o.Name == kernel.FactPrivileges {
			d.passed, d.blocked = nil, o.String() // the kernel was not asked
		}
	}
	if r.Plan.Sessions {
		d.traced, d.methods = dryRunOfSessions(r.Plan, bad), methodCounts(r.Plan, bad)
		if r.waiting != nil {
			d.traced = append(d.traced, tracedGroup{"would be a trigger", dryRunOf(r.waiting.Plan, nil)[0].functions})
		}
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

// recorded is what a recording says of how sessions were asked for.
func (f *sessionFlags) recorded(branches, offCPU bool) *record.Sessions {
	return &record.Sessions{Traced: f.trace, Live: f.live, Args: f.args, Branches: branches, OffCPU: offCPU}
}

// sessions say how sessions look as text that were recorded, or will be, in some way. addresses asks for those of stacks.
func (f *lookFlags) sessions(how *record.Sessions, addresses bool, branches output.BranchOptions, out io.Writer) output.SessionOptions {
	return output.SessionOptions{Args: f.form, ArgsWidth: f.width, NoStack: f.noStack, Unfiltered: f.fullStacks || branches.Unfiltered, Columns: columnsOf(out),
		Trace: how.Traced, Live: how.Live, Addresses: addresses, Branches: branches}
}
