// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// A workCase is one thing to do. Its setup defines flags and returns what is to
// be done when they have been parsed.
type workCase struct {
	name, about string
	setup       func(*flag.FlagSet) func(w io.Writer) error
}

func (c workCase) run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("workload "+c.name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	do := c.setup(flags)
	if err := flags.Parse(args); err != nil {
		return 2
	}
	err := do(stdout)
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "workload %s: %v\n", c.name, err)
		return 2
	}
	fmt.Fprintf(stderr, "workload %s: %v\n", c.name, err)
	return 1
}

// attempts is a case that asks for a descriptor a number of times and closes it again.
func attempts(name, about string, attempt func() result, want []unix.Errno) workCase {
	return workCase{name, about, func(f *flag.FlagSet) func(io.Writer) error {
		count := f.Int("count", 1, "how `often`")
		return func(w io.Writer) error {
			var r result
			for range *count {
				if r = attempt(); r.errno == 0 {
					unix.Close(r.n)
					r.n = 0 // the descriptor's number is nothing to compare with
				}
			}
			fmt.Fprintf(w, "%s count=%d result=%v\n", name, *count, r)
			return r.expect(want...)
		}
	}}
}

// A usageError is a fault of the flags.
type usageError string

func (e usageError) Error() string { return string(e) }
