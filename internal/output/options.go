// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
)

// SessionOptions say how to print sessions.
type SessionOptions struct {
	// Resolver names the addresses of stacks, User those of processes.
	Resolver Resolver
	User     func(e *bpf.Event, comm string) Process
	Names    Names
	// Boot is the time at which the kernel's monotonic clock was zero, Booted that as it is by
	// now, as in Run.
	Boot   time.Time
	Booted func() time.Time
	// Args says how to lay out the values of calls.
	Args ArgsForm
	// ArgsWidth is the most columns that a value takes; 0 means no limit.
	ArgsWidth int
	// Columns returns the width of the terminal that sessions are printed to, in columns.
	// Values are cut to it. Nil, or a result of 0, means no terminal.
	Columns func() int
	// Trace prints every call, before the stack.
	Trace bool
	// Live lays out call traces for printing piece by piece, with fixed columns.
	Live bool
	// NoStack leaves out stacks.
	NoStack bool
	// Unfiltered keeps the frames of tracing itself in stacks, marked with `~`.
	Unfiltered bool
	// Addresses shows the addresses of frames.
	Addresses bool
	// Colour marks text by what it means, for a terminal.Writer with colours.
	Colour bool
	// Branches says how to show the branches that lead to a failure.
	Branches BranchOptions
}

// An ArgsForm is a layout for the values of calls in sessions.
type ArgsForm uint8

const (
	ArgsCompact   ArgsForm = iota // after the call, on its line
	ArgsMultiline                 // below it, a line for each value
	ArgsVerbose                   // below it, a line for each member, with types
)

var argsForms = [...]string{ArgsCompact: "compact", ArgsMultiline: "multiline", ArgsVerbose: "verbose"}

func (a ArgsForm) String() string { return argsForms[a] }

// ParseArgsForm parses the name of a form.
func ParseArgsForm(s string) (ArgsForm, error) {
	for a, name := range argsForms {
		if s == name {
			return ArgsForm(a), nil
		}
	}
	return 0, fmt.Errorf("%q is none of compact, multiline and verbose", s)
}

// DefaultArgsWidth is the default width of a value in columns, as in retsnoop.
const DefaultArgsWidth = 120
