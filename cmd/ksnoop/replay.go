// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/requery"
	"github.com/ksnoop/ksnoop/internal/show"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

func newReplayCommand() *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use:   "replay FILE ... [SPEC ...]",
		Short: "Print a recording as trace would have, or ask it again",
		Long: strings.TrimSpace(`
replay prints what "ksnoop trace --record FILE" has recorded, exactly as trace
would have printed it. A recording has all that this takes: it can be replayed
anywhere, without privileges. If it was cut off, for example because ksnoop was killed,
all that is whole is printed, and the exit status is 1. FILE - is the standard
input. With --follow, a recording is printed while it is made, up to its end.

Several recordings are printed together by time, whatever they have recorded. Parts that
--rotate has made are joined. If they are of several hosts, each change of the host is
marked.

SPECs ask for other values of the calls, and for fewer calls. They are answered from
the values that were recorded; what does not follow from these is refused. A SPEC
without parentheses shows all that was recorded of a function.`),
		Example: "  ksnoop trace --record calls.ks 'vfs_read(*file, count, return)' -- cat /etc/passwd\n  ksnoop replay calls.ks\n" +
			"  ksnoop replay calls.ks 'vfs_read(file->f_flags, return < count)'\n  ksnoop replay --info calls.ks",
		RunE: func(c *cobra.Command, args []string) error {
			return f.run(c, args)
		},
		ValidArgsFunction: completeReplay,
	}
	flags := c.Flags()
	f.all = flags
	flags.SortFlags = false
	f.follow.add(flags)
	f.output.otlp.wait = true
	flags.BoolVar(&f.info, "info", false, "print what is in the recording instead: kernel, SPECs, functions, times, losses, sizes")
	flags.IntVar(&f.whyRun, "run", 0, "show the `N`th run of a recording of ksnoop why, and not its page")
	flags.Uint64VarP(&f.count, "count", "c", 0, "stop after `N` records or sessions, 0 for no end")
	flags.BoolVar(&f.compact, "compact", false, compactUsage)
	flags.BoolVar(&f.stats, "stats", false, statsUsage)
	flags.Var(&f.expect, "expect", expectUsage)
	flags.BoolVar(&f.join, "join", false, "print a call as one block, when it returns")
	f.look.add(flags)
	flags.VarPF(choiceFlag{&f.tree}, "trace", "T", "sessions recorded with -T: print every call (the default); -T=no: only their stacks").NoOptDefVal = "true"
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "show the addresses of stacks of sessions")
	f.branches.add(flags)
	f.ask.add(flags)
	f.output.add(flags, "with -o: replace FILE if it exists")
	return c
}

// replayFlags are the options of "ksnoop replay".
type replayFlags struct {
	follow   following
	info     bool
	whyRun   int // the run of a series that is shown; 0: its page
	count    uint64
	join     bool
	compact  bool
	branches shownBranches
	stats    bool
	expect   expectFlag
	look     lookFlags
	tree     *bool // show every call of sessions; nil: if they have them
	verbose  bool
	output   outputFlags
	ask      askFlags
	all      *pflag.FlagSet
	stopped  <-chan struct{} // closed by a signal, if what is printed has an end that is to come then, too
}

// run shows recordings, of which the arguments are names, as the SPECs behind them ask.
func (f *replayFlags) run(c *cobra.Command, args []string) error {
	if asked, err := f.output.fields.list(c.OutOrStdout()); asked {
		return err
	}
	if n := c.ArgsLenAtDash(); n > 0 && n < len(args) {
		return usagef("%s runs no command: %q", c.Name(), args[n])
	}
	n := recordings(args)
	if err := checkRecordings(c.Name(), args, n); err != nil {
		return err
	}
	if err := f.check(c.Flags(), args, n); err != nil {
		return err
	}
	stdout, stderr := c.OutOrStdout(), c.ErrOrStderr()
	f.output.otlp.notes = stderr
	ask, err := f.ask.understand(args[n:])
	if err != nil {
		return err
	}
	if !f.follow.wanted && !f.info && !f.output.format.text() && allRegular(args[:n]) { // others may be waited for
		ctx, stop := untilStopped()
		defer stop()
		f.stopped, f.output.otlp.stopped = ctx.Done(), ctx.Done()
	}
	switch {
	case f.info:
		return f.inform(args, stdout, stderr)
	case n > 1:
		return f.merge(args[:n], ask, stdout, stderr)
	}
	return f.replay(args[0], ask, stdout, stderr)
}

// allRegular reports whether names are those of regular files.
func allRegular(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !isRegular(name) })
}

// check refuses arguments and options that make no sense together. The first n arguments are
// names of recordings.
func (f *replayFlags) check(flags *pflag.FlagSet, args []string, n int) error {
	if err := errors.Join(checkEmpty(flags), f.output.check(flags)); err != nil {
		return err
	}
	if f.output.force && f.output.file == "" {
		return usagef("--force goes with -o FILE")
	}
	if out := f.output.file; out != "" && slices.ContainsFunc(args[:n], func(name string) bool { return sameFile(name, out) }) {
		return usagef("-o %s is the recording that is read", out)
	}
	if !f.info {
		return nil
	}
	var other string
	flags.Visit(func(flag *pflag.Flag) {
		if flag.Name != "info" && flag.Name != "follow" && flag.Name != "run" {
			other = spelling(flag)
		}
	})
	switch {
	case n < len(args):
		return usagef("--info says what is in the recording; it takes no SPEC")
	case other != "":
		return usagef("--info does not go with %s: it says what is in the whole recording", other)
	case n > 1 && f.follow.wanted:
		return usagef("--follow goes with one FILE")
	}
	return nil
}

// inform says what is in recordings, one after the other.
func (f *replayFlags) inform(names []string, stdout, stderr io.Writer) error {
	var errs []error
	for i, name := range names {
		if len(names) > 1 {
			fmt.Fprintf(stdout, "%s%-9s  %s\n", strings.Repeat("\n", min(i, 1)), "recording", terminal.Name(name))
		}
		errs = append(errs, f.replay(name, nil, stdout, stderr))
	}
	return errors.Join(errs...)
}

func (f *replayFlags) replay(name string, ask *asking, stdout, stderr io.Writer) error {
	err := f.look.check(true)
	if err != nil {
		return err
	}
	file := os.Stdin
	if name == "-" {
		name = "standard input"
	} else {
		if file, err = os.Open(name); err != nil {
			return err
		}
		defer file.Close()
	}
	in, close := f.follow.open(file)
	defer close()
	var series *record.SeriesReader
	if !f.follow.wanted {
		if in, series, err = record.TrySeries(in); err != nil {
			return fmt.Errorf("%s: %w", name, unfinished(file, err))
		}
	}
	if series != nil && f.whyRun == 0 {
		return f.replayPage(name, file, series, ask, stdout, stderr)
	}
	r, err := f.reader(in, series)
	if err != nil {
		return f.follow.ended(fmt.Errorf("%s: %w", name, unfinished(file, err)), stderr)
	}
	if f.info {
		done := slow(stderr, reading(name))
		err := f.follow.ended(describe(stdout, r), stderr)
		done()
		if err != nil {
			return ofRecording(name, unfinished(file, err))
		}
		return nil
	}
	if err := f.fits(r); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s := shown{Reader: r, run: record.Run{r}, last: file, ask: ask, stopped: f.stopped}
	if s.answer, err = ask.of(r); err != nil {
		return err
	}
	return f.show(name, &s, stdout, stderr)
}

// show prints what is asked for of a run.
func (f *replayFlags) show(name string, s *shown, stdout, stderr io.Writer) error {
	if err := errors.Join(checkSummed(s.plan(), f.all), f.output.format.takes(s.plan()), f.output.otlp.takesParent(s.plan())); err != nil {
		return err
	}
	out, err := f.output.open(stdout)
	if err != nil {
		return err
	}
	out.keep()
	unwatch, err := f.follow.watch(out)
	if err != nil {
		return errors.Join(err, out.Close())
	}
	if a := s.answered(); a != nil {
		sayNotes(stderr, a)
	}
	done := func() {}
	if f.unseen(out) {
		done = slow(stderr, reading(name))
	}
	t, err := f.write(s, out)
	done()
	unwatch()
	err = f.follow.ended(err, stderr)
	if err = out.end(err); err != nil {
		return ofRecording(name, unfinished(s.last, err))
	}
	if err := t.Report(stderr, f.stats); err != nil {
		return err
	}
	var undecided uint64
	if a := s.answered(); a != nil {
		counts := a.Counts()
		if err := sayCounts(stderr, counts); err != nil {
			return err
		}
		undecided = counts.NoEntry + counts.Unsure + counts.Evicted
	}
	s.sayNone(stderr, t)
	s.sayMore(stderr)
	return f.expect.check(t, undecided)
}

// unseen reports whether nobody may see for a while what is printed: it goes elsewhere, or is printed at the end, or
// may be left out.
func (f *replayFlags) unseen(out *printout) bool {
	columns := columnsOf(out.Writer)
	return out.file != nil || columns == nil || columns() == 0 || f.output.format.whole() || f.output.format.options.summary || f.ask.grep != ""
}

// unfinished says of a recording that ends too early if that is since it is still being written.
func unfinished(file *os.File, err error) error {
	if record.Growing(file, err) {
		return fmt.Errorf("%w: it is still being written, and --follow waits for the rest", err)
	}
	return err
}

// ofRecording says which recording an error is about, and escapes the names in it, which the
// recording has chosen. What was met in writing is about none.
func ofRecording(name string, err error) error {
	if err == nil || writing(err) {
		return err
	}
	return fmt.Errorf("%s: %s", name, terminal.Name(err.Error()))
}

// writing reports whether an error was met in writing what is shown.
func writing(err error) bool {
	path := new(fs.PathError)
	if errors.As(err, new(exportError)) {
		return true
	}
	return statusOf(err) == exitPipe || errors.As(err, &path) && path.Op == "write"
}

// A shown is what of a recording is shown.
type shown struct {
	*record.Reader // the first one of run
	run            record.Run
	last           *os.File       // of run
	reading        *record.Reader // part of run; nil before the first
	number         int            // of several runs, from 1
	label          string         // what tells it from the others
	boot           time.Time      // of the clock that it has in common with others; zero: its own
	ask            *asking
	stopped        <-chan struct{} // closed when no more is to be read; nil: all is
	answer         *requery.Answer // nil: the records as they are
	read           uint64          // records that were read so far
	summed         bool            // some of them were added up
}

// answered returns what SPECs were answered by; nil if there are none.
func (s *shown) answered() answered {
	switch {
	case s.answer != nil:
		return s.answer
	case s.ask.inside != nil:
		return s.ask.inside
	}
	return nil
}

// plan returns the plan of what is shown.
func (s *shown) plan() *plan.Plan {
	switch {
	case s.answer != nil:
		return s.answer.Plan()
	case s.ask.inside != nil:
		return s.ask.inside.Plan()
	}
	return s.Plan()
}

func (s *shown) records() iter.Seq2[[]byte, error] {
	if s.answer != nil {
		return s.answer.Records(s.counted())
	}
	return s.counted()
}

// errStopped ends a replay at a signal.
var errStopped = errors.New("interrupted before all of it was read")

// counted counts what is read.
func (s *shown) counted() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, s.reading = range s.run {
			for raw, err := range s.reading.Records() {
				select {
				case <-s.stopped:
					yield(nil, errStopped)
					return
				default:
				}
				if s.read++; !yield(raw, err) || err != nil {
					return
				}
			}
		}
	}
}

// none says why nothing of what was recorded is shown, "" if something is: filters have left it out
// or, without any, all that was read are marks of losses and parts of sessions that were not wanted
// at their end, or had not come to it.
func (s *shown) none(t *show.Tally) string {
	switch a := s.answered(); {
	case t.Records > 0, s.summed, a != nil && a.Counts().Faults > 0:
		return ""
	case s.read == 0:
		return "no call or session was recorded"
	case s.ask.narrows():
		return "no recorded call or session matches"
	}
	return "no whole call or session was recorded"
}

// sayNone says what none does, if there are records.
func (s *shown) sayNone(w io.Writer, t *show.Tally) {
	if why := s.none(t); why != "" && s.read > 0 {
		fmt.Fprintf(w, "ksnoop: %s: ksnoop replay --info says what there is\n", why)
	}
}

// sayMore says that the end of a run is missing.
func (s *shown) sayMore(w io.Writer) {
	if s.run.More() {
		fmt.Fprintln(w, "ksnoop: the run goes on in a recording that is not here, which has its losses")
	}
}

// summary returns what was added up.
func (s *shown) summary() (*summary.Summary, error) {
	sums := s.answer.Summary()
	s.summed = slices.ContainsFunc(sums.Tables, func(t summary.Filled) bool { return len(t.Rows) > 0 })
	return sums, nil
}

// losses returns what the recording lacks, and what the answer leaves out as a run would.
func (s *shown) losses() event.Losses {
	l := s.run.Losses()
	if a := s.answered(); a != nil {
		l.Lost[bpf.Fault] += a.Counts().Faults
	}
	return l
}

// fits refuses options that would leave nothing of a recording.
func (f *replayFlags) fits(r *record.Reader) error {
	if err := f.output.fields.check(r.Plan(), "the recording does not have the owners of its calls"); err != nil {
		return err
	}
	switch info := r.Info().Sessions; {
	case info == nil && f.look.noStack:
		return usagef("--no-stack is about sessions, and calls were recorded")
	case info == nil && f.tree != nil:
		return usagef("-T is about sessions, and calls were recorded")
	case f.tree != nil && *f.tree && !info.Traced:
		return usagef("-T goes with what was recorded with -T: these sessions have the calls of their stacks only")
	case info != nil && !info.OffCPU && f.output.format.offCPUStacks():
		return usagef("--weight %s: no off-CPU times were recorded: they are with --summary or --weight %[1]s, and --print, beside --record", &f.output.format.options.weight)
	case f.look.noStack && !f.calls(info) && !info.Branches:
		return usagef("--no-stack goes with what was recorded with -T or --lbr: these sessions are nothing but a stack")
	}
	return nil
}

// calls reports whether every call of sessions is shown that were recorded in some way.
func (f *replayFlags) calls(how *record.Sessions) bool {
	return how.Traced && (f.tree == nil || *f.tree)
}

// write prints what is shown of a recording.
func (f *replayFlags) write(s *shown, out *printout) (*show.Tally, error) {
	view, err := f.view(s, out)
	if err != nil {
		return nil, err
	}
	err = view.Write(out, s.records(), f.follow.idle(s.Reader))
	return view.Tally(), errors.Join(err, view.End(out, s.losses(), err))
}

// booted returns when the clock of the records was zero, as the part has it that is being read.
func (s *shown) booted() time.Time {
	switch {
	case !s.boot.IsZero():
		return s.boot
	case s.reading != nil:
		return s.reading.Info().Boot
	}
	return s.Info().Boot
}

// view returns what writes the records of a recording.
func (f *replayFlags) view(s *shown, out *printout) (show.View, error) {
	info := s.Info()
	p := picture{compact: f.compact, fields: f.output.fields.columns, colour: out.coloured, columns: columnsOf(out.Writer), run: output.Run{Plan: s.plan(), Kernel: s.Kernel(), Boot: s.booted(), Booted: s.booted, Arch: info.Arch, Host: info.Host, BootID: info.BootID, Writer: info.Writer, Options: info.Options, Number: s.number, Label: s.label, Cgroup: s.Cgroup}}
	if how := info.Sessions; how != nil {
		p.run.Resolver = symbols.New(s.Kernel(), nil, symbols.LevelNone)
		p.run.User = func(e *bpf.Event, _ string) output.Process { return s.User(e) }
		shown := *how
		p.offCPU = how.OffCPU
		shown.Traced = f.calls(how)
		shown.Live = how.Live && shown.Traced && !f.output.format.whole()
		p.sessions = f.look.sessions(&shown, f.verbose, f.branches.options(), out.Writer)
		printer, err := f.output.format.sessions(&p)
		keep, err2 := s.ask.keepSession(p.plain())
		return &show.Sessions{Plan: s.Plan(), Traced: how.Traced, Live: shown.Live, StacksOnly: how.Traced && !shown.Traced, Count: f.count, Printer: printer, Keep: keep}, errors.Join(err, err2)
	}
	p.withTails(recordedTails(s.Kernel(), func(e *bpf.Event, _ string) output.Process { return s.User(e) }))
	p.tails.Branches = f.branches.options()
	printer, tables, err := f.output.format.printers(&p)
	keep, err2 := s.ask.keepCall(p.plain())
	join := f.join || f.output.format.whole() || s.answer != nil && s.answer.Pairs()
	view := &show.Calls{Plan: s.plan(), Join: join, Count: f.count, Printer: printer, Keep: keep}
	if tables == nil || s.answer == nil {
		return view, errors.Join(err, err2)
	}
	return &show.Summaries{Records: view, Printer: tables, Last: s.summary}, errors.Join(err, err2)
}
