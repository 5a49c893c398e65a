// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/container"
	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/requery"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/internal/trace"
	"github.com/ksnoop/ksnoop/layout"
)

// askFlags are the options of replay about what of a recording is shown. Those that trace has
// mean the same.
type askFlags struct {
	pids, notPIDs, tids []uint
	comms, notComms     []string
	only, except        []string
	longer              string
	since, until        string
	grep                string
	uids                []string
	cgroup              string
	in                  container.Selector
}

func (f *askFlags) add(flags *pflag.FlagSet) {
	flags.UintSliceVarP(&f.pids, "pid", "p", nil, "only calls of the process `PID` (repeatable)")
	flags.UintSliceVarP(&f.notPIDs, "not-pid", "P", nil, "no calls of the process `PID` (repeatable)")
	flags.UintSliceVarP(&f.tids, "tid", "t", nil, "only calls made by this thread, `TID` (repeatable)")
	for _, name := range []string{"pid", "not-pid", "tid"} {
		flags.Lookup(name).DefValue = "" // pflag would say "(default [])"
	}
	flags.StringArrayVarP(&f.comms, "comm", "n", nil, "only calls made by tasks whose name matches this `GLOB` (repeatable)")
	flags.StringArrayVarP(&f.notComms, "not-comm", "N", nil, "no calls made by tasks whose name matches this `GLOB` (repeatable)")
	flags.StringSliceVar(&f.uids, "uid", nil, "only calls made by this `USER`, a name of this machine or a number (repeatable)")
	flags.StringVar(&f.cgroup, "cgroup", "", "only calls made in this control group or below it, `PATH`")
	addContainers(flags, &f.in)
	flags.StringArrayVarP(&f.only, "only-errors", "x", nil, "only sessions that failed with one of these `ERRORS`: EINVAL,ENOMEM or NULL; any stands for all (repeatable)")
	flags.StringArrayVarP(&f.except, "except-errors", "X", nil, "no sessions that failed with one of these `ERRORS` (repeatable)")
	flags.StringVarP(&f.longer, "longer", "L", "", "only sessions that took longer than this `TIME`: 10ms, 50us; a number is in ms")
	flags.StringVar(&f.since, "since", "", "only from this `TIME` on: +2s after the first record, 251523.6 as in TIMESTAMP, 10:57:13.5, or with a date")
	flags.StringVar(&f.until, "until", "", "only up to this `TIME`")
	flags.StringVar(&f.grep, "grep", "", "only calls or sessions whose text has this `TEXT`, or matches it if it is a /REGEXP/")
}

// An asking is what the options say, understood.
type asking struct {
	requery.Question
	sessions requery.Sessions
	inside   *requery.Inside   // of a recording of sessions; nil: they are shown as they are
	grep     func([]byte) bool // nil: all
	filters  bool              // calls are left out
}

// understand understands options and SPECs.
func (f *askFlags) understand(specs []string) (a *asking, err error) {
	a = &asking{}
	specs, err = expandLists(specs)
	if err != nil {
		return nil, err
	}
	if a.Specs, err = trace.ParseSpecs(specs); err != nil {
		return nil, err
	}
	to := &a.Filter
	var errs [7]error
	to.PIDs, errs[0] = ids("-p", f.pids)
	to.NotPIDs, errs[1] = ids("-P", f.notPIDs)
	to.TIDs, errs[2] = ids("-t", f.tids)
	to.Comms, to.NotComms = f.comms, f.notComms
	to.Range.Since, errs[3] = moment("--since", f.since)
	to.Range.Until, errs[4] = moment("--until", f.until)
	if a.grep, errs[5] = matcher(f.grep); errs[5] != nil {
		errs[5] = fmt.Errorf("--grep %s: %w", f.grep, errs[5])
	}
	to.UIDs, errs[6] = userIDs(f.uids)
	to.Cgroup, to.In = cgroupPath(f.cgroup), f.in
	if err := errors.Join(errs[:]...); err != nil {
		return nil, usageError{err}
	}
	s, err := (&sessionFlags{only: f.only, except: f.except, longer: f.longer}).settings()
	if err != nil {
		return nil, err
	}
	a.sessions = requery.Sessions{Failed: len(f.only) > 0, Only: s.only, Except: s.except, Longer: s.longer}
	a.filters = len(f.pids)+len(f.notPIDs)+len(f.tids)+len(f.comms)+len(f.notComms)+len(f.since)+len(f.until)+len(f.uids)+len(f.cgroup) > 0 || !f.in.Empty()
	return a, nil
}

// narrows reports whether the question may leave something of a recording out.
func (a *asking) narrows() bool { return len(a.Specs) > 0 || a.filters || a.wants() || a.grep != nil }

// wants reports whether sessions are asked for by their errors or durations.
func (a *asking) wants() bool {
	return a.sessions.Failed || len(a.sessions.Except) > 0 || a.sessions.Longer > 0
}

// cgroupPath returns the path of a cgroup as recordings have it: below the mount.
func cgroupPath(name string) string {
	if name == "" {
		return ""
	}
	path := filepath.Clean("/" + name)
	for _, mount := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if rest, ok := strings.CutPrefix(path, mount); ok && (rest == "" || rest[0] == '/') {
			return filepath.Clean("/" + rest)
		}
	}
	return path
}

func moment(flag, text string) (requery.Moment, error) {
	if text == "" {
		return requery.Moment{}, nil
	}
	m, err := requery.ParseMoment(text)
	if err != nil {
		err = fmt.Errorf("%s %w", flag, err)
	}
	return m, err
}

// matcher understands a text to search, or a /REGEXP/.
func matcher(text string) (func([]byte) bool, error) {
	pattern, regular := strings.CutPrefix(text, "/")
	pattern, ends := strings.CutSuffix(pattern, "/")
	switch {
	case text == "":
		return nil, nil
	case !regular || !ends || pattern == "":
		return func(b []byte) bool { return bytes.Contains(b, []byte(text)) }, nil
	}
	if _, err := regexp.Compile(pattern); err != nil { // which names what was typed
		return nil, err
	}
	re, err := regexp.Compile("(?m)" + pattern)
	if err != nil {
		return nil, err
	}
	return re.Match, nil
}

// of asks a recording. answer is nil if its records are shown as they are.
func (a *asking) of(r *record.Reader) (answer *requery.Answer, err error) {
	info := r.Info()
	a.Filter.Range.Boot, a.Arch, a.Filter.CgroupOf = info.Boot, info.Arch, r.Cgroup
	switch has := r.Plan().Owner; {
	case len(a.Filter.UIDs) > 0 && has&layout.OwnerUID == 0:
		return nil, usagef("--uid: the recording does not have the users of its calls")
	case a.Filter.Cgroup != "" && has&layout.OwnerCgroup == 0:
		return nil, usagef("--cgroup: the recording does not have the control groups of its calls")
	case !a.Filter.In.Empty() && has&layout.OwnerCgroup == 0:
		return nil, usagef("--container and --pod: the recording does not have the control groups of its calls")
	}
	if err := a.Filter.Range.Check(); err != nil {
		return nil, usageError{err}
	}
	switch how := info.Sessions; {
	case how != nil:
		a.sessions.Filter = a.Filter
		if err := a.sessions.Check(how.Live); err != nil {
			return nil, usageError{err}
		}
		if len(a.Specs) > 0 {
			a.inside, err = requery.NewInside(r.Plan(), r.Kernel(), a.Question, how.Live)
		}
		return nil, err
	case a.wants():
		return nil, usagef("-x, -X and -L are about sessions, and calls were recorded; write a SPEC, such as f(return == -ENOENT) or f($duration > 10ms)")
	case len(a.Specs) == 0 && !a.filters:
		return nil, nil
	}
	return requery.New(r.Plan(), r.Kernel(), a.Question)
}

// keepCall returns which calls --grep lets pass; nil for all.
func (a *asking) keepCall(p *picture) (func(*calls.Call) (bool, error), error) {
	if a.grep == nil {
		return nil, nil
	}
	printer, err := (&formatFlag{}).calls(p)
	var text []byte
	return func(c *calls.Call) (bool, error) {
		var err error
		text, err = printer.AppendCall(text[:0], c)
		return a.grep(text), err
	}, err
}

// keepSession returns which sessions are shown.
func (a *asking) keepSession(p *picture) (func(*session.Session) (bool, error), error) {
	printer, err := (&formatFlag{}).sessions(p)
	var text []byte
	return func(s *session.Session) (bool, error) {
		if !a.sessions.Keep(s) {
			return false, nil
		}
		if a.inside != nil {
			if keep, err := a.inside.Keep(s); !keep || err != nil {
				return false, err
			}
		}
		if a.grep == nil {
			return true, nil
		}
		var err error
		text, err = printer.AppendSession(text[:0], s)
		return a.grep(text), err
	}, err
}

// An answered is what SPECs were answered by.
type answered interface {
	Notes() []requery.Note
	Counts() requery.Counts
}

// maxNotes is how many functions are named that are left out.
const maxNotes = 8

// sayNotes says what is left out though the SPECs select it.
func sayNotes(w io.Writer, a answered) {
	notes := a.Notes()
	for i, n := range notes {
		if i == maxNotes {
			fmt.Fprintf(w, "ksnoop: left out: %d more\n", len(notes)-i)
			return
		}
		fmt.Fprintf(w, "ksnoop: left out: %s: %s\n", terminal.Name(n.Func), n.Why)
	}
}

// sayCounts says what was left out because the recording does not tell.
func sayCounts(w io.Writer, c requery.Counts) (err error) {
	for _, line := range [...]struct {
		n    uint64
		what string
	}{
		{c.NoEntry, "call{s} left out of which only the return was recorded"},
		{c.Unsure, "call{s} left out because the predicates need what was unreadable as a whole, or cut short, when it was recorded"},
		{c.Partial, "record{s} with values missing because they were unreadable as a whole, or cut short, when {it was|they were} recorded"},
		{c.Evicted, "call{s} whose return was not waited for because too many were open, or records were lost meanwhile"},
	} {
		if line.n > 0 && err == nil {
			_, err = fmt.Fprintf(w, "ksnoop: %s\n", plural.Of(line.n, line.what))
		}
	}
	return err
}
