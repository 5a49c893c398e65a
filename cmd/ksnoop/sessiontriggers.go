// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/internal/trace"
)

// A triggerWatch waits for the calls of --trigger beside a run of sessions. They are traced by
// themselves, so they may be calls of any function, and are no part of the sessions. A call
// inside a session comes before the session's record: what is kept is written when the session
// of the call's thread has ended, or after a while.
type triggerWatch struct {
	run  *trace.Run
	fire func(n int, first triggered, over bool)

	cancel  context.CancelFunc // ends watching; nil before it begins
	readers sync.WaitGroup     // goroutines that read the run's records, and call fire
	err     error              // why no more calls came, if that is an error

	mu      sync.Mutex // guards the rest
	pending map[triggerThread]*pendingTriggers
}

// A triggerThread makes calls, and so do the interrupts that it is interrupted by. All idle
// threads have ID 0; the CPU tells them apart.
type triggerThread struct {
	tid  uint32
	idle uint16 // CPU, of an idle thread only
}

func triggerThreadOf(tid uint32, cpu uint16) triggerThread {
	if tid == 0 {
		return triggerThread{idle: cpu}
	}
	return triggerThread{tid: tid}
}

// A triggered is a call that was waited for.
type triggered struct {
	name, comm string
	pid        uint32
	time       uint64
}

// pendingTriggers are calls of one thread whose session may not have ended.
type pendingTriggers struct {
	n     int
	first triggered
	last  uint64 // time of the last one
	until time.Time
}

const (
	// sessionPatience is how long a trigger waits for the session that it may be in.
	sessionPatience = time.Second
	// triggerRing is the size of the buffer for calls that are waited for.
	triggerRing = 256 << 10
)

// resolveTriggers resolves the SPECs that sessions are triggered by.
func (f *traceFlags) resolveTriggers(view *kernel.View, r *request) error {
	if len(f.record.flight.triggers) == 0 {
		return nil
	}
	var err error
	request := trace.Request{Options: r.Options, Method: r.Method}
	request.Options.Owner, request.Options.Redact = 0, nil // nothing of these calls is kept
	if request.Specs, err = trace.ParseSpecs(f.record.flight.triggers); err != nil {
		return err
	}
	made, err := trace.Resolve(view, request)
	if err != nil {
		return err
	}
	if len(summary.Of(made.Plan).List) > 0 {
		return usagef("--trigger waits for calls: it takes no SPEC that adds them up")
	}
	r.waited, r.waiting = request, &made
	return nil
}

// attachTriggers attaches what sessions are triggered by; nil if nothing is.
func (t *tracing) attachTriggers(ctx context.Context) (*triggerWatch, error) {
	made := t.request.waiting
	if made == nil {
		return nil, nil
	}
	chosen, err := made.Choose(t.kernel, t.request.waited)
	if err != nil {
		return nil, err
	}
	s := t.settings
	s.Report, s.Tail, s.RingSize = bpf.SessionSettings{}, bpf.Tail{}, triggerRing
	run, err := trace.Attach(ctx, t.kernel, chosen.Plan, s)
	if err != nil {
		return nil, fmt.Errorf("--trigger: %w", err)
	}
	sayAttached(t.log, run.Plan, run.Failed)
	return &triggerWatch{run: run, pending: map[triggerThread]*pendingTriggers{}}, nil
}

// runs are the run that calls come from, if there is one.
func (w *triggerWatch) runs() []*trace.Run {
	if w == nil {
		return nil
	}
	return []*trace.Run{w.run}
}

// start switches the programs on.
func (w *triggerWatch) start(ctx context.Context, adopt func(add func(pid int) error) error) error {
	if w == nil {
		return nil
	}
	return w.run.Start(ctx, adopt)
}

// watch reads calls until ctx ends. fire is called for one or more of them, by any goroutine; over
// says that the run is over.
func (w *triggerWatch) watch(ctx context.Context, fire func(n int, first triggered, over bool)) {
	if w == nil {
		return
	}
	ctx, w.cancel = context.WithCancel(ctx)
	w.fire = fire
	records := w.run.Records(ctx, trace.Limits{})
	w.read(event.All(w.run.Plan, records))
}

// read has calls read, and fire called, in the background, until there are no more calls.
func (w *triggerWatch) read(calls iter.Seq2[*event.Event, error]) {
	over := make(chan struct{})
	w.readers.Go(func() {
		defer close(over)
		for e, err := range calls {
			switch {
			case err != nil:
				w.err = err
			case e.First():
				w.met(e)
			}
		}
	})
	w.readers.Go(func() {
		tick := time.NewTicker(sessionPatience / 10)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case now := <-tick.C:
				w.take(false, func(_ triggerThread, p *pendingTriggers) bool { return now.After(p.until) })
			}
		}
	})
}

// met notes a call that was waited for.
func (w *triggerWatch) met(e *event.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	thread := triggerThreadOf(e.TID, e.CPU)
	p := w.pending[thread]
	if p == nil {
		comm, _, _ := bytes.Cut(e.Comm[:], []byte{0})
		p = &pendingTriggers{first: triggered{e.Probe.Name, string(comm), e.PID, e.Time}, until: time.Now().Add(sessionPatience)}
		w.pending[thread] = p
	}
	p.n++
	p.last = e.Time
}

// passes passes records of sessions on, and notes which sessions have ended.
func (w *triggerWatch) passes(records iter.Seq2[[]byte, error]) iter.Seq2[[]byte, error] {
	if w == nil {
		return records
	}
	return func(yield func([]byte, error) bool) {
		for raw, err := range records {
			if err == nil {
				w.ended(raw)
			}
			if !yield(raw, err) {
				return
			}
		}
	}
}

// ended notes the end of a session that was kept. That of an interrupt has the thread that was
// interrupted. It is the session of calls that were made while it was open, since the thread does
// nothing then; for calls before it, the thread's own is waited for.
func (w *triggerWatch) ended(raw []byte) {
	var h bpf.SessionHeader
	if bpf.IsLost(raw) {
		return
	}
	if _, err := bpf.DecodeSession(raw, &h); err != nil {
		return // the view says it
	}
	switch h.Kind {
	case bpf.SessionEnd, bpf.SessionExit, bpf.SessionExec, bpf.SessionDrop:
		thread := triggerThreadOf(h.TID, h.CPU)
		w.take(false, func(of triggerThread, p *pendingTriggers) bool {
			return of == thread && h.End >= p.last && (!h.Interrupt || h.Start <= p.first.time)
		})
	}
}

// take fires for the pending calls that are ready.
func (w *triggerWatch) take(over bool, ready func(of triggerThread, p *pendingTriggers) bool) {
	var all []*pendingTriggers
	w.mu.Lock()
	for of, p := range w.pending {
		if ready(of, p) {
			all = append(all, p)
			delete(w.pending, of)
		}
	}
	w.mu.Unlock()
	for _, p := range all {
		w.fire(p.n, p.first, over)
	}
}

// watchTriggers has what is kept written when a trigger is met, and calls stop after as many as
// -c says.
func (t *tracing) watchTriggers(ctx context.Context, w *triggerWatch, stop func()) {
	var mu sync.Mutex
	var met uint64
	w.watch(ctx, func(n int, first triggered, over bool) {
		mu.Lock()
		defer mu.Unlock()
		more := ""
		if n > 1 {
			more = ", and " + plural.Of(n-1, "more call{s} of this thread")
		}
		fmt.Fprintf(t.stderr, "ksnoop: triggered by %s of %s, PID %d, at %d.%06d%s\n", first.name, terminal.Name(first.comm), first.pid, first.time/1e9, first.time%1e9/1e3, more)
		if over {
			return // all is written now
		}
		if met += uint64(n); t.flags.count > 0 && met >= t.flags.count {
			stop()
			return
		}
		t.recording.Write()
	})
}

// end waits for the last calls, and returns what was lost of them as an error.
func (w *triggerWatch) end() error {
	if w == nil {
		return nil
	}
	w.readers.Wait() // no record is read any more
	losses, err := w.run.End()
	w.take(true, func(triggerThread, *pendingTriggers) bool { return true })
	var lost []error
	for _, cause := range append(bpf.Marked[:], bpf.SwitchedOff) {
		if n := losses.Lost[cause]; n > 0 {
			lost = append(lost, fmt.Errorf("--trigger may have missed a call: %s", output.LossCount(cause, n)))
		}
	}
	return errors.Join(append(lost, err, w.err)...)
}

// close ends watching, and detaches what sessions are triggered by.
func (w *triggerWatch) close() error {
	if w == nil {
		return nil
	}
	w.stop()
	return w.run.Close()
}

// stop ends watching: nothing reads records, and nothing is fired, when it returns.
func (w *triggerWatch) stop() {
	if w.cancel != nil {
		w.cancel()
	}
	w.readers.Wait()
}
