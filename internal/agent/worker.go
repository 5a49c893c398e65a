// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

// A worker keeps one request running.
type worker struct {
	request Request
	options *Options
	times   *times
	stop    context.CancelFunc
	done    chan struct{} // closed when it runs no more

	mu     sync.Mutex
	state  State
	reason string
	counts // of processes that have ended
	now    Report
}

// counts are those of all processes of a request.
type counts struct {
	records, failures, restarts uint64
	lost                        map[string]uint64
}

// run begins the request again and again, until ctx ends.
func (w *worker) run(ctx context.Context) {
	defer close(w.done)
	t := w.times
	for wait := t.first; ; wait = min(2*wait, t.most) {
		w.become(Starting, "")
		begun := time.Now()
		err := w.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			w.become(Ended, "")
			w.options.Say(w.request.Name, "has ended")
			<-ctx.Done()
			return
		}
		if time.Since(begun) >= t.steady {
			wait = t.first
		}
		w.become(Failed, err.Error())
		var said *saidError
		if errors.As(err, &said) {
			err = said.err // the reason stands in the lines above
		}
		w.options.Say(w.request.Name, fmt.Sprintf("failed: %v; it is begun again in %v", err, wait))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		w.mu.Lock()
		w.restarts++
		w.mu.Unlock()
	}
}

// once runs a process until it ends. When ctx ends, it is stopped.
func (w *worker) once(ctx context.Context) error {
	p, err := w.options.Start(w.request)
	if err != nil {
		return err
	}
	defer w.settle()
	over := ctx.Done()
	var late <-chan time.Time
	hurried := false
	for {
		select {
		case r, more := <-p.Reports():
			if !more {
				return p.Err()
			}
			w.report(r)
		case <-over:
			over = nil
			p.Stop()
			late = time.After(w.times.grace)
		case <-late:
			if hurried {
				w.options.Say(w.request.Name, "does not end, and is killed")
				p.Kill()
				late = nil
				continue
			}
			hurried = true
			p.Stop()
			late = time.After(w.times.last)
		}
	}
}

func (w *worker) become(s State, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = s
	if s == Failed {
		w.failures++
		w.reason = reason
	}
}

// report takes what the process says. It replaces what the same process has said before.
func (w *worker) report(r Report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = r
	if r.Attached {
		w.state = Running
	}
}

// settle adds the counts of the process, which has ended, to those of the others.
func (w *worker) settle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.records += w.now.Records
	for cause, n := range w.now.Lost {
		w.lost[cause] += n
	}
	w.now = Report{}
}

func (w *worker) status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := Status{Name: w.request.Name, State: w.state, Records: w.records + w.now.Records, Lost: maps.Clone(w.lost), Failures: w.failures, Restarts: w.restarts}
	if w.state == "" {
		s.State = Starting // its goroutine has not run yet
	}
	if w.state == Failed {
		s.Reason = w.reason
	}
	for cause, n := range w.now.Lost {
		s.Lost[cause] += n
	}
	return s
}
