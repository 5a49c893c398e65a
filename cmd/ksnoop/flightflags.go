// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/pflag"
)

// flightFlags are the options of flight recorders.
type flightFlags struct {
	size     string
	limit    int // bytes of records in memory; 0: records are written as they come
	triggers []string
}

// Limits of --flight.
const (
	minFlight = 1 << 20
	maxFlight = 16 << 30
)

func (f *flightFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.size, "flight", "", "with --record: keep the newest records, at most `SIZE` (as 64M), in memory; write them when a --trigger is called, at SIGUSR1 and at the end")
	flags.StringArrayVar(&f.triggers, "trigger", nil, "with --flight: write what is kept when this `SPEC` is met; -c N ends after so many (repeatable)")
}

// check takes what else bears on it: whether a recording is made and printed as well, and after
// how many records it ends.
func (f *flightFlags) check(recorded, printed bool, count uint64) (err error) {
	switch {
	case f.size == "" && len(f.triggers) > 0:
		return usagef("--trigger goes with --flight SIZE")
	case f.size == "":
		return nil
	case !recorded:
		return usagef("--flight goes with --record FILE, to which it writes")
	case printed:
		return usagef("--flight does not go with --print: it keeps records until they are asked for")
	case count > 0 && len(f.triggers) == 0:
		return usagef("-c goes with --flight and --trigger: it ends after so many triggers")
	}
	if f.limit, err = parseBytes(f.size); err != nil || f.limit < minFlight || f.limit > maxFlight {
		return usagef("--flight %s: give a size from 1M to 16G, as 64M", f.size)
	}
	return nil
}
