// SPDX-License-Identifier: Apache-2.0

package show

import (
	"io"
	"iter"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// A Counted is a View that only counts records of calls, where nothing but a recording is
// wanted.
type Counted struct {
	Plan  *plan.Plan
	Count uint64 // stop after so many; 0: never

	tally Tally
}

var _ View = (*Counted)(nil)

// Write takes all records, or Count of them besides the marks of losses.
func (c *Counted) Write(_ io.Writer, records iter.Seq2[[]byte, error], _ func() bool) error {
	for e, err := range event.All(c.Plan, records) {
		if err != nil {
			return err
		}
		if e.Kind == bpf.KindLost {
			continue
		}
		if e.First() {
			c.tally.Calls++
		}
		if c.tally.Records++; c.tally.Records == c.Count {
			break
		}
	}
	return nil
}

// Tally implements View.
func (c *Counted) Tally() *Tally { return &c.tally }

// End implements View.
func (c *Counted) End(_ io.Writer, l event.Losses, _ error) error {
	c.tally.Losses = l
	return nil
}
