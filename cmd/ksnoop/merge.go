// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/show"
)

// A mergedRun is one of several runs that are printed together.
type mergedRun struct {
	shown
	name   string        // of its files
	origin record.Origin // of the first
	show.Merged
	part bytes.Buffer // what is written of it, to be merged with others
}

// merge prints several recordings in the order of time.
func (f *replayFlags) merge(names []string, ask *asking, stdout, stderr io.Writer) error {
	if f.follow.wanted {
		return usagef("--follow goes with one FILE")
	}
	if err := f.look.check(true); err != nil {
		return err
	}
	runs, done, err := f.openAll(names, ask)
	defer done()
	switch {
	case err != nil:
		return err
	case len(runs) == 1:
		return f.show(runs[0].name, &runs[0].shown, stdout, stderr)
	case f.all.Lookup("format") == nil:
		return usagef("these are several runs: a report is of one FILE, or of the parts of one run")
	case !f.output.format.text() && !f.output.format.numbered() && !f.output.format.merges():
		return usagef("--format %s goes with one FILE, or the parts of one run: several runs are printed as text, json, perfetto, pprof or folded, or exported by --otlp", &f.output.format)
	case f.expect.text != "":
		return usagef("--expect goes with one FILE, or the parts of one run")
	}
	for _, m := range runs {
		if err := checkSummed(m.plan(), f.all); err != nil {
			return err
		}
	}
	out, err := f.output.open(stdout)
	if err != nil {
		return err
	}
	out.keep()
	if f.unseen(out) {
		defer slow(stderr, reading(fmt.Sprintf("%d recordings", len(names))))()
	}
	err = f.mergeTo(out, runs, stderr)
	return out.end(err)
}

// openAll opens recordings, puts those of one run together, and asks each run. The caller
// calls done.
func (f *replayFlags) openAll(names []string, ask *asking) (runs []*mergedRun, done func(), err error) {
	var files []*os.File
	done = func() {
		for _, file := range files {
			file.Close()
		}
	}
	var readers []*record.Reader
	called := map[*record.Reader]*os.File{}
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			return nil, done, err
		}
		files = append(files, file)
		r, err := record.NewReader(bufio.NewReaderSize(file, 64<<10))
		if err == nil {
			err = f.fits(r)
		}
		if err != nil {
			return nil, done, fmt.Errorf("%s: %w", name, err)
		}
		readers, called[r] = append(readers, r), file
	}
	for _, run := range record.Runs(readers) {
		asked := *ask // which keeps what it learns of a run
		m := &mergedRun{shown: shown{Reader: run[0], run: run, last: called[run[len(run)-1]], ask: &asked, stopped: f.stopped}, name: called[run[0]].Name(), origin: run[0].Info().Origin}
		if len(run) > 1 {
			m.name += " and parts up to " + m.last.Name()
		}
		asked.Filter.Range.Booted = m.booted
		if m.answer, err = asked.of(run[0]); err != nil {
			separator := " "
			if errors.As(err, new(*expr.ErrorList)) {
				separator = "\n" // a line of the SPEC follows, and a mark under it
			}
			return nil, done, fmt.Errorf("%s:%s%w", m.name, separator, err)
		}
		runs = append(runs, m)
	}
	return runs, done, nil
}

// mergeTo prints runs, and says of each what it lacks.
func (f *replayFlags) mergeTo(out *printout, runs []*mergedRun, stderr io.Writer) error {
	var merged []*show.Merged
	numbered := f.output.format.numbered()
	for i, m := range runs {
		info := m.Info()
		m.Merged = show.Merged{Records: m.records(), Sessions: info.Sessions != nil, Boot: info.Boot, Headed: numbered}
		if numbered {
			m.number = i + 1
		}
	}
	markHosts(runs)
	for _, m := range runs {
		if f.output.format.pictured() {
			m.label, m.boot = strings.TrimPrefix(m.Host+": "+m.name, ": "), m.Boot
		}
		if numbered {
			m.Host = "" // its header has it
		}
		var err error
		if m.View, err = f.view(&m.shown, out); err != nil {
			return ofRecording(m.name, err)
		}
		if f.output.format.merges() {
			m.Out = &m.part
		}
		merged = append(merged, &m.Merged)
	}
	show.Merge(out, merged, f.count)
	var errs []error
	var parts [][]byte
	for _, m := range runs {
		err := errors.Join(m.Err, m.Merged.End(m.losses()))
		if writing(err) {
			return err // of whichever run, and of all
		}
		parts = append(parts, m.part.Bytes())
		if err != nil {
			errs = append(errs, ofRecording(m.name, unfinished(m.last, err)))
		}
		var notes bytes.Buffer
		err = m.View.Tally().Report(&notes, f.stats)
		if a := m.answered(); a != nil {
			sayNotes(&notes, a)
			err = errors.Join(err, sayCounts(&notes, a.Counts()))
		}
		if f.count == 0 { // else its turn may not have come
			m.sayNone(&notes, m.View.Tally())
		}
		m.sayMore(&notes)
		if notes.Len() > 0 {
			fmt.Fprintf(stderr, "ksnoop: %s:\n%s", m.name, notes.String())
		}
		errs = append(errs, err)
	}
	if f.output.format.merges() {
		errs = append(errs, f.output.format.mergeTo(out, parts))
	}
	return errors.Join(errs...)
}

// markHosts has what is printed of runs marked by their hosts, unless there is only one. Runs
// between two boots of a host have one clock; of others, the time of day counts.
//
// Hosts of one name are told apart by when they were booted, and if that was in one second, by
// the kernel's boot_id or, of recordings that have none, by their files.
func markHosts(runs []*mergedRun) {
	boots := map[string]time.Time{}
	called := map[string]map[string]bool{} // the boots of what has a name
	bootOf := func(m *mergedRun) string { return cmp.Or(m.origin.BootID, m.name) }
	name := func(m *mergedRun, more string) {
		m.Host += more
		if called[m.Host] == nil {
			called[m.Host] = map[string]bool{}
		}
		called[m.Host][bootOf(m)] = true
	}
	for _, m := range runs {
		id := bootOf(m)
		if _, ok := boots[id]; !ok {
			boots[id] = m.origin.Boot
		}
		m.Boot = boots[id]
		name(m, cmp.Or(m.origin.Host, m.name))
	}
	for _, m := range runs {
		if len(called[m.Host]) > 1 {
			name(m, ", booted "+m.Boot.Local().Format(time.DateTime))
		}
	}
	for _, m := range runs {
		if len(called[m.Host]) > 1 {
			name(m, ", "+bootOf(m))
		}
		if len(boots) == 1 {
			m.Host = ""
		}
	}
}
