// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/diff"
	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/show"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

func newDiffCommand(status *int) *cobra.Command {
	var f diffFlags
	c := &cobra.Command{
		Use:   "diff GOOD [BAD] [SPEC ...]",
		Short: "Compare two recordings call by call, and show where they part",
		Long: strings.TrimSpace(`
diff compares two recordings: which calls were made, with which values and results.
It names the first difference in the order of execution, and lists all of them, each
with the calls around it. Lines that only GOOD has begin with -, those that only BAD
has with +.

Of one recording, a call that failed is compared with one of the same function that
succeeded: sessions recorded with -S, or calls.

What differs between any two runs is not compared: addresses, times, numbers of
processes and CPUs and, of what -A has captured, locks, counts of references and pages
of memory. --ignore names more: a VALUE, FUNC(VALUE), or FUNC() for calls with all that
they call. The result of a call is its value "return".

The exit status is 0 if nothing differs, 1 if something does, 2 if there was trouble.`),
		Example: "  ksnoop trace -e __sys_bpf -a ':kernel/bpf/*.c' -T -S --record good.ks -- ./good\n" +
			"  ksnoop diff good.ks bad.ks\n  ksnoop diff --brief --ignore 'get_random_u32(return)' --ignore 'kfree()' good.ks bad.ks\n" +
			"  ksnoop diff --entry do_sys_openat2 --nth 2 open.ks",
		RunE: func(c *cobra.Command, args []string) error {
			f.replay.all = c.Flags()
			differs, err := f.run(args, c.OutOrStdout(), c.ErrOrStderr())
			if err != nil && statusOf(err) != exitPipe {
				return troubleError{err}
			}
			if differs {
				*status = exitDiffers
			}
			return err
		},
		ValidArgsFunction: completeReplay,
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.entry, "entry", "", "compare calls of functions that match this `GLOB` only, and what they call")
	flags.IntVar(&f.nth, "nth", 0, "compare the `N`th call of each recording only; of one recording, the Nth that failed")
	flags.StringArrayVar(&f.ignore, "ignore", nil, "do not compare what this `GLOB` names: a VALUE, FUNC(VALUE) or FUNC() (repeatable)")
	flags.BoolVar(&f.exact, "exact", false, "compare addresses, times and all else, too")
	flags.BoolVar(&f.brief, "brief", false, "print the first difference only")
	flags.StringVarP(&f.vmlinux, "vmlinux", "k", "", "`FILE` with the debug info of the kernel of both recordings: jumps of path() and branches then have source lines")
	flags.StringVar(&f.format, "format", "text", "print in this `FORMAT`: text or json")
	f.replay.ask.add(flags)
	f.replay.addLooks()
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder)) // there is none yet
	return c
}

// diffFlags are the options of "ksnoop diff".
type diffFlags struct {
	entry        string
	nth          int
	ignore       []string
	exact, brief bool
	format       string
	vmlinux      string
	replay       replayFlags // how recordings are read
}

// run compares what arguments name, and reports whether it differs.
func (f *diffFlags) run(args []string, stdout, stderr io.Writer) (differs bool, err error) {
	n := recordings(args)
	if err := cmp.Or(f.check(args, n), errors.Join(checkRecordings("diff", args, n), checkEmpty(f.replay.all))); err != nil {
		return false, err
	}
	ask, err := f.replay.ask.understand(args[n:])
	if err != nil {
		return false, err
	}
	names := diff.NewNames()
	var runs []*diff.Run
	var trouble []error // after which there is something to compare
	for _, name := range args[:n] {
		run, err := f.collect(name, ask, names, stderr)
		if run == nil {
			return false, err
		}
		runs, trouble = append(runs, run), append(trouble, err)
	}
	good, bad, err := f.choose(runs)
	if err != nil {
		// What is asked for may be in what could not be read.
		return false, errors.Join(append(trouble, err)...)
	}
	if good.Kernel != bad.Kernel && good.Kernel != "" && bad.Kernel != "" {
		fmt.Fprintf(stderr, "ksnoop: the kernels differ, Linux %s in %s and %s in %s: calls and values may differ for that alone\n",
			terminal.Name(good.Kernel), terminal.Name(good.Name), terminal.Name(bad.Kernel), terminal.Name(bad.Name))
	}
	result := diff.Compare(good, bad)
	differs = len(result.Differences) > 0
	if err := f.locate(result); err != nil {
		return false, err
	}
	if err := f.print(result, stdout); err != nil {
		return false, err
	}
	return differs, errors.Join(trouble...)
}

// check refuses arguments that make no sense together. The first n are names of recordings.
func (f *diffFlags) check(args []string, n int) error {
	switch {
	case n > 2:
		return usagef("diff compares two recordings, and these are %d", n)
	case n > 0 && args[0] == "-":
		return usagef("diff reads files: give the name of a recording in place of -")
	case f.format != "text" && f.format != "json":
		return usagef("--format %s: there are text and json", f.format)
	case f.format == "json" && f.brief:
		return usagef("--brief does not go with --format json: take its first line with \"function\"")
	case f.nth < 0 || f.nth == 0 && f.replay.all.Changed("nth"):
		return usagef("--nth counts from 1")
	}
	for _, g := range f.ignore {
		if fault := diff.IgnoreFault(g); fault != nil {
			return usagef("--ignore takes a glob: VALUE, FUNC(VALUE) or FUNC()\n%v", fault)
		}
	}
	return nil
}

// collect reads a recording. If it ends early, there is a run and an error.
func (f *diffFlags) collect(name string, ask *asking, names *diff.Names, stderr io.Writer) (*diff.Run, error) {
	replay := f.replay
	var collector *diff.Collector
	replay.output.format.format = &format{name: "diff", whole: true, open: func(p *picture, _ formatOptions) (eventPrinter, error) {
		if collector == nil {
			collector = diff.NewCollector(p.run, name, names, diff.NewIgnore(f.ignore, f.exact), f.exact)
		}
		return collector, nil
	}}
	runs, done, err := replay.openAll([]string{name}, ask)
	defer done()
	if err != nil {
		return nil, err
	}
	s := &runs[0].shown
	if len(summary.Of(s.plan()).List) > 0 {
		return nil, usagef("%s: diff compares calls, and these SPECs add them up", name)
	}
	view, err := replay.view(s, &printout{Writer: io.Discard})
	if err != nil {
		return nil, ofRecording(name, err)
	}
	err = view.Write(io.Discard, s.records(), nil)
	full := errors.Is(err, diff.ErrFull)
	if err = errors.Join(err, view.End(io.Discard, s.losses(), err)); err != nil {
		err = ofRecording(name, unfinished(s.last, err))
	}
	if full {
		return nil, err
	}
	run := collector.Run()
	if run.Incomplete = err != nil; run.Incomplete {
		fmt.Fprintf(stderr, "ksnoop: %s ends early: calls behind its end look as if they had not been made\n", terminal.Name(name))
	}
	return run, errors.Join(err, f.report(name, s, view.Tally(), run, stderr))
}

// report says what is missing in a recording.
func (f *diffFlags) report(name string, s *shown, t *show.Tally, run *diff.Run, stderr io.Writer) error {
	var notes bytes.Buffer
	err := t.Report(&notes, false)
	if a := s.answered(); a != nil {
		sayNotes(&notes, a)
		err = errors.Join(err, sayCounts(&notes, a.Counts()))
	}
	s.sayMore(&notes)
	if run.Holes > 0 {
		fmt.Fprintf(&notes, "ksnoop: calls are missing at %s: what differs there may be no difference\n", plural.Of(run.Holes, "place{s}"))
	}
	if run.Sessions && !run.Traced && run.Calls > 0 {
		notes.WriteString("ksnoop: these sessions have the calls of one stack only: record with -T to compare all\n")
	}
	if notes.Len() > 0 {
		fmt.Fprintf(stderr, "ksnoop: %s:\n%s", terminal.Name(name), notes.String())
	}
	return err
}

// choose returns what is compared of runs.
func (f *diffFlags) choose(runs []*diff.Run) (good, bad *diff.Run, err error) {
	entry := f.entry
	if entry == "" {
		entry = "*"
	}
	if len(runs) == 1 {
		good, bad, err = runs[0].Halves(entry, max(f.nth, 1))
		if errors.Is(err, diff.ErrAllFailed) && runs[0].Sessions {
			err = fmt.Errorf("%w; sessions that succeed are recorded with -S", err)
		}
		return good, bad, err
	}
	good, bad = runs[0], runs[1]
	if good.Sessions != bad.Sessions {
		sessions, calls := good, bad
		if bad.Sessions {
			sessions, calls = bad, good
		}
		return nil, nil, usagef("%s has sessions, and %s has calls", sessions.Name, calls.Name)
	}
	if good.Sessions && good.Traced != bad.Traced && good.Calls > 0 && bad.Calls > 0 {
		return nil, nil, usagef("one of %s and %s was recorded with -T and has all calls of its sessions, the other one was not", good.Name, bad.Name)
	}
	if f.nth > 0 {
		good, err = good.Nth(entry, f.nth)
		var err2 error
		bad, err2 = bad.Nth(entry, f.nth)
		if runs[0].Name == runs[1].Name {
			err = cmp.Or(err, err2) // they are one
		} else {
			err = errors.Join(err, err2)
		}
		return good, bad, err
	}
	if f.entry != "" {
		good, bad = good.Only(entry), bad.Only(entry)
	}
	switch {
	case good.Calls+bad.Calls > 0, slices.ContainsFunc(f.ignore, func(g string) bool { return strings.HasSuffix(g, "()") }): // all may be ignored
		return good, bad, nil
	case f.entry != "":
		return nil, nil, fmt.Errorf("neither recording has calls of %s", f.entry)
	}
	return nil, nil, errors.New("neither recording has calls to compare")
}

// locate finds the source lines of jumps, if there is a file to find them in.
func (f *diffFlags) locate(r *diff.Result) error {
	if f.vmlinux == "" {
		return nil
	}
	info, err := debuginfo.Open(f.vmlinux, debuginfo.Options{Relative: true})
	if err != nil {
		return err
	}
	r.Locate(func(symbol string, offset uint64) []string {
		of, ok := info.SymbolNamed(symbol)
		frames := info.Lookup(nil, of.Addr+offset)
		if !ok {
			return nil
		}
		return sourceOf(frames)
	})
	return errors.Join(info.Err(), info.Close())
}

// sourceOf returns the source line of a place, and those that it was inlined at, as far as they are known. The innermost
// is the first.
func sourceOf(frames []debuginfo.Frame) (lines []string) {
	for i := range frames {
		if frames[i].Line > 0 {
			lines = append(lines, fmt.Sprintf("%s:%d", frames[i].File, frames[i].Line))
		}
	}
	return lines
}

// print prints what was found.
func (f *diffFlags) print(r *diff.Result, stdout io.Writer) error {
	if f.format == "json" {
		return r.WriteJSON(stdout)
	}
	if _, err := stdout.Write(r.AppendFirst(nil)); err != nil || f.brief {
		return err
	}
	return r.WriteText(stdout)
}
