// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/show"
	"github.com/ksnoop/ksnoop/internal/trace"
)

// leftOut are the sessions that were not wanted, by cause. It is never changed.
var leftOut = [...]struct {
	counter bpf.Counter
	why     string
	options func(*sessionFlags) []string // that ask for it
}{
	{bpf.LeftFine, "did not fail (-S shows those, too)", nil},
	{bpf.LeftError, "failed, but not as %s wants it", func(f *sessionFlags) []string { return f.errorOptions() }},
	{bpf.LeftShort, "did not take longer than %s", func(f *sessionFlags) []string { return []string{"-L " + f.longer} }},
	{bpf.LeftUnmet, "had no call that meets the predicates", nil},
}

// errorOptions are the options that say which errors are wanted.
func (f *sessionFlags) errorOptions() (options []string) {
	for _, list := range f.only {
		options = append(options, "-x "+list)
	}
	for _, list := range f.except {
		options = append(options, "-X "+list)
	}
	return options
}

// nothingShown says why no session was shown, "" if nobody has asked for less than all that
// there are, or if it may be that sessions were lost. open is how many have not ended.
func (f *traceFlags) nothingShown(tally *show.Tally, open uint32) string {
	var why []string
	for _, c := range leftOut {
		n := tally.Lost[c.counter]
		if n == 0 {
			continue
		}
		text := c.why
		if c.options != nil {
			text = fmt.Sprintf(text, strings.Join(c.options(&f.session), ", "))
		}
		why = append(why, fmt.Sprintf("%d %s", n, text))
	}
	if open > 0 {
		why = append(why, fmt.Sprintf("%d had not ended (--hung shows those)", open))
	}
	filters := f.filters.options()
	switch {
	case len(why) > 0:
		return "no session is shown: " + strings.Join(why, "; ")
	case len(filters) > 0 && tally.Unseen() == 0:
		return fmt.Sprintf("no session was opened: of the functions of -e there was no call that %s let through", strings.Join(filters, ", "))
	}
	return ""
}

// noCall says why a command's calls are not shown, "" if that needs no saying: a number of calls is
// expected, or some were lost.
func (f *traceFlags) noCall(p *plan.Plan, tally *show.Tally) string {
	filters := f.filters.options()
	switch {
	case len(f.command) == 0 || f.control.expect.text != "" || tally.Calls > 0 || tally.Unseen() > 0 || onlyTables(p):
		return ""
	case p.Conditional():
		return "no call met the predicates, or none was made"
	case len(filters) > 0:
		return fmt.Sprintf("no call was seen that %s let through", strings.Join(filters, ", "))
	}
	return "no call was seen: none was made, or the compiler has inlined the function where it was called"
}

// sayNothingShown says why there was no session to show, and to a person why there was no call.
func (t *tracing) sayNothingShown(run *trace.Run, tally *show.Tally) {
	if !t.plan.Sessions {
		columns := columnsOf(t.stderr)
		if text := t.flags.noCall(t.plan, tally); text != "" && columns != nil && columns() > 0 {
			fmt.Fprintln(t.stderr, "ksnoop: "+text)
		}
		return
	}
	if tally.Records > 0 {
		return
	}
	open, _ := run.OpenSessions()
	if text := t.flags.nothingShown(tally, open); text != "" {
		fmt.Fprintln(t.stderr, "ksnoop: "+text)
	}
}

// options are those that say whose calls are traced.
func (f *filterFlags) options() (options []string) {
	for _, of := range []struct {
		name   string
		values []uint
	}{{"-p", f.pids}, {"-P", f.notPIDs}, {"-t", f.tids}} {
		for _, v := range of.values {
			options = append(options, fmt.Sprintf("%s %d", of.name, v))
		}
	}
	for _, of := range []struct {
		name   string
		values []string
	}{{"-n", f.comms}, {"-N", f.notComms}, {"--uid", f.uids}, {"--container", f.in.Containers}, {"--pod", f.in.Pods}} {
		for _, v := range of.values {
			options = append(options, of.name+" "+v)
		}
	}
	if f.cgroup != "" {
		options = append(options, "--cgroup "+f.cgroup)
	}
	if f.noIRQ {
		options = append(options, "--no-irq")
	}
	return options
}
