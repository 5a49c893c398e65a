// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/layout"
)

// A checkedFlags is what flags say, without the kernel.
type checkedFlags struct {
	options  plan.Options
	ringSize uint32
	filter   bpf.Filter
	rate     bpf.Rate
}

// check refuses flags that are wrong or do not go together.
func (f *traceFlags) check() (c checkedFlags, err error) {
	if c.options, err = f.planOptions(); err != nil {
		return c, err
	}
	if c.ringSize, err = parseSize(f.ringbuf); err != nil {
		return c, usagef("--ringbuf %s: %w", f.ringbuf, err)
	}
	if f.inFlight < 0 || f.inFlight > maxInFlight {
		return c, usagef("--in-flight %d: there can be 1 to %d, or 0 for as many as is usual", f.inFlight, maxInFlight)
	}
	if err := errors.Join(f.record.check(f.command), f.tail.branches.check(), f.checkInlined()); err != nil {
		return c, err
	}
	if f.dryRun != "" && f.dryRun != dryRunList && f.dryRun != dryRunLoad {
		return c, usagef("--dry-run=%s: there are list and load", f.dryRun)
	}
	if c.filter, err = f.filters.filter(len(f.command) > 0); err != nil {
		return c, err
	}
	if c.rate, err = f.control.check(); err != nil {
		return c, err
	}
	c.options.Paired = c.filter.Fleeting() || c.rate.Most > 0
	return c, f.checkUntyped()
}

// makePlan resolves the SPECs and chooses by which methods functions are attached.
func (t *tracing) makePlan(args []string, options plan.Options) (err error) {
	f := t.flags
	options.Sources, options.Inlined = f.symbols.sources(t.kernel), f.symbols.inlinedHint
	if !f.session.wanted() {
		options.Inlined = f.symbols.inlinedCallHint
	}
	if f.inlined {
		options.Inlined, options.Inlinings = nil, inlinedPlaces{&f.symbols, t.kernel}
	}
	options.Warn = func(err error) { t.log.Warn(err.Error()) }
	f.filters.warn(t.log)
	found := slow(t.stderr, "looking for the functions...")
	request, err := f.resolve(t.kernel, args, options)
	found()
	if err != nil {
		return err
	}
	sayInlined(t.log, request.plan, request.skipped)
	sayLeftOut(t.log, request.skipped)
	if f.verbose || f.debug {
		sayRefused(t.log, request.refused())
	}
	switch {
	case t.kernel.GivenTypes():
		request.plan, err = attach.ChooseUntyped(request.plan, f.auto())
	case f.auto() && f.kernel.btf == "":
		request.plan, request.choice, err = attach.Choose(request.plan, f.tail.branches.text != "")
		sayPassed(t.log, request.choice)
	}
	if err != nil {
		return err
	}
	t.request, t.plan = request, request.plan
	sayAwaiting(t.log, t.plan)
	if f.dryRun != "" {
		return plan.Refused(t.kernel, t.plan.Probes)
	}
	return nil
}

// completeTarget adds to the target what takes looking into the kernel.
func (t *tracing) completeTarget(ctx context.Context, filter *bpf.Filter) (err error) {
	t.target.TypeID = typeIDs(ctx, t.kernel)
	if t.target.Functions, err = filterFunctions(filter, t.kernel); err != nil {
		return err
	}
	types, _ := t.kernel.BTF()
	t.target.Guard = codegen.GuardFor(t.plan.Layouts(), types)
	return nil
}

// checkKernel says what keeps this kernel from being traced in the way that was asked for.
func (t *tracing) checkKernel() error {
	if err := obstacle(t.kernel); err != nil {
		return err
	}
	method := t.flags.method
	m, _ := layout.MethodNamed(method)
	if err := attach.Supported(m); err != nil {
		return fmt.Errorf("--attach %s: %w; --attach auto takes what the kernel has", method, err)
	}
	if t.flags.debug {
		return explain(t.stderr, t.plan, t.target)
	}
	return nil
}

// openViews opens what calls or sessions are shown with, and the recording.
func (t *tracing) openViews(stdout io.Writer) (err error) {
	f := t.flags
	var sessions *record.Sessions
	if !t.plan.Sessions {
		if t.tails, err = f.tail.open(t.kernel, &f.symbols, t.stderr); err != nil {
			return err
		}
	} else {
		if t.resolver, err = f.symbols.open(t.kernel, t.stderr); err != nil {
			return err
		}
		if t.shown, err = f.shown(columnsOf(stdout)); err != nil {
			return err
		}
		sessions = &t.shown.Sessions
	}
	t.recording, err = f.record.open(t.kernel, t.plan, sessions)
	return err
}
