// SPDX-License-Identifier: Apache-2.0

package main

import (
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/prometheus"
	"github.com/ksnoop/ksnoop/internal/show"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/internal/trace"
)

// summingFlags are the options for SPECs that add calls up.
type summingFlags struct {
	every time.Duration
	keys  int
	all   *pflag.FlagSet
}

func (f *summingFlags) add(flags *pflag.FlagSet) {
	f.all = flags
	flags.DurationVar(&f.every, "every", 0, "with aggregations: print and clear the tables every `TIME`, such as 5s")
	flags.IntVar(&f.keys, "keys", 0, "with aggregations: make room for `N` keys a table on each CPU (default: by the memory they take, --debug tells)")
}

// shortest is how often tables are printed at most.
const shortest = 10 * time.Millisecond

// mostKeys is more than any table has room for.
const mostKeys = 1 << 24

// check refuses what does not go with a plan.
func (f *summingFlags) check(p *plan.Plan, record bool) error {
	sums := len(summary.Of(p).List) > 0
	switch {
	case f.every < shortest && f.all.Changed("every"):
		return usagef("--every %v: the shortest time is %v", f.every, shortest)
	case f.keys < 0 || f.keys > mostKeys:
		return usagef("--keys %d: a number up to %d", f.keys, mostKeys)
	case !sums && f.every > 0:
		return usagef("--every is about SPECs that add calls up, as in 'vfs_read(count()[$comm])', and there is none")
	case !sums && f.keys > 0:
		return usagef("--keys is about SPECs that add calls up, as in 'vfs_read(count()[$comm])', and there is none")
	case sums && p.Sessions:
		return usagef("with -e, SPECs show values of calls inside sessions; what adds calls up, such as count(), goes without -e")
	case sums && record:
		return usagef("a SPEC that adds calls up sends none that could be recorded: record them without count() and the like, and ask replay")
	}
	return checkSummed(p, f.all)
}

// aboutCalls are the options that are about each call that is shown.
var aboutCalls = [...]string{"count", "rate", "grep", "expect", "join", "compact", "fields", "stack", "ustack", "caller", "lbr"}

// checkSummed refuses options about calls where all calls are added up. Others are shown beside tables.
func checkSummed(p *plan.Plan, flags *pflag.FlagSet) error {
	if len(summary.Of(p).List) == 0 || slices.ContainsFunc(p.Probes, func(probe *plan.Probe) bool { return !probe.Aggregates() }) {
		return nil
	}
	for _, name := range aboutCalls {
		flag := flags.Lookup(name)
		if flag == nil || !flag.Changed {
			continue
		}
		why := ""
		if strings.HasPrefix(flag.Value.String(), "dwarf") {
			why = ": a copy of the stack differs from call to call and cannot be a key, so $ustack is what the kernel finds by frame pointers; show or record the calls"
		}
		return usagef("%s is about calls that are shown, and SPECs that add calls up show none%s", spelling(flag), why)
	}
	return nil
}

// A summing is a run that adds calls up.
type summing struct {
	run   *trace.Run
	every time.Duration
	ended chan struct{} // closed when there are no more records
	end   func()        // closes ended
	rows  *summary.Builder
	from  uint64               // when the tables were begun
	lost  [bpf.Counters]uint64 // until then; with every only
}

// sums adds to a view of calls the tables of what is added up. stop ends the run.
func (t *tracing) sums(run *trace.Run, calls *show.Calls, printer show.SummaryPrinter, stop func()) show.View {
	s := &summing{run: run, every: t.flags.summing.every, ended: make(chan struct{}), rows: summary.NewBuilder(run.Tables()), from: monotonic()}
	s.end = sync.OnceFunc(func() { close(s.ended) })
	t.summing = s
	view := &show.Summaries{Records: calls, Printer: printer, Last: func() (*summary.Summary, error) { return s.take(true) }}
	if s.every > 0 {
		view.Times, view.Ended, view.Failed = s.times, s.end, stop
		if screen, ok := t.out.Writer.(*terminal.Writer); ok && screen.IsTerminal() && t.flags.output.format.text() {
			view.Draw, view.Clear = screen.Redraw, screen.Clear
		}
		if p, ok := printer.(*prometheus.Printer); ok && t.out.replaceable() {
			p.EachTime()
			view.Draw = t.out.replaced()
		}
	}
	return view
}

// until yields records, and notes when they end. A nil summing yields them as they are.
func (s *summing) until(records iter.Seq2[[]byte, error]) iter.Seq2[[]byte, error] {
	if s == nil {
		return records
	}
	return func(yield func([]byte, error) bool) {
		defer s.end()
		records(yield)
	}
}

// times yields what was added up in each time, until the records end.
func (s *summing) times(yield func(*summary.Summary, error) bool) {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		select {
		case <-s.ended:
			return
		case <-tick.C:
		}
		if sum, err := s.take(false); !yield(sum, err) || err != nil {
			return
		}
	}
}

// take returns what was added up since the last time.
func (s *summing) take(last bool) (*summary.Summary, error) {
	if _, err := s.run.TakeRows(s.rows); err != nil { // the Builder has no limit
		return nil, err
	}
	out := &summary.Summary{Start: s.from, End: monotonic(), Tables: s.rows.Take(), Last: last, Stacks: s.run}
	s.from = out.End
	if s.every == 0 {
		return out, nil // the end of the run has it
	}
	lost, err := s.run.Counters()
	if err != nil {
		return nil, err
	}
	for _, cause := range summedUpLosses {
		if n := lost[cause] - s.lost[cause]; n > 0 {
			out.Lost = append(out.Lost, event.Loss{Cause: cause, Count: n})
		}
	}
	s.lost = lost
	return out, nil
}

// summedUpLosses are what tables of one time may lack and others not.
var summedUpLosses = [...]bpf.Counter{bpf.LostKey, bpf.LostRow, bpf.LostKeptStack}
