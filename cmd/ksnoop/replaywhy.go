// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/why"
)

// reader returns the recording that is asked for: the one in a file, or a run of a series.
func (f *replayFlags) reader(in io.Reader, series *record.SeriesReader) (*record.Reader, error) {
	switch {
	case f.whyRun < 0 || f.whyRun == 0 && f.all.Changed("run"):
		return nil, usagef("--run counts from 1")
	case series == nil && f.whyRun > 0:
		return nil, usagef("--run goes with a recording of ksnoop why: this one has one run")
	case series == nil:
		return record.NewReader(in)
	}
	for {
		r, err := series.Next()
		switch {
		case err != nil:
			return nil, err
		case r == nil:
			return nil, usagef("--run %d: there %s %s", f.whyRun, plural.Text(series.Runs(), "{is|are}"), plural.Of(series.Runs(), "run{s}"))
		case series.Runs() == f.whyRun:
			return r, nil
		}
		for _, err := range r.Records() {
			if err != nil {
				return nil, err
			}
		}
	}
}

// ofPages are the options about pages.
var ofPages = []string{"format", "output", "force", "color"}

// replayPage prints the page of a series.
func (f *replayFlags) replayPage(name string, file *os.File, series *record.SeriesReader, ask *asking, stdout, stderr io.Writer) error {
	if f.info {
		return ofRecording(name, unfinished(file, describeRuns(series, stdout)))
	}
	if err := f.checkPage(name, ask); err != nil {
		return err
	}
	text, err := series.Page()
	if err != nil {
		return ofRecording(name, unfinished(file, err))
	}
	p, err := why.ParsePage(text)
	if err != nil {
		return ofRecording(name, err)
	}
	if f.output.format.text() {
		text = p.Append(nil)
	} else if text, err = p.JSON(); err != nil {
		return err
	}
	out, err := f.output.open(stdout)
	if err != nil {
		return err
	}
	out.keep()
	if _, err = out.Write(text); err != nil {
		return out.end(err)
	}
	return out.end(p.WriteNotes(stderr))
}

// describeRuns says what is in the runs of a series.
func describeRuns(series *record.SeriesReader, stdout io.Writer) error {
	for {
		r, err := series.Next()
		if err != nil || r == nil {
			return err
		}
		if n := series.Runs(); n > 1 {
			fmt.Fprintln(stdout)
		}
		fmt.Fprintf(stdout, "%-9s  %d\n", "run", series.Runs())
		if err := describe(stdout, r); err != nil {
			return err
		}
	}
}

// checkPage refuses what is about runs.
func (f *replayFlags) checkPage(name string, ask *asking) (err error) {
	f.all.Visit(func(flag *pflag.Flag) {
		if !slices.Contains(ofPages, flag.Name) {
			err = usagef("%s: a recording of ksnoop why: %s goes with --run N, for one of its runs", name, spelling(flag))
		}
	})
	switch {
	case err != nil:
		return err
	case ask != nil && len(ask.Specs) > 0:
		return usagef("%s: a recording of ksnoop why: a SPEC goes with --run N, for one of its runs", name)
	case !f.output.format.text() && f.output.format.String() != "json":
		return usagef("%s: a recording of ksnoop why: its page is text or json; --format %s goes with --run N", name, &f.output.format)
	}
	return nil
}
