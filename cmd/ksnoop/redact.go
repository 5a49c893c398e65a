// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/internal/plan"
)

// redactFlags are the options that say which values are not captured.
type redactFlags struct {
	globs     []string
	typesOnly bool
}

func (f *redactFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.globs, "redact", nil, "do not capture values whose expression or argument this `GLOB` matches, as 'ustr(*)' (repeatable)")
	flags.BoolVar(&f.typesOnly, "types-only", false, "capture no values: show that calls were made; --format json has the types of what they were called with")
}

// redact is what a plan is told.
func (f *redactFlags) redact() []string {
	if f.typesOnly {
		return []string{"*"}
	}
	return f.globs
}

// check refuses globs that would redact nothing: who mistypes one would publish what it was to hide.
func (f *redactFlags) check(p *plan.Plan) error {
	for _, pattern := range f.globs {
		if p.Withholds(pattern) {
			continue
		}
		var there []string
		for label := range p.Labels() {
			if !slices.Contains(there, label) {
				there = append(there, label)
			}
			if len(there) == mostLabels {
				there = append(there, "...")
				break
			}
		}
		if there == nil {
			return usagef("--redact %s: no values are captured", pattern)
		}
		return usagef("--redact %s matches nothing that is captured: there are %s", pattern, strings.Join(there, ", "))
	}
	return nil
}

// mostLabels is how many values a message names.
const mostLabels = 12
