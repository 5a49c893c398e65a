// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

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
input.`),
		Example: "  ksnoop trace --record calls.ks 'vfs_read(count > 4096)' -- cat /etc/passwd\n  ksnoop replay calls.ks",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("replay takes one FILE")
			}
			return f.replay(args[0], c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.Uint64VarP(&f.calls.Count, "count", "c", 0, "stop after so many records or sessions")
	flags.BoolVar(&f.calls.Compact, "compact", false, compactUsage)
	flags.BoolVar(&f.stats, "stats", false, statsUsage)
	flags.BoolVar(&f.calls.Join, "join", false, "print a call as one block, when it returns")
	f.look.add(flags)
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "show the addresses of stacks of sessions")
	f.branches.add(flags)
	return c
}

// replayFlags are the options of "ksnoop replay".
type replayFlags struct {
	calls    show.Calls
	branches shownBranches
	stats    bool
	look     lookFlags
	verbose  bool
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
	r, err := record.NewReader(bufio.NewReaderSize(file, 64<<10))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	info := r.Info().Sessions
	switch {
	case info == nil && f.look.noStack:
		return usagef("%s: --no-stack is about sessions, and calls were recorded", name)
	case f.look.noStack && !info.Traced && !info.Branches:
		return usagef("%s: --no-stack goes with what was recorded with -T or --lbr: these sessions are nothing but a stack", name)
	}
	t, err := f.write(r, stdout)
	if err != nil { // with names that the recording has chosen
		return fmt.Errorf("%s: %s", name, terminal.Name(err.Error()))
	}
	t.Losses = r.Losses()
	return t.Report(stdout, stderr, f.stats)
}

// write prints the records of a recording.
func (f *replayFlags) write(r *record.Reader, stdout io.Writer) (*show.Tally, error) {
	if info := r.Info().Sessions; info != nil {
		form := f.look.sessionForm(*info, stdout)
		form.Addresses, form.Lines, form.Count = f.verbose, f.branches.options(), f.calls.Count
		v := show.NewSessions(r.Plan(), form, r.Kernel(), symbols.New(r.Kernel(), nil, symbols.LevelNone))
		err := v.Write(stdout, r.Records(), nil)
		return v.Tally(), err
	}
	f.calls.Plan, f.calls.Kernel, f.calls.Tails = r.Plan(), r.Kernel(), recordedTails(r.Kernel())
	f.calls.Tails.Branches = f.branches.options()
	err := f.calls.Write(stdout, r.Records(), nil)
	return f.calls.Tally(), err
}
