// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/session"
)

// controlFlags are the options that say how long, how much and how promptly.
type controlFlags struct {
	rate     string
	duration time.Duration
	latency  time.Duration
	maxCPU   cpuFlag
	stats    bool
}

const statsUsage = "say at the end what was counted: records, and losses by cause"

// defaultLatency is long enough to print many records at a time, and shorter
// than a person notices.
const defaultLatency = 20 * time.Millisecond

// defaultMaxCPU is little enough for a host that has other work to do.
const defaultMaxCPU = 0.25

func (f *controlFlags) add(flags *pflag.FlagSet) {
	flags.DurationVar(&f.duration, "for", 0, "stop after this `TIME`, as 10s")
	flags.StringVar(&f.rate, "rate", "", "at most so many calls in a time, `N/s`, N/m or N/h; the rest is counted")
	flags.DurationVar(&f.latency, "latency", defaultLatency, "print at most this `TIME` after the call, so as to print many at once")
	f.maxCPU.share = defaultMaxCPU
	flags.Var(&f.maxCPU, "max-cpu", maxCPUUsage)
	flags.BoolVar(&f.stats, "stats", false, statsUsage)
}

// check returns the rate limit.
func (f *controlFlags) check() (bpf.Rate, error) {
	if f.duration < 0 || f.latency < 0 {
		return bpf.Rate{}, usagef("--for and --latency take a time that is not negative")
	}
	if f.rate == "" {
		return bpf.Rate{}, nil
	}
	rate, err := parseRate(f.rate)
	if err != nil {
		return rate, usagef("--rate %s: %w", f.rate, err)
	}
	return rate, nil
}

// parseRate reads "100/s"; a number alone is per second.
func parseRate(text string) (bpf.Rate, error) {
	number, unit, found := strings.Cut(text, "/")
	if !found {
		unit = "s"
	}
	window, ok := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || !ok {
		return bpf.Rate{}, errors.New("not a rate; write 100/s, 20/m or 5/h")
	}
	if n == 0 {
		return bpf.Rate{}, errors.New("that lets no call through")
	}
	return bpf.Rate{Most: n, Window: window}, nil
}

// limit returns a context that ends after --for.
func (f *controlFlags) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.duration == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, f.duration)
}

// A tally is what was counted of one run by the end.
type tally struct {
	records   uint64 // printed or recorded
	cut       uint64 // records that were left when there was no more time
	orphans   uint64 // sessions given up of which parts had come
	left      uint64 // calls and interim stacks left out of sessions
	evicted   uint64 // entries whose return --join has not waited for
	counts    [bpf.Counters]uint64
	marked    [bpf.Counters]uint64 // losses that a mark in the output shows
	uncounted bool                 // the kernel has not counted all that it skipped
}

// report marks in the output what was lost after the last record, and says
// elsewhere what was lost in all, and with stats everything that was counted.
func (t *tally) report(stdout, stderr io.Writer, stats bool) error {
	var out []byte
	for _, cause := range bpf.Marked {
		if n := t.counts[cause]; n > t.marked[cause] {
			out = output.AppendLost(out, cause, n-t.marked[cause])
		}
	}
	if _, err := stdout.Write(out); err != nil {
		return err
	}
	out = out[:0]
	if stats {
		out = fmt.Appendf(out, "ksnoop: %d records printed or written\n", t.records)
	}
	out = output.AppendLosses(out, &t.counts, stats)
	if t.evicted > 0 || stats {
		out = fmt.Appendf(out, "ksnoop: %d calls shown without their return because --join kept too many open\n", t.evicted)
	}
	if t.cut > 0 || stats {
		out = fmt.Appendf(out, "ksnoop: %d records not shown because there was too much to print after the interrupt\n", t.cut)
	}
	if t.orphans > 0 {
		out = fmt.Appendf(out, "ksnoop: %d sessions given up: their ends were lost, or their parts took too much memory\n", t.orphans)
	}
	if t.left > 0 {
		out = fmt.Appendf(out, "ksnoop: %d calls and interim stacks left out of sessions that took more than %d MiB\n", t.left, session.SessionLimit>>20)
	}
	if stats && t.uncounted {
		out = append(out, "ksnoop: this kernel does not count all kprobes that it skips\n"...)
	}
	_, err := stderr.Write(out)
	return err
}
