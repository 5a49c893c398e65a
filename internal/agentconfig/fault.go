// SPDX-License-Identifier: Apache-2.0

package agentconfig

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/internal/terminal"
)

// A Fault is something wrong in a file.
type Fault struct {
	File         string
	Line, Column int // from 1; a column is a character
	Text         string
}

// Error returns FILE:LINE:COLUMN: and what is wrong, as compilers do.
func (f *Fault) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", terminal.Name(f.File), f.Line, f.Column, f.Text)
}

// Faults are all faults of a file, in its order. It is never empty.
type Faults []*Fault

// maxFaults is how many faults are printed: a file of something else has one in every line.
const maxFaults = 20

// Error returns a line for each fault.
func (l Faults) Error() string {
	var lines []string
	for _, err := range l.Unwrap() {
		lines = append(lines, err.Error())
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults that are printed, each of which is a message.
func (l Faults) Unwrap() (all []error) {
	for i, f := range l {
		if i == maxFaults {
			return append(all, fmt.Errorf("and %d more", len(l)-i))
		}
		all = append(all, f)
	}
	return all
}

// sorted returns faults in the order of the file, nil if there are none.
func sorted(l Faults) error {
	if len(l) == 0 {
		return nil
	}
	slices.SortStableFunc(l, func(a, b *Fault) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	return l
}
