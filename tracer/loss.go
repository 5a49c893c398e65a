// SPDX-License-Identifier: Apache-2.0

package tracer

import (
	"fmt"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/output"
)

// A Loss says how often something was not seen or not yielded, and why.
type Loss struct {
	What  string // "calls left out by --rate"
	Count uint64
}

// String returns the loss on one line.
func (l Loss) String() string { return fmt.Sprintf("%d %s", l.Count, l.What) }

func lossOf(cause bpf.Counter, n uint64) Loss { return Loss{output.LossText(cause), n} }

// Losses ends the recording of calls and returns what is missing, and what was left out as
// the request says, by cause. It is to be called when Calls or Sessions has ended, and
// before Close. It includes each Call.Lost and Session.Lost: do not add them up.
func (t *Tracer) Losses() ([]Loss, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrClosed
	}
	l, err := t.run.End()
	if err != nil {
		return nil, err
	}
	var out []Loss
	for cause, n := range l.Lost {
		if n > 0 {
			out = append(out, lossOf(bpf.Counter(cause), n))
		}
	}
	if t.decoder == nil {
		return out, nil
	}
	if n := t.decoder.Orphans(); n > 0 {
		out = append(out, Loss{"sessions given up: their ends were lost, or their parts took too much memory", n})
	}
	if n := t.decoder.LeftOut(); n > 0 {
		out = append(out, Loss{"calls and interim stacks left out of sessions that took too much memory", n})
	}
	return out, nil
}
