// SPDX-License-Identifier: Apache-2.0

package export

import (
	"fmt"
	"strings"

	"github.com/ksnoop/ksnoop/internal/plural"
)

// Counts say what has become of what was written.
type Counts struct {
	sent    [signals]uint64
	dropped [signals]uint64 // for lack of room or time
	refused [signals]uint64 // by the collector
	// requests were sent in vain, too. bytes are those of bodies that were taken, packed as they went
	// over the wire.
	requests, retries, bytes, packed uint64
	reason                           string // of the last failure or refusal
}

// An outcome says what became of a batch: how many of its items were taken and refused. The others
// were neither.
type outcome struct {
	taken, refused uint64
	size, packed   int
	reason         string
}

// items are the names of what signals have.
var items = [signals]string{"span{s}", "log record{s}", "data point{s}"}

// Missing returns how many items did not arrive.
func (c *Counts) Missing() (n uint64) {
	for s := range signals {
		n += c.dropped[s] + c.refused[s]
	}
	return n
}

// String says on one line what was sent, and what has become of the rest.
func (c Counts) String() string {
	text := "sent " + listed(&c.sent)
	if text == "sent " {
		text = "sent nothing"
	}
	if c.bytes > 0 {
		text += fmt.Sprintf(" in %s (%d kB, %d kB on the wire)", plural.Of(c.requests-c.retries, "request{s}"), (c.bytes+500)/1000, (c.packed+500)/1000)
	}
	if c.retries > 0 {
		text += fmt.Sprintf(", %d sent again", c.retries)
	}
	if dropped := listed(&c.dropped); dropped != "" {
		text += "; dropped for lack of room or time: " + dropped
	}
	if refused := listed(&c.refused); refused != "" {
		text += "; refused: " + refused
	}
	if c.reason != "" && c.Missing() > 0 {
		text += " (" + c.reason + ")"
	}
	return text
}

func listed(n *[signals]uint64) string {
	var list []string
	for s, name := range items {
		if n[s] > 0 {
			list = append(list, plural.Of(n[s], name))
		}
	}
	return strings.Join(list, ", ")
}
