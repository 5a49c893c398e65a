// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/destination"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/launch"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/show"
	"github.com/ksnoop/ksnoop/internal/trace"
	"github.com/ksnoop/ksnoop/internal/userfunc"
	"github.com/ksnoop/ksnoop/layout"
)

// traceFlags are the options of "ksnoop trace".
type traceFlags struct {
	filters filterFlags
	control controlFlags
	summing summingFlags
	count   uint64
	deny    []string
	method  string
	methods []string // all that were asked for
	ringbuf string
	// inFlight is how many calls in flight there is to be room for; 0: by the memory there is.
	inFlight int
	verbose  bool
	debug    bool
	explain  bool
	yes      bool // however much is probed
	join     bool
	inlined  bool
	compact  bool
	dryRun   string // "", dryRunList or dryRunLoad
	// configHelp asks what retsnoop's settings are here.
	configHelp bool
	record     recordFlags
	redact     redactFlags
	output     outputFlags
	asked      []string // the options that say what is traced
	session    sessionFlags
	kernel     kernelFlags
	symbols    symbolFlags
	tail       tailFlags
	command    []string
	user       userFlag // whom it runs as
	supervised bool     // an agent has started it
}

func newTraceCommand(status *int) *cobra.Command {
	_, c := newTrace(status)
	return c
}

// newTrace returns the command with what its options are kept in.
func newTrace(status *int) (*traceFlags, *cobra.Command) {
	var f traceFlags
	c := &cobra.Command{
		Use:   "trace SPEC... [-- COMMAND [ARG]...]",
		Short: "Print every call of a function that meets the predicates",
		Example: `  ksnoop trace 'vfs_read(count, file->f_flags)'
  ksnoop trace 'do_sys_openat2(ustr(filename), return == -ENOENT)' -- cat /nope
  ksnoop trace -e do_sys_openat2 -a 'path_*' -x ENOENT -- cat /nope
  ksnoop trace --every 5s 'vfs_*(hist($duration)[$func])'
  ksnoop trace --record calls.ks 'vfs_read(*file, return < 0)'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if f.configHelp {
				_, err := io.WriteString(c.OutOrStdout(), configHelp())
				return err
			}
			if n := c.ArgsLenAtDash(); n >= 0 {
				args, f.command = args[:n], args[n:]
				if len(f.command) == 0 {
					return usagef("no command after --")
				}
			}
			if asked, err := f.output.fields.list(c.OutOrStdout()); asked {
				return err
			}
			if err := f.agree(c.Flags(), &args); err != nil {
				return err
			}
			f.output.otlp.notes = c.ErrOrStderr()
			if err := f.run(c.Context(), args, c.OutOrStdout(), c.ErrOrStderr(), status); err != nil {
				return err
			}
			f.sayUnread(c.ErrOrStderr())
			return nil
		},
		ValidArgsFunction: completeSpec(&f.kernel, &f.symbols, false),
	}
	flags := c.Flags()
	flags.SortFlags = false
	f.filters.add(flags)
	flags.Var(&f.user, "user", "run COMMAND as this `USER[:GROUP]`, names or numbers, and not as whom ksnoop runs as")
	f.control.add(flags)
	flags.VarP(countFlag{&f.count, &f.session.presets}, "count", "c", "stop after so many records or sessions, 0 for no end; or, as with retsnoop, a preset: see --preset")
	f.summing.add(flags)
	f.session.add(flags)
	addRetsnoop(flags, &f.configHelp)
	flags.BoolVar(&f.compact, "compact", false, compactUsage)
	flags.BoolVar(&f.join, "join", false, "print a call as one block, when it returns")
	flags.BoolVar(&f.inlined, "inlined", false, "also trace functions where they were inlined: the beginning of such calls, with the parameters that are known there (needs debug info)")
	f.tail.add(flags)
	f.record.add(flags)
	f.redact.add(flags)
	f.output.add(flags, "with --record or -o: replace FILE if it exists")
	flags.StringVar(&f.dryRun, "dry-run", "", "check names and types, list what would be traced and what not, and attach nothing; `HOW` is list, the default, or load, which also lets the kernel check the programs")
	flags.Lookup("dry-run").NoOptDefVal = dryRunList
	flags.StringArrayVarP(&f.deny, "deny", "d", nil, "leave out functions that match this `SELECTOR` (repeatable)")
	f.method = "auto"
	flags.Var(attachFlag{&f.method, &f.methods}, "attach", "how to attach: auto, fentry, fsession, kprobe, multi (kprobe.multi), session (kprobe.session) or tracing_multi")
	flags.StringVar(&f.ringbuf, "ringbuf", "4M", "`SIZE` of the buffer between kernel and ksnoop: a power of two from a page (mostly 4K) to 1G")
	flags.IntVar(&f.inFlight, "in-flight", 0, "without sessions: make room for `N` calls that have not returned (default: by the memory there is, --debug tells)")
	flags.BoolVar(&f.explain, "explain", false, "print types, offsets, phases and the generated programs, and attach nothing")
	flags.BoolVar(&f.yes, "yes", false, "also probe functions for path() that have more than 500 blocks of code")
	f.kernel.add(flags)
	f.symbols.add(flags)
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "say what is attached, how and why; in stacks of sessions, show addresses")
	flags.BoolVar(&f.debug, "debug", false, "like -v, with the generated programs and all that the verifier says")
	flags.BoolVar(&f.supervised, supervisedFlag, false, "report to the agent that has started this")
	flags.Lookup(supervisedFlag).Hidden = true
	f.completeSpecFlags(c)
	return &f, c
}

// agree refuses options that do not go together, and reads the lists that stand in place of SPECs.
func (f *traceFlags) agree(flags *pflag.FlagSet, args *[]string) error {
	if err := checkEmpty(flags); err != nil {
		return err
	}
	if f.explain && f.dryRun != "" {
		return usagef("--explain and --dry-run exclude each other")
	}
	if f.user.User != nil && len(f.command) == 0 {
		return usagef("--user goes with -- COMMAND: who runs what?")
	}
	if err := f.lists(args); err != nil {
		return err
	}
	if err := errors.Join(f.session.check(flags), f.checkEffect(flags), f.output.check(flags)); err != nil {
		return err
	}
	if err := f.checkRooted(); err != nil { // the format is known by now, that of --otlp too
		return err
	}
	f.asked = asked(flags)
	if len(*args) == 0 && !f.session.wanted() && len(f.command) > 0 {
		words := strings.Join(f.command, " ")
		return usagef("no SPEC given; to find why a command fails: ksnoop why -- %s; to trace its system calls: ksnoop 'syscall:*' -- %s", words, words)
	}
	if len(*args) == 0 && !f.session.wanted() {
		return usagef("no SPEC given; try: ksnoop trace 'vfs_read(count > 4096)', or ksnoop --help")
	}
	return nil
}

// maxInFlight is more threads than Linux has.
const maxInFlight = 4 << 20

func (f *traceFlags) run(ctx context.Context, args []string, stdout, stderr io.Writer, status *int) error {
	c, err := f.check()
	if err != nil {
		return err
	}
	view, closeView, err := f.view()
	if err != nil {
		return err
	}
	defer closeView()
	if _, err := view.BTF(); err != nil { // no SPEC is at fault then
		return err
	}
	defer f.symbols.close(stderr)
	messages := watchStderr(stderr)
	stderr = messages
	t := &tracing{flags: f, kernel: view, stderr: messages, log: f.logger(messages)}
	if f.supervised {
		if t.reports, err = openReports(); err != nil {
			return err
		}
		defer t.reports.close()
	}
	if err := t.makePlan(args, c.options); err != nil {
		return err
	}
	t.settings = trace.Settings{Filter: c.filter, Rate: c.rate, RingSize: c.ringSize, InFlight: f.inFlight, Keys: f.summing.keys, Fallback: f.auto(),
		Paced:  f.control.maxCPU.share != 0,
		Report: f.session.engine(t.request.settings), Latency: f.control.latency, Log: t.log}
	t.settings.Report.Parent = f.output.otlp.places
	t.settings.Report.OffCPU = f.output.format.offCPU()
	if f.debug {
		t.settings.Verifier = stderr
	}
	f.tail.set(&t.settings.Tail)
	if f.dryRun == dryRunList && f.kernel.btf == "" {
		if err := t.checkMethod(); err != nil {
			return err
		}
	}
	if f.unattached() {
		return t.describe(ctx, stdout)
	}
	if err := t.checkKernel(); err != nil {
		return err
	}
	if f.debug {
		if err := t.describe(ctx, stderr); err != nil {
			return err
		}
	}
	if f.dryRun == dryRunLoad {
		return t.dryRun(stdout)
	}
	if err := t.readWays(); err != nil {
		return err
	}
	if err := f.tail.branches.record(f.tail.stacks() || t.plan.Sessions, stderr); err != nil {
		return err
	}
	defer f.tail.close()
	f.tail.set(&t.settings.Tail)
	if err := errors.Join(t.openCgroups(), t.askKubelet(ctx)); err != nil {
		return err
	}
	t.asked = f.record.flight.asked()
	if err := t.openViews(stdout); err != nil {
		return errors.Join(err, t.out.Close())
	}
	if f.tail.users != nil {
		t.settings.Users = f.tail.users.symbols
	}
	t.settings.Unwinder = f.tail.unwinder()
	ctx, stop := t.untilSignal(ctx)
	defer stop()
	err = t.out.end(errors.Join(t.whileRead(ctx, status), t.recording.Close()))
	t.reports.send(t.out)
	return errors.Join(err, t.cgroups.Close())
}

// whileRead is run, and ends it when nobody can read any more what it prints.
func (t *tracing) whileRead(ctx context.Context, status *int) (err error) {
	if (t.recordOnly() || t.flags.output.otlp.wanted()) && !t.flags.record.toStdout() {
		return t.run(ctx, status)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if t.reader, err = watchReader(t.out, stop); err != nil {
		return err
	}
	defer t.reader.close()
	t.interrupted = ctx.Done()
	return t.run(ctx, status)
}

// unattached reports whether nothing is to be loaded or attached.
func (f *traceFlags) unattached() bool { return f.explain || f.dryRun == dryRunList }

// view opens the kernel that is to be traced, or the one that is only to be
// explained, of which nothing else than the file of --btf need be there.
func (f *traceFlags) view() (*kernel.View, func() error, error) {
	if f.unattached() && f.kernel.btf != "" {
		return f.kernel.view()
	}
	v, err := f.kernel.running()
	return v, func() error { return nil }, err
}

// checkUntyped refuses what cannot be had with types from a file.
func (f *traceFlags) checkUntyped() error {
	if f.kernel.btf == "" || f.unattached() {
		return nil
	}
	switch err := attach.NeedsBTF(f.wantedMethod()); {
	case err != nil:
		return usagef("--attach %s does not go with --btf: %w", f.method, err)
	case f.session.wanted():
		return usagef("-e does not go with --btf: sessions are kept with the kernel's own objects for tasks, which it types by its own BTF. Without -e calls are traced")
	case f.filters.noIRQ:
		return usagef("--no-irq does not go with --btf: the kernel finds its count of interrupts by its own BTF")
	}
	return nil
}

// lists reads the files that stand in place of SPECs.
func (f *traceFlags) lists(args *[]string) error {
	for _, texts := range []*[]string{args, &f.deny, &f.session.entry, &f.session.allow, &f.session.inject, &f.record.flight.triggers} {
		var err error
		if *texts, err = expandLists(*texts); err != nil {
			return err
		}
	}
	return nil
}

// auto reports whether the user leaves it to ksnoop how to attach.
func (f *traceFlags) auto() bool { return f.method == layout.MethodAuto.String() }

func (f *traceFlags) planOptions() (plan.Options, error) {
	o := plan.Options{Arch: hostArch, UserFile: userfunc.Opener(os.Getenv("PATH"), hostArch), Redact: f.redact.redact()}
	if f.record.file != "" || f.output.format.owned() {
		o.Owner = layout.OwnerUID | layout.OwnerCgroup
	}
	o.Owner |= f.output.fields.needs()
	var err error
	if o.Deny, err = denied(f.deny); err != nil {
		return o, err
	}
	m, ok := layout.MethodNamed(f.method)
	if !ok || m > layout.MethodTracingMulti {
		return o, usagef("--attach %s: there are auto, fentry, fsession, kprobe, multi, session and tracing_multi", f.method)
	}
	return o, nil
}

// wantedMethod is what --attach says.
func (f *traceFlags) wantedMethod() layout.Method {
	m, _ := layout.MethodNamed(f.method)
	return m
}

func (f *traceFlags) logger(stderr io.Writer) *slog.Logger {
	level := slog.LevelWarn
	if f.verbose {
		level = slog.LevelInfo
	}
	if f.debug {
		level = slog.LevelDebug
	}
	return slog.New(sentences{stderr, level})
}

// A tracing is one run of "ksnoop trace" whose plan is made.
type tracing struct {
	flags       *traceFlags
	request     *request
	plan        *plan.Plan
	kernel      *kernel.View
	settings    trace.Settings
	out         *printout
	stdout      *destination.Watched // of out
	reader      *readerWatch         // of out; nil if nothing is printed
	stderr      *watchedStderr
	log         *slog.Logger
	recording   *record.Recording // nil if there is none
	summing     *summing          // nil if nothing is added up
	reports     *reports          // nil unless an agent has started this
	asked       chan os.Signal    // to write what a flight recorder has; nil without one
	picture     picture
	sessions    *record.Sessions // nil for calls
	cgroups     *trace.Cgroups   // nil if none is named
	attached    atomic.Pointer[attachments]
	ending      atomic.Bool     // all has been printed
	complete    bool            // and nothing has failed: what trace returns is about what was seen
	told        atomic.Bool     // losses are printed, too
	detaching   atomic.Bool     // which was said on a line that is not at its end
	interrupted <-chan struct{} // closed by a signal, or when nobody reads out any more
	signalled   chan struct{}   // closed by a signal
	hungUp      bool            // the signal was SIGHUP; written before signalled is closed
}

// run attaches, prints until it is told to stop, and detaches. With a command
// to run, it stops when that ends and passes its exit status on.
func (t *tracing) run(ctx context.Context, status *int) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	processes := t.flags.filters.processes()
	ended, forget, err := processes.Watch()
	if err != nil {
		return err
	}
	defer forget()
	go func() {
		select {
		case <-ended:
			stop()
		case <-ctx.Done():
		}
	}()
	if len(t.flags.command) == 0 {
		return t.trace(ctx, func(start starting) error { return start(processes.Adopt) })
	}
	command, err := launch.Start(t.flags.user.User, t.flags.command)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	let := false
	err = t.trace(ctx, func(start starting) error {
		if err := start(func(add func(int) error) error { return add(command.PID()) }); err != nil {
			return err
		}
		let = true
		command.Continue()
		go func() {
			done <- <-command.Done()
			stop()
		}()
		return nil
	})
	switch {
	case !let:
		return errors.Join(err, command.Kill())
	case !t.complete && err != nil:
		return err
	}
	of, failed := launch.Status(t.untilEnded(command, done))
	*status = of
	return errors.Join(err, failed)
}

// untilEnded waits for the command, whose end it returns. Where that takes a while, though a signal has ended the
// tracing, it says what it waits for. It passes a hang-up on: when a terminal goes, only the leader of its session gets one,
// which may be ksnoop.
func (t *tracing) untilEnded(command *launch.Command, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-t.signalled:
	}
	if t.hungUp {
		command.HangUp()
	}
	select {
	case err := <-done:
		return err
	case <-time.After(stopTime):
		fmt.Fprintf(t.stderr, "ksnoop: tracing has ended; ksnoop waits for the command (process %d), to pass its status on; another signal ends ksnoop at once\n", command.PID())
	}
	return <-done
}

// A starting switches programs on, as trace.Run.Start does.
type starting func(adopt func(add func(pid int) error) error) error

// trace attaches, calls ready, which is to switch the programs on, prints until ctx
// ends, and detaches.
func (t *tracing) trace(ctx context.Context, ready func(starting) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	tellInlined := func() {}
	if !t.flags.inlined {
		tellInlined = t.flags.symbols.noticeInlined(tracedFunctions(t.plan), !t.plan.Sessions, t.stderr)
	}
	sayCost(t.log, t.plan)
	run, err := t.attach(ctx)
	if err != nil {
		return err
	}
	defer run.Close()
	if t.plan.Places() {
		go t.cgroups.Follow(ctx)
	}
	t.attached.Store(&attachments{runs: []*trace.Run{run}})
	triggers, err := t.attachTriggers(ctx)
	if err != nil {
		return err
	}
	defer triggers.close()
	t.attached.Store(&attachments{runs: append([]*trace.Run{run}, triggers.runs()...), whole: true})
	tellInlined()
	t.out.keep()
	if err := t.recording.Begin(t.plan); err != nil {
		return fmt.Errorf("--record %w", err)
	}
	defer t.fly(run)()
	if err := ready(func(adopt func(add func(pid int) error) error) error {
		return errors.Join(run.Start(ctx, adopt), triggers.start(ctx, adopt))
	}); err != nil {
		return err
	}
	defer t.reports.begin(run.Counters, t.out)()
	t.watchTriggers(ctx, triggers, stop)
	if t.alone() || t.recordsOnly() {
		fmt.Fprintln(t.stderr, t.waiting())
	}
	view, err := t.view(run, stop)
	if err != nil {
		return err
	}
	out := t.where()
	err = view.Write(out, t.summing.until(triggers.passes(t.recording.Tee(t.reports.count(run.Records(ctx, t.limits()))))), func() bool { return run.Pending() == 0 })
	t.ending.Store(true)
	if err == nil {
		err = t.reader.err()
	}
	if err != nil {
		if t.recording != nil && statusOf(err) != exitPipe && writing(err) {
			err = fmt.Errorf("%w; the recording is cut off there, too", err)
		}
		losses, _ := run.End() // the tally tells the error
		err = errors.Join(err, view.End(out, losses, err), run.TooMuch())
		if statusOf(err) != exitPipe {
			err = errors.Join(err, view.Tally().Report(t.stderr, t.flags.control.stats))
			t.told.Store(true)
		}
		return err
	}
	losses, err := run.End()
	if err != nil {
		return errors.Join(err, view.End(out, losses, err), run.TooMuch())
	}
	tally := view.Tally()
	t.reports.last(&losses)
	stop()
	err = errors.Join(triggers.end(), t.recording.End(&losses))
	t.flags.record.rotate.report(t.flags.record.file, t.stderr)
	err = errors.Join(err, view.End(out, losses, nil), tally.Report(t.stderr, t.flags.control.stats))
	t.complete = err == nil
	err = errors.Join(err, run.TooMuch())
	t.told.Store(true)
	t.sayNothingShown(run, tally)
	t.detach()
	if err != nil {
		return err
	}
	return t.flags.control.expect.check(tally, 0)
}

// limits bound the run.
func (t *tracing) limits() trace.Limits {
	c := &t.flags.control
	return trace.Limits{For: c.duration, Budget: c.maxCPU.budget(t.log), Hung: t.flags.session.hung}
}

// attach attaches the plan.
func (t *tracing) attach(ctx context.Context) (*trace.Run, error) {
	t.settings.Hurry, t.settings.Leave = t.interrupted, t.leave
	attached := slow(t.stderr, attachingTo(len(t.plan.Probes)))
	run, err := trace.Attach(ctx, t.kernel, t.plan, t.settings)
	attached()
	switch {
	case errors.Is(err, attach.ErrInterrupted):
		return nil, cmp.Or(t.reader.err(), err)
	case err != nil && statusOf(err) == exitUsage:
		return nil, err
	case err != nil:
		return nil, unattachable(ctx, err)
	}
	t.plan = run.Plan
	sayAttached(t.log, t.plan, run.Failed)
	return run, nil
}

// view returns what prints what the kernel sends. stop ends the run. Calls are only counted where nothing but a
// recording is wanted.
func (t *tracing) view(run *trace.Run, stop func()) (show.View, error) {
	t.picture.run.Plan = t.plan
	format := &t.flags.output.format
	if t.plan.Sessions {
		printer, err := format.sessions(&t.picture)
		return &show.Sessions{Plan: t.plan, Traced: t.sessions.Traced, Live: t.sessions.Live && !format.whole(), Count: t.flags.drained(), Printer: printer}, err
	}
	if t.recordOnly() {
		return &show.Counted{Plan: t.plan, Count: t.flags.drained()}, nil
	}
	printer, tables, err := format.printers(&t.picture)
	calls := &show.Calls{Plan: t.plan, Join: t.flags.join || format.whole(), Count: t.flags.count, Printer: printer}
	if tables == nil || err != nil {
		return calls, err
	}
	return t.sums(run, calls, tables, stop), nil
}

// where is where what is printed goes: nowhere with --record alone.
func (t *tracing) where() io.Writer {
	if t.recordOnly() {
		return io.Discard
	}
	return t.stdout
}

// recordOnly reports whether nothing is printed or exported: with --record alone.
func (t *tracing) recordOnly() bool {
	return t.recording != nil && !t.flags.record.print && !t.flags.output.otlp.wanted()
}
