// SPDX-License-Identifier: Apache-2.0

package why

import (
	"errors"
	"testing"

	"github.com/ksnoop/ksnoop/internal/decide"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// TestWayOfTheCall: if the record of the inner call of a failure was lost, nothing is known of it. What belongs to an
// earlier failure is not shown in its place.
func TestWayOfTheCall(t *testing.T) {
	w := wayTaker{runner: &Runner{}, failure: &Failure{}, nth: 1, fields: output.NewFields(output.Names{}), last: map[uint32]*Taken{}, verdicts: map[uint32]*decide.Verdict{}, faults: map[uint32]*fault{}}
	end := func() {
		e := &event.Event{Probe: &plan.Probe{}, Record: &layout.Record{}}
		e.TID = 8
		if err := w.end(e); err != nil {
			t.Fatal(err)
		}
	}
	first, verdict := &Taken{Function: "first"}, &decide.Verdict{}
	w.last[8], w.verdicts[8] = first, verdict
	if end(); w.found != first || w.verdict != verdict {
		t.Errorf("the first failure: %+v with %+v", w.found, w.verdict)
	}
	if end(); w.ended != 2 || w.found != nil || w.verdict != nil {
		t.Errorf("failure %d, of which nothing was recorded: %+v with %+v", w.ended, w.found, w.verdict)
	}
}

// TestFewerFailures: if the call fails fewer times in a later run, the failure that is wanted was not seen. Another one
// does not stand for it.
func TestFewerFailures(t *testing.T) {
	other := errors.New("another")
	for _, tt := range []struct {
		failures, nth int
		err, want     error
	}{
		{0, 0, nil, ErrGone}, {1, 0, nil, nil}, {2, 2, nil, ErrGone}, {3, 2, nil, nil},
		{1, 0, ErrEnded, nil}, {0, 0, ErrEnded, ErrEnded}, {1, 0, ErrInterrupted, ErrInterrupted}, {1, 1, other, other}, {0, 0, errBlocks, errBlocks},
	} {
		if got := outcome(tt.failures, tt.nth, tt.err); got != tt.want {
			t.Errorf("%d of %d, %v: %v, want %v", tt.failures, tt.nth, tt.err, got, tt.want)
		}
	}
}
