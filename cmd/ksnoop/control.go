// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/bpf"
)

// controlFlags are the options that say how long, how much and how promptly.
type controlFlags struct {
	rate     string
	duration time.Duration
	latency  time.Duration
	maxCPU   cpuFlag
	stats    bool
	expect   expectFlag
}

const statsUsage = "say at the end what was counted: records, and losses by cause"

// defaultLatency is long enough to print many records at a time, and shorter
// than a person notices.
const defaultLatency = 20 * time.Millisecond

// defaultMaxCPU is little enough for a host that has other work to do.
const defaultMaxCPU = 0.25

func (f *controlFlags) add(flags *pflag.FlagSet) {
	flags.DurationVar(&f.duration, "for", 0, "stop after this `TIME`, as 10s")
	flags.StringVar(&f.rate, "rate", "", "at most so many calls in a time, `N/s`, N/m or N/h, or N for a second; the rest is counted")
	flags.DurationVar(&f.latency, "latency", defaultLatency, "print a call at most `TIME` after it was made: longer, to print many at once")
	f.maxCPU.share = defaultMaxCPU
	flags.Var(&f.maxCPU, "max-cpu", maxCPUUsage)
	flags.BoolVar(&f.stats, "stats", false, statsUsage)
	flags.Var(&f.expect, "expect", expectUsage)
}

// check returns the rate limit.
func (f *controlFlags) check() (bpf.Rate, error) {
	switch {
	case f.duration < 0:
		return bpf.Rate{}, usagef("--for %s: it cannot be negative", f.duration)
	case f.latency < 0:
		return bpf.Rate{}, usagef("--latency %s: it cannot be negative", f.latency)
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
