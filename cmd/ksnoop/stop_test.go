// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
)

// TestLostLines: a trace that ends at once says what it has cut off and lost, or why that is not known, unless it has said so.
func TestLostLines(t *testing.T) {
	detached := errors.New("detached")
	for _, c := range []struct {
		losses event.Losses
		err    error
		want   string
	}{
		{event.Losses{}, nil, ""},
		{event.Losses{Cut: 2, Lost: [bpf.Counters]uint64{bpf.RateLimited: 3}}, nil,
			"ksnoop: 3 calls left out by --rate\nksnoop: 2 records not shown because there was too much to print after the interrupt\n"},
		{event.Losses{Unread: detached}, detached, "ksnoop: what was lost is not known: detached\n"},
	} {
		run := tracing{flags: new(traceFlags)}
		if got := run.lostLines(c.losses, c.err); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
		run.told.Store(true)
		if got := run.lostLines(c.losses, c.err); got != "" {
			t.Errorf("said twice: %q", got)
		}
	}
}
