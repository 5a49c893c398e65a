// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/internal/output"
)

// lookFlags are the options about how sessions are printed, live or from a
// recording.
type lookFlags struct {
	layout     string
	form       output.ArgsForm // layout, understood
	width      int             // of a value
	noStack    bool
	fullStacks bool
}

func (f *lookFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.layout, "args", output.ArgsCompact.String(), "the `FORM` of values in sessions: compact, multiline or verbose")
	flags.IntVar(&f.width, "args-width", output.DefaultArgsWidth, "`COLUMNS` that a value gets in sessions; 0: as many as it takes")
	flags.BoolVar(&f.noStack, "no-stack", false, "with -T or --lbr: leave the stacks of sessions out")
	flags.BoolVar(&f.fullStacks, "full-stacks", false, "show the frames of tracing itself in stacks, behind a ~, and all addresses")
}

// lookOnly are their names.
var lookOnly = [...]string{"args", "args-width", "no-stack", "full-stacks"}

const compactUsage = "print a record on one line, values without types and cut at a width"

// check understands the options. with says whether something else than stacks is
// printed of sessions.
func (f *lookFlags) check(with bool) (err error) {
	if f.form, err = output.ParseArgsForm(f.layout); err != nil {
		return usagef("--args %w", err)
	}
	switch {
	case f.width != 0 && f.width < leastWidth || f.width > mostWidth:
		return usagef("--args-width %d: there can be %d to %d columns, or 0 for as many as a value takes", f.width, leastWidth, mostWidth)
	case f.noStack && f.fullStacks:
		return usagef("--no-stack leaves out what --full-stacks is about")
	case f.noStack && !with:
		return usagef("--no-stack goes with -T or --lbr: without them sessions are nothing but a stack")
	}
	return nil
}

// What a value can be cut to.
const (
	leastWidth = 10
	mostWidth  = 1 << 20
)
