// SPDX-License-Identifier: Apache-2.0

// Package mappings follows which code processes map, from the moment it is opened on: what
// they execute, load, fork and end. The kernel tells that in records of perf events, in
// order and with the time, so that it is known after a process has ended.
//
// [Open] follows all processes of the machine, and [Watcher.Take] returns what has happened
// since. [decode] reads the records. What was not seen is an event, too, which says from when to
// when: until its end nobody knows which program a process executes.
package mappings

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"
)

// A Watcher follows processes. It is safe for concurrent use.
type Watcher struct {
	mu       sync.Mutex
	cpus     []*followed // by number; nil: it was never on
	failed   bool        // one that is on could not be followed
	missed   bool        // it could not be asked which are on, so what was told of them is to be taken for missed
	looked   uint64      // when it was looked last which are on: CLOCK_MONOTONIC ns
	online   func() ([]cpu, error)
	open     func(number int) (buffer, error)
	switches teller
	deaf     error   // why nothing is told; nil: it is
	pending  []Event // the first settled ones are in order of time, and nothing is to come before them
	settled  int
	closed   bool
	stop     chan struct{}
	done     sync.WaitGroup
}

func openBuffer(number int) (buffer, error) { return openRing(number) }

// Open follows all processes from now on. A CPU that is switched on later is followed within a second, and a Lost event says that
// something may be missing.
func Open() (*Watcher, error) {
	w := newWatcher()
	if u, err := openUevents(); err != nil {
		w.deaf = err
	} else {
		w.switches = u
	}
	if err := w.begin(); err != nil {
		return nil, fmt.Errorf("follow mappings: %w", errors.Join(err, w.Close()))
	}
	w.done.Go(w.empty)
	return w, nil
}

func newWatcher() *Watcher {
	return &Watcher{looked: Now(), online: onlineCPUs, open: openBuffer, switches: silent{}, stop: make(chan struct{})}
}

// Deaf returns why nothing tells of a CPU that is on for less than a second, whose processes may get false names; nil if that is told.
func (w *Watcher) Deaf() error { return w.deaf }

// empty reads the buffers from time to time, so that they do not become full while nobody asks, and looks for CPUs that are on again.
func (w *Watcher) empty() {
	const interval, second = 50 * time.Millisecond, 20
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-w.stop:
			return
		case <-tick.C:
			w.mu.Lock()
			if n%second == 0 {
				_ = w.look() // which has an event of it
			}
			w.read()
			w.mu.Unlock()
		}
	}
}

// mostPending bounds what is kept for whoever asks.
const mostPending = 1 << 20

// read takes what is in the buffers. They are read one after another, so what a reading finds may have causes on a CPU
// whose buffer was read before. An event's causes are written before it is given its time. So those of the newest event of
// a first reading, and of all that is older, are there before a second reading begins: all this is settled. What the
// second reading finds that is newer is pending.
func (w *Watcher) read() {
	w.collect()
	if len(w.pending) == w.settled {
		return
	}
	last := slices.MaxFunc(w.pending[w.settled:], byTime)
	w.collect()
	if n := len(w.pending); n > mostPending {
		w.pending, w.settled = append(w.pending[:0], dropped(w.pending)), 0
	}
	fresh := w.pending[w.settled:]
	slices.SortStableFunc(fresh, byTime)
	w.settled += sort.Search(len(fresh), func(i int) bool { return fresh[i].Time > last.Time })
}

// dropped returns what stands for events that are not kept.
func dropped(events []Event) Event {
	lost := Event{Kind: Lost, Since: Now(), Count: uint64(len(events))}
	for _, e := range events {
		lost.Time = max(lost.Time, e.Time)
		if lost.Since = min(lost.Since, e.Time); e.Kind == Lost {
			lost.Count += e.Count
			if e.Since != 0 {
				lost.Since = min(lost.Since, e.Since)
			}
		}
	}
	return lost
}

func byTime(a, b Event) int { return cmp.Compare(a.Time, b.Time) }

// collect takes what is in each buffer.
func (w *Watcher) collect() {
	for _, c := range w.cpus {
		if c != nil && c.buffer != nil {
			w.pending = c.buffer.read(w.pending)
		}
	}
}

// Take appends the events since the last call to dst, in order of time: all that happened before this call, and perhaps
// some that happened since. If CPUs have been switched on before a time, in CLOCK_MONOTONIC ns, the Lost event is among them. At time
// 0 that may come a second later. As long as a CPU cannot be followed, all is in doubt up to that time.
func (w *Watcher) Take(dst []Event, time uint64) []Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		switch {
		case time > w.looked && w.failed: // to try again each time would take long
			now := Now()
			w.pending = append(w.pending, Event{Kind: Lost, Since: w.looked, Time: now})
			w.looked = now
		case time > w.looked:
			_ = w.look() // which has an event of it
		}
		w.read()
	}
	return w.take(dst)
}

// take appends the settled events to dst.
func (w *Watcher) take(dst []Event) []Event {
	dst = append(dst, w.pending[:w.settled]...)
	w.pending = slices.Delete(w.pending, 0, w.settled)
	w.settled = 0
	return dst
}

// Close ends following.
func (w *Watcher) Close() error {
	close(w.stop)
	w.done.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	var errs []error
	for _, c := range w.cpus {
		if c != nil && c.buffer != nil {
			errs = append(errs, c.buffer.close())
		}
	}
	w.cpus = nil
	return errors.Join(append(errs, w.switches.close())...)
}
