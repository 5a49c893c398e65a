// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/internal/view"
)

func newViewCommand() *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use:   "view FILE ... [SPEC ...]",
		Short: "Look at a recording on the terminal",
		Long: strings.TrimSpace(`
view shows a recording on the terminal: a list of calls or sessions, each on a line.
Enter unfolds one, / searches, e goes to the next failure, f filters by SPECs,
? lists all keys, q quits. The list is there at once, while the rest is read.

SPECs and filters choose what is shown, as they do for replay. Several FILEs must be
the parts of one run. FILE - is the standard input.

A large recording takes at most about 450 MB of memory. What does not fit is not
shown, and view says so: choose fewer calls then.`),
		Example: "  ksnoop view open.ks\n  ksnoop view -x ENOENT --since 10:57 open.ks\n  ksnoop view calls.ks 'vfs_read(count, return < count)'",
		RunE: func(c *cobra.Command, args []string) error {
			f.all = c.Flags()
			return f.lookAt(args, c.OutOrStdout())
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	f.ask.add(flags)
	f.look.add(flags)
	f.branches.add(flags)
	flags.Var(&f.output.colour, "color", colourUsage)
	return c
}

// lookAt shows recordings on a terminal.
func (f *replayFlags) lookAt(args []string, stdout io.Writer) error {
	n := recordings(args)
	if err := checkRecordings("view", args, n); err != nil {
		return err
	}
	if err := checkEmpty(f.all); err != nil {
		return err
	}
	if err := f.look.check(true); err != nil {
		return err
	}
	w, ok := stdout.(*terminal.Writer)
	switch {
	case !ok || !w.IsTerminal():
		return usagef("view shows a recording on a terminal, and the standard output is none: ksnoop replay prints it")
	case os.Getenv("TERM") == "dumb" || os.Getenv("TERM") == "":
		return usagef("view takes a terminal that can move its cursor, and TERM is %q: ksnoop replay prints a recording", os.Getenv("TERM"))
	}
	keys, err := keyboard()
	if err != nil {
		return err
	}
	if keys != nil {
		defer keys.Close()
	}
	source := &viewed{flags: f, names: args[:n], colour: f.output.colour.on(w)}
	var in io.Reader
	if keys != nil {
		in = keys
	}
	return view.Show(view.Options{Source: source, Specs: strings.Join(args[n:], " "), Colour: source.colour, Matcher: matcher}, in, w.Raw())
}

// keyboard returns what keys come from; nil is the standard input.
func keyboard() (*os.File, error) {
	if terminal.NewWriter(os.Stdin).IsTerminal() {
		return nil, nil
	}
	keys, err := os.Open("/dev/tty")
	if err != nil {
		return nil, usagef("view takes keys from a terminal, and there is none: ksnoop replay prints a recording")
	}
	return keys, nil
}

// A viewed is what view shows.
type viewed struct {
	flags  *replayFlags
	names  []string
	colour bool
	read   bool // once at least
}

var _ view.Source = (*viewed)(nil)

// Name implements view.Source.
func (v *viewed) Name() string {
	if v.names[0] == "-" {
		return "standard input"
	}
	return v.names[0]
}

// Read implements view.Source.
func (v *viewed) Read(specs string, store *view.Store) (collector *view.Collector, read func() (string, error), err error) {
	f := *v.flags
	ask, err := f.ask.understand(splitSpecs(specs))
	if err != nil {
		return nil, nil, err
	}
	s, done, err := v.open(ask)
	defer func() {
		if err != nil {
			done()
		}
	}()
	if err != nil {
		return nil, nil, err
	}
	if err := checkSummed(s.plan(), f.all); err != nil {
		return nil, nil, err
	}
	f.output.format.format = &format{name: "view", whole: true, open: func(p *picture, _ formatOptions) (_ eventPrinter, err error) {
		collector, err = collectorOf(p, store)
		return collector, err
	}}
	events, err := f.view(s, &printout{Writer: io.Discard, coloured: v.colour})
	if err != nil {
		return nil, nil, err
	}
	v.read = true
	s.stopped = store.Dropped()
	return collector, func() (string, error) {
		defer done()
		err := events.Write(io.Discard, s.records(), nil)
		err = errors.Join(err, events.End(io.Discard, s.losses(), err))
		var notes bytes.Buffer
		if why := s.none(events.Tally()); why != "" {
			fmt.Fprintln(&notes, why)
		}
		if a := s.answered(); a != nil {
			sayNotes(&notes, a)
			_ = sayCounts(&notes, a.Counts()) // a Buffer takes all
		}
		_ = events.Tally().Report(&notes, false)
		s.sayMore(&notes)
		return notes.String(), err
	}, nil
}

// open opens what is viewed, and asks it. The caller calls done.
func (v *viewed) open(ask *asking) (s *shown, done func(), err error) {
	if v.names[0] != "-" {
		runs, done, err := v.flags.openAll(v.names, ask)
		switch {
		case err != nil:
			return nil, done, err
		case len(runs) > 1:
			return nil, done, usagef("these are several runs: view shows one FILE, or the parts of one run")
		}
		return &runs[0].shown, done, nil
	}
	done = func() {}
	if v.read {
		return nil, done, usagef("the standard input cannot be read again: give SPECs on the command line, or name a FILE")
	}
	r, err := record.NewReader(bufio.NewReaderSize(os.Stdin, 64<<10))
	if err != nil {
		return nil, done, fmt.Errorf("standard input: %w", err)
	}
	s = &shown{Reader: r, run: record.Run{r}, last: os.Stdin, ask: ask}
	if err := v.flags.fits(r); err != nil {
		return nil, done, err
	}
	s.answer, err = ask.of(r)
	return s, done, err
}

// collectorOf makes what keeps the events of a run, with the printers of text that they are shown with.
func collectorOf(p *picture, store *view.Store) (*view.Collector, error) {
	text := formatFlag{}
	sessions := *p
	sessions.sessions.Columns = nil // long lines are scrolled
	session, err := text.sessions(&sessions)
	if err != nil {
		return nil, err
	}
	calls := picture{run: p.run, colour: p.colour}
	if p.tails != nil { // --grep uses these while calls are looked at, and a Resolver is for one goroutine
		calls.tails = recordedTails(p.run.Kernel, p.tails.User)
		calls.tails.Branches = p.tails.Branches
	}
	whole, err := text.calls(&calls)
	if err != nil {
		return nil, err
	}
	row := output.NewCompactCalls(p.run.Names(), compactWidth)
	if p.colour {
		row.Colour()
	}
	texts := view.Texts{Call: whole, Row: row, Session: session, Summary: output.NewSummaries(p.run, nil, p.colour), Loss: whole.AppendLoss}
	if p.run.Plan.Sessions {
		texts.Loss = session.AppendLoss
	}
	return view.NewCollector(store, p.run, texts), nil
}

// splitSpecs returns the SPECs of a line: blanks that are not in parentheses, brackets or quotes are between them.
func splitSpecs(line string) (specs []string) {
	depth, begun := 0, -1
	var quote rune
	for i, r := range line {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '"' || r == '\'':
			quote = r
		case r == '(' || r == '[':
			depth++
		case r == ')' || r == ']':
			depth--
		case unicode.IsSpace(r) && depth <= 0:
			if begun >= 0 {
				specs, begun = append(specs, line[begun:i]), -1
			}
			continue
		}
		if begun < 0 {
			begun = i
		}
	}
	if begun >= 0 {
		specs = append(specs, line[begun:])
	}
	return specs
}
