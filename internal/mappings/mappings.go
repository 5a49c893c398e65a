// SPDX-License-Identifier: Apache-2.0

// Package mappings follows which code processes map, from the moment it is opened on: what
// they execute, load, fork and end. The kernel tells that in records of perf events, in
// order and with the time, so that it is known after a process has ended.
//
// [Open] follows all processes of the machine, and [Watcher.Take] returns what has happened
// since. [decode] reads the records.
package mappings

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Watcher follows processes. It is safe for concurrent use.
type Watcher struct {
	mu      sync.Mutex
	buffers []buffer
	on      map[cpu]bool // those that buffers are filled of
	at      map[int]int  // which buffer a CPU has
	failed  bool         // one of them could not be followed
	pending []Event      // the first settled ones are in order of time, and nothing is to come before them
	settled int
	stop    chan struct{}
	done    sync.WaitGroup
}

// A buffer has what happens on one CPU.
type buffer interface {
	read(dst []Event) []Event
	close() error
}

func openBuffer(number int) (buffer, error) { return openRing(number) }

// Open follows all processes from now on. A CPU that is switched on later is followed within a second, and a Lost event says that
// something may be missing.
func Open() (*Watcher, error) {
	w := &Watcher{on: map[cpu]bool{}, at: map[int]int{}, stop: make(chan struct{})}
	cpus, err := onlineCPUs()
	if err == nil {
		_, err = w.follow(cpus, openBuffer)
	}
	if err != nil {
		return nil, fmt.Errorf("follow mappings: %w", errors.Join(err, w.Close()))
	}
	w.done.Go(w.empty)
	return w, nil
}

// follow opens buffers of those CPUs, which are on, that were not when it was called last, or have been off meanwhile, and reports
// whether there are such: the old buffers are filled no more.
func (w *Watcher) follow(cpus []cpu, open func(number int) (buffer, error)) (fresh bool, err error) {
	maps.DeleteFunc(w.on, func(c cpu, _ bool) bool { return !slices.Contains(cpus, c) })
	var failed []error
	for _, c := range cpus {
		if w.on[c] {
			continue
		}
		b, err := open(c.number)
		if errors.Is(err, unix.ENODEV) { // it was switched off meanwhile
			continue
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("perf_event_open: %w", err))
			continue
		}
		failed = append(failed, w.replace(c.number, b))
		w.on[c], fresh = true, true
	}
	return fresh, errors.Join(failed...)
}

// replace takes a buffer in place of the one that the CPU had.
func (w *Watcher) replace(number int, b buffer) error {
	i, ok := w.at[number]
	if !ok {
		w.at[number] = len(w.buffers)
		w.buffers = append(w.buffers, b)
		return nil
	}
	old := w.buffers[i]
	w.buffers[i] = b
	w.pending = old.read(w.pending)
	return old.close()
}

// followAgain follows CPUs that are on again: all but one, when the machine has slept. One that cannot be followed is tried
// again each second, and counts once.
func (w *Watcher) followAgain() {
	cpus, err := onlineCPUs()
	if err != nil {
		return
	}
	fresh, err := w.follow(cpus, openBuffer)
	if fresh || err != nil && !w.failed {
		w.pending = append(w.pending, Event{Kind: Lost, Count: 1})
	}
	w.failed = err != nil
}

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
				w.followAgain()
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
		w.pending, w.settled = append(w.pending[:0], Event{Kind: Lost, Count: uint64(n)}), 0
	}
	fresh := w.pending[w.settled:]
	slices.SortStableFunc(fresh, byTime)
	w.settled += sort.Search(len(fresh), func(i int) bool { return fresh[i].Time > last.Time })
}

func byTime(a, b Event) int { return cmp.Compare(a.Time, b.Time) }

// collect takes what is in each buffer.
func (w *Watcher) collect() {
	for _, b := range w.buffers {
		w.pending = b.read(w.pending)
	}
}

// Take appends the events since the last call to dst, in order of time: all that happened before this call, and perhaps
// some that happened since.
func (w *Watcher) Take(dst []Event) []Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read()
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
	var errs []error
	for _, r := range w.buffers {
		errs = append(errs, r.close())
	}
	w.buffers = nil
	return errors.Join(errs...)
}
