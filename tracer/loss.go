// SPDX-License-Identifier: Apache-2.0

package tracer

import (
	"cmp"
	"fmt"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plural"
)

// A Loss says how often something was not seen or not yielded, and why.
type Loss struct {
	What  string // "calls left out by --rate"
	Count uint64
	said  string // both, as people say it; "" stands for the number and What
}

// String returns the loss on one line.
func (l Loss) String() string { return cmp.Or(l.said, fmt.Sprint(l.Count, " ", l.What)) }

func lossOf(cause bpf.Counter, n uint64) Loss {
	return Loss{output.LossText(cause), n, output.LossCount(cause, n)}
}

// counted is a loss of which plural has the text.
func counted(n uint64, text string) Loss { return Loss{plural.Text(0, text), n, plural.Of(n, text)} }

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
		out = append(out, counted(n, "session{s} given up: {its end was|their ends were} lost, or {its|their} parts took too much memory"))
	}
	if n := t.decoder.LeftOut(); n > 0 {
		out = append(out, counted(n, "{call or interim stack|calls and interim stacks} left out of sessions that took too much memory"))
	}
	return out, nil
}
