// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/container/kubelet"
	"github.com/ksnoop/ksnoop/internal/destination"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/internal/trace"
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
	if err := errors.Join(f.record.check(&f.output, f.command), f.record.flight.check(f.record.file != "", f.record.print, f.count), f.tail.branches.check(), f.checkInlined(), f.symbols.check()); err != nil {
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
	sayInlined(t.log, request.Plan, request.Skipped)
	sayLeftOut(t.log, request.Skipped)
	if f.verbose || f.debug {
		sayRefused(t.log, refused(t.kernel, request.selects()))
	}
	if t.kernel.GivenTypes() || f.kernel.btf == "" { // else it is not for a kernel that runs
		request.Resolved, err = request.Choose(t.kernel, request.Request)
		sayPassed(t.log, request.Choice)
		if err == nil {
			sayKprobes(t.log, request.Plan, request.Choice)
		}
	} else {
		request.unasked = f.auto()
	}
	if err != nil {
		return err
	}
	t.request, t.plan = request, request.Plan
	if err := errors.Join(f.redact.check(t.plan), f.summing.check(t.plan, f.record.file != ""), f.output.format.takes(t.plan), f.output.otlp.takesParent(t.plan), f.output.fields.check(t.plan, "--redact leaves it out")); err != nil {
		return err
	}
	sayAwaiting(t.log, t.plan)
	if f.dryRun != "" {
		return plan.Refused(t.kernel, t.plan, t.plan.Probes)
	}
	return nil
}

// describe says what would be done: in a list, or in every instruction.
func (t *tracing) describe(ctx context.Context, w io.Writer) error {
	target, err := trace.CodeOptions(ctx, t.kernel, t.plan, t.settings)
	switch {
	case err != nil:
		return err
	case t.flags.dryRun == dryRunList:
		return t.request.dryRun(t.kernel, unfit(t.kernel, t.plan, target)).print(w)
	}
	return explain(w, t.plan, target)
}

// checkKernel says what keeps this kernel from being traced in the way that was asked for.
func (t *tracing) checkKernel() error {
	if err := obstacle(t.kernel); err != nil {
		return err
	}
	return t.checkMethod()
}

// checkMethod refuses a method that was asked for and that this kernel has not.
func (t *tracing) checkMethod() error {
	if err := attach.Supported(t.request.Method, t.kernel.TypeCache()); err != nil {
		return fmt.Errorf("--attach %s: %w; --attach auto takes what the kernel has", t.flags.method, err)
	}
	return nil
}

// askKubelet has a kubelet asked for names, if that is wanted. What it knows at the moment is there when askKubelet returns.
func (t *tracing) askKubelet(ctx context.Context) error {
	url := t.flags.filters.kubelet
	switch {
	case url == "":
		return nil
	case t.cgroups == nil:
		return usagef("--kubelet names containers, and there are none in what is shown: see --container, --fields container, $container and --record")
	}
	client, err := kubelet.New(kubelet.Options{URL: url, Root: os.DirFS("/"), Say: func(text string) { t.log.Warn("--kubelet: " + text) }})
	if err != nil {
		return usagef("--kubelet: %w", err)
	}
	client.Ask(ctx)
	t.cgroups.Pods = client
	return nil
}

// openCgroups opens what names the containers of calls, or says which containers are traced.
func (t *tracing) openCgroups() error {
	in := t.flags.filters.in
	if in.Empty() && t.plan.Owner&layout.OwnerCgroup == 0 && !t.plan.Places() {
		return nil
	}
	t.cgroups = trace.NewCgroups()
	if !in.Empty() {
		t.settings.Selection = &trace.Selection{In: in, Cgroups: t.cgroups, Log: t.log}
		if err := t.cgroups.Check(); err != nil {
			return fmt.Errorf("--container and --pod: %w", err)
		}
		return nil
	}
	if err := t.cgroups.Check(); err != nil && (t.plan.Places() || t.flags.output.fields.needs()&layout.OwnerCgroup != 0) {
		t.log.Warn("containers are not told apart: " + err.Error())
	}
	return nil
}

// openViews opens what calls or sessions are shown with, what they are printed to, and the
// recording.
func (t *tracing) openViews(stdout io.Writer) (err error) {
	f := t.flags
	if t.out, err = f.output.open(stdout); err != nil {
		return err
	}
	t.stdout = &destination.Watched{Writer: t.out}
	origin, err := f.origin()
	if err != nil {
		return err
	}
	clock := &bootClock{read: readBoot}
	origin.Boot = clock.Boot()
	t.picture = picture{compact: f.compact, fields: f.output.fields.columns, colour: t.out.coloured, columns: columnsOf(t.out.Writer), run: output.Run{Kernel: t.kernel, Boot: origin.Boot, Booted: clock.Boot, Arch: hostArch, Host: origin.Host, BootID: origin.BootID, Writer: version(), Options: origin.Options}}
	if !t.plan.Sessions {
		tails, err := f.tail.open(t.kernel, &f.symbols, summary.Of(t.plan).HaveStacks(), t.plan.Paths(), t.stderr)
		if err != nil {
			return err
		}
		t.picture.withTails(tails)
		if tails != nil {
			t.plan = f.symbols.annotate(t.plan, t.kernel, tails.Kernel)
		}
	} else {
		resolver, err := f.symbols.open(t.kernel, t.stderr)
		if err != nil {
			return err
		}
		t.picture.run.Resolver, t.picture.run.User = resolver, f.tail.openUsers(&f.symbols, false, t.stderr)
		t.sessions = f.session.recorded(f.tail.branches.text != "", f.output.format.offCPU())
		t.picture.offCPU = t.sessions.OffCPU
		t.picture.sessions = f.session.look.sessions(t.sessions, f.verbose || f.debug, f.tail.branches.options(), t.out.Writer)
	}
	if t.cgroups != nil {
		t.picture.run.Cgroup = t.cgroups.Group
	}
	source := record.Source{Root: t.kernel.Root(), View: t.kernel, Arch: hostArch, Writer: version(), Sessions: t.sessions, Origin: origin, Booted: clock.Boot, Full: f.record.full}
	if t.plan.Owner&layout.OwnerCgroup != 0 {
		source.Cgroup = t.cgroups.Group
	}
	if f.tail.users != nil {
		source.Users = f.tail.users.symbols
	}
	t.recording, err = f.record.open(t.plan, source, f.output.force)
	return err
}

// origin says where and for what is traced.
func (f *traceFlags) origin() (o record.Origin, err error) {
	if o.Host, err = os.Hostname(); err != nil {
		return o, err
	}
	o.Options, o.BootID = f.asked, record.BootID(os.DirFS("/"))
	return o, nil
}
