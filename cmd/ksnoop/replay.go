// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/show"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

func newReplayCommand() *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use:   "replay FILE",
		Short: "Print a recording as trace would have",
		Long: strings.TrimSpace(`
replay prints what "ksnoop trace --record FILE" has recorded, exactly as trace
would have printed it. A recording has all that this takes: it can be replayed
anywhere, without privileges. If it was cut off, for example because ksnoop was killed,
all that is whole is printed, and the exit status is 1. FILE - is the standard
input. With --follow, a recording is printed while it is made, up to its end.`),
		Example: "  ksnoop trace --record calls.ks 'vfs_read(count > 4096)' -- cat /etc/passwd\n  ksnoop replay calls.ks",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("replay takes one FILE")
			}
			if err := f.output.check(c.Flags()); err != nil {
				return err
			}
			return f.replay(args[0], c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	f.follow.add(flags)
	flags.Uint64VarP(&f.count, "count", "c", 0, "stop after so many records or sessions")
	flags.BoolVar(&f.compact, "compact", false, compactUsage)
	flags.BoolVar(&f.stats, "stats", false, statsUsage)
	flags.Var(&f.expect, "expect", expectUsage)
	flags.BoolVar(&f.join, "join", false, "print a call as one block, when it returns")
	f.look.add(flags)
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "show the addresses of stacks of sessions")
	f.branches.add(flags)
	f.output.add(flags, "with -o: replace FILE if it exists")
	return c
}

// replayFlags are the options of "ksnoop replay".
type replayFlags struct {
	follow   following
	count    uint64
	join     bool
	compact  bool
	branches shownBranches
	stats    bool
	expect   expectFlag
	look     lookFlags
	verbose  bool
	output   outputFlags
}

func (f *replayFlags) replay(name string, stdout, stderr io.Writer) error {
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
	info := r.Info().Sessions
	switch {
	case info == nil && f.look.noStack:
		return usagef("%s: --no-stack is about sessions, and calls were recorded", name)
	case f.look.noStack && !info.Traced && !info.Branches:
		return usagef("%s: --no-stack goes with what was recorded with -T or --lbr: these sessions are nothing but a stack", name)
	}
	out, err := f.output.open(stdout)
	if err != nil {
		return err
	}
	out.keep()
	t, err := f.write(r, out)
	err = f.follow.ended(err, stderr)
	if err = errors.Join(err, out.Close()); err != nil { // with names that the recording has chosen
		return fmt.Errorf("%s: %s", name, terminal.Name(err.Error()))
	}
	if err := t.Report(stderr, f.stats); err != nil {
		return err
	}
	return f.expect.check(t)
}

// write prints the records of a recording.
func (f *replayFlags) write(r *record.Reader, out *printout) (*show.Tally, error) {
	view, err := f.view(r, out)
	if err != nil {
		return nil, err
	}
	err = view.Write(out, r.Records(), f.follow.idle(r))
	return view.Tally(), errors.Join(err, view.End(out, r.Losses(), err))
}

// view returns what writes the records of a recording.
func (f *replayFlags) view(r *record.Reader, out *printout) (show.View, error) {
	info := r.Info()
	p := picture{compact: f.compact, run: output.Run{Plan: r.Plan(), Kernel: r.Kernel(), Boot: info.Boot, Arch: info.Arch, Host: info.Host, Writer: info.Writer, Options: info.Options}}
	if how := info.Sessions; how != nil {
		p.run.Resolver = symbols.New(r.Kernel(), nil, symbols.LevelNone)
		p.sessions = f.look.sessions(how, f.verbose, f.branches.options(), out.Writer)
		printer, err := f.output.format.sessions(&p)
		return &show.Sessions{Plan: r.Plan(), Traced: how.Traced, Live: how.Live, Count: f.count, Printer: printer}, err
	}
	p.withTails(recordedTails(r.Kernel()))
	p.tails.Branches = f.branches.options()
	printer, err := f.output.format.calls(&p)
	return &show.Calls{Plan: r.Plan(), Join: f.join, Count: f.count, Printer: printer}, err
}
