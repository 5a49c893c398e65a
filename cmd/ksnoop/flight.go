// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/internal/trace"
)

// trigger returns a function that finds the records of the triggers' calls: each call has one
// such record, the first. Nil if there are no triggers.
func trigger(p *plan.Plan, specs []*expr.Spec) func(raw []byte) bool {
	if len(specs) == 0 {
		return nil
	}
	waited := make([]bool, len(p.Probes))
	for i, probe := range p.Probes {
		waited[i] = slices.Contains(specs, probe.Spec)
	}
	return func(raw []byte) bool {
		var e event.Event
		err := event.Decode(p, raw, &e) // what cannot be decoded is an error elsewhere
		return err == nil && e.First() && waited[e.Probe.ID]
	}
}

// asked returns where SIGUSR1 arrives, if a flight recorder is wanted. From then on the signal
// does not end ksnoop: attaching takes a while, and who asks then gets what there is after it.
func (f *flightFlags) asked() chan os.Signal {
	if f.limit == 0 {
		return nil
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	return signals
}

// fly makes the recording a flight recorder if it is to be one, and writes it at each signal,
// until the function that it returns is called.
func (t *tracing) fly(run *trace.Run) func() {
	f := &t.flags.record.flight
	if f.limit == 0 {
		return func() {}
	}
	name := terminal.Name(t.flags.record.file)
	t.recording.Fly(f.limit, record.Takeoff{Trigger: trigger(t.plan, t.request.triggers), Count: t.flags.count, Written: func(records, overwritten uint64) {
		before := ""
		if overwritten > 0 {
			before = plural.Text(overwritten, fmt.Sprintf("; the {one|%d} before them {was|were} overwritten", overwritten))
		}
		fmt.Fprintf(t.stderr, "ksnoop: %s written to %s%s\n", plural.Of(records, "record{s}"), name, before)
	}})
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-t.asked:
				t.drain(run, done)
				t.recording.Write()
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(t.asked)
		close(done)
	}
}

// drain waits until the records that were sent by now are taken from the kernel, which are read some time later.
func (t *tracing) drain(run *trace.Run, over <-chan struct{}) {
	const step, late = 5 * time.Millisecond, time.Second
	sent := uint64(run.Pending())
	sent += run.Taken()
	for end := time.Now().Add(t.settings.Latency + late); run.Taken() < sent && time.Now().Before(end); {
		select {
		case <-over:
			return
		case <-time.After(step):
		}
	}
}

// drained is after how many records a recording ends that prints nothing.
func (f *traceFlags) drained() uint64 {
	if f.record.flight.limit > 0 {
		return 0 // -c counts triggers
	}
	return f.count
}
