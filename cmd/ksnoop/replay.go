// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/requery"
	"github.com/ksnoop/ksnoop/internal/show"
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
			if len(args) == 0 {
				return usagef("replay takes a FILE")
			}
			if err := f.output.check(c.Flags()); err != nil {
				return err
			}
			n := recordings(args)
			if f.info && len(args) > 1 {
				return usagef("--info says what is in the recording; it takes no SPEC")
			}
			ask, err := f.ask.understand(args[n:])
			if err != nil {
				return err
			}
			if n > 1 {
				return f.merge(args[:n], ask, c.OutOrStdout(), c.ErrOrStderr())
			}
			return f.replay(args[0], ask, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	f.follow.add(flags)
	flags.BoolVar(&f.info, "info", false, "print what is in the recording instead: kernel, SPECs, functions, times, losses, sizes")
	flags.Uint64VarP(&f.count, "count", "c", 0, "stop after so many records or sessions")
	flags.BoolVar(&f.compact, "compact", false, compactUsage)
	flags.BoolVar(&f.stats, "stats", false, statsUsage)
	flags.Var(&f.expect, "expect", expectUsage)
	flags.BoolVar(&f.join, "join", false, "print a call as one block, when it returns")
	f.look.add(flags)
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
	count    uint64
	join     bool
	compact  bool
	branches shownBranches
	stats    bool
	expect   expectFlag
	look     lookFlags
	verbose  bool
	output   outputFlags
	ask      askFlags
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
	r, err := record.NewReader(in)
	if err != nil {
		return f.follow.ended(fmt.Errorf("%s: %w", name, err), stderr)
	}
	if f.info {
		err := f.follow.ended(describe(stdout, r), stderr)
		if err != nil {
			return fmt.Errorf("%s: %s", name, terminal.Name(err.Error()))
		}
		return nil
	}
	return f.show(name, r, ask, stdout, stderr)
}

// show prints what is asked for of a recording.
func (f *replayFlags) show(name string, r *record.Reader, ask *asking, stdout, stderr io.Writer) error {
	if err := f.fits(r); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	answer, err := ask.of(r)
	if err != nil {
		return err
	}
	out, err := f.output.open(stdout)
	if err != nil {
		return err
	}
	out.keep()
	s := shown{Reader: r, run: record.Run{r}, ask: ask, answer: answer}
	if answer != nil {
		sayNotes(stderr, answer)
	}
	t, err := f.write(&s, out)
	err = f.follow.ended(err, stderr)
	if err = errors.Join(err, out.Close()); err != nil { // with names that the recording has chosen
		return fmt.Errorf("%s: %s", name, terminal.Name(err.Error()))
	}
	if err := t.Report(stderr, f.stats); err != nil {
		return err
	}
	if answer != nil {
		if err := sayCounts(stderr, answer.Counts()); err != nil {
			return err
		}
	}
	s.sayNone(stderr, t)
	return f.expect.check(t)
}

// A shown is what of a recording is shown.
type shown struct {
	*record.Reader // the first one of run
	run            record.Run
	ask            *asking
	answer         *requery.Answer // nil: the records as they are
	read           uint64          // records that were read so far
}

func (s *shown) plan() *plan.Plan {
	if s.answer != nil {
		return s.answer.Plan()
	}
	return s.Plan()
}

func (s *shown) records() iter.Seq2[[]byte, error] {
	if s.answer != nil {
		return s.answer.Records(s.counted())
	}
	return s.counted()
}

// counted counts what is read.
func (s *shown) counted() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for raw, err := range s.run.Records() {
			if s.read++; !yield(raw, err) {
				return
			}
		}
	}
}

// sayNone says that filters have left out all that was recorded.
func (s *shown) sayNone(w io.Writer, t *show.Tally) {
	if t.Records == 0 && s.read > 0 {
		fmt.Fprintln(w, "ksnoop: nothing of what was recorded is what was asked for: see ksnoop replay --info")
	}
}

// losses returns what the recording lacks, and what the answer leaves out as a run would.
func (s *shown) losses() event.Losses {
	l := s.run.Losses()
	if s.answer != nil {
		l.Lost[bpf.Fault] += s.answer.Counts().Faults
	}
	return l
}

// fits refuses options that would leave nothing of a recording.
func (f *replayFlags) fits(r *record.Reader) error {
	switch info := r.Info().Sessions; {
	case info == nil && f.look.noStack:
		return usagef("--no-stack is about sessions, and calls were recorded")
	case f.look.noStack && !info.Traced && !info.Branches:
		return usagef("--no-stack goes with what was recorded with -T or --lbr: these sessions are nothing but a stack")
	}
	return nil
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

// view returns what writes the records of a recording.
func (f *replayFlags) view(s *shown, out *printout) (show.View, error) {
	info := s.Info()
	p := picture{compact: f.compact, colour: out.coloured, columns: columnsOf(out.Writer), run: output.Run{Plan: s.plan(), Kernel: s.Kernel(), Boot: info.Boot, Arch: info.Arch, Host: info.Host, Writer: info.Writer, Options: info.Options}}
	if how := info.Sessions; how != nil {
		p.run.Resolver = symbols.New(s.Kernel(), nil, symbols.LevelNone)
		p.sessions = f.look.sessions(how, f.verbose, f.branches.options(), out.Writer)
		printer, err := f.output.format.sessions(&p)
		keep, err2 := s.ask.keepSession(p.plain())
		return &show.Sessions{Plan: s.plan(), Traced: how.Traced, Live: how.Live && !f.output.format.whole(), Count: f.count, Printer: printer, Keep: keep}, errors.Join(err, err2)
	}
	p.withTails(recordedTails(s.Kernel()))
	p.tails.Branches = f.branches.options()
	printer, err := f.output.format.calls(&p)
	keep, err2 := s.ask.keepCall(p.plain())
	join := f.join || f.output.format.whole() || s.answer != nil && s.answer.Pairs()
	return &show.Calls{Plan: s.plan(), Join: join, Count: f.count, Printer: printer, Keep: keep}, errors.Join(err, err2)
}
