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
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Watcher follows processes. It is safe for concurrent use.
type Watcher struct {
	mu      sync.Mutex
	rings   []*ring
	pending []Event // the first settled ones are in order of time, and nothing is to come before them
	settled int
	stop    chan struct{}
	done    sync.WaitGroup
}

// Open follows all processes from now on. CPUs that are switched on later are not followed.
func Open() (*Watcher, error) {
	cpus, err := onlineCPUs()
	if err != nil {
		return nil, fmt.Errorf("follow mappings: %w", err)
	}
	w := &Watcher{stop: make(chan struct{})}
	for _, cpu := range cpus {
		r, err := openRing(cpu)
		if errors.Is(err, unix.ENODEV) { // it was switched off meanwhile
			continue
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("follow mappings: perf_event_open: %w", err), w.Close())
		}
		w.rings = append(w.rings, r)
	}
	w.done.Go(w.empty)
	return w, nil
}

// empty reads the buffers from time to time, so that they do not become full while nobody asks.
func (w *Watcher) empty() {
	const interval = 50 * time.Millisecond
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
			w.mu.Lock()
			w.read(now())
			w.mu.Unlock()
		}
	}
}

// mostPending bounds what is kept for whoever asks.
const mostPending = 1 << 20

// now returns the time of the clock that records have, but for the offset of a time namespace.
func now() uint64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // every kernel has this clock
	return uint64(t.Nano())
}

// read takes what is in the buffers. It began at a time that is given: the buffers are read one after
// another, so what is newer may have had causes on a CPU whose buffer was read before. What was pending already
// happened before this began, whatever the clock says: in a time namespace it is not that of the records.
func (w *Watcher) read(began uint64) {
	if n := len(w.pending); n > w.settled {
		began = max(began, w.pending[n-1].Time)
	}
	for _, r := range w.rings {
		w.pending = r.read(w.pending)
	}
	if n := len(w.pending); n > mostPending {
		w.pending, w.settled = append(w.pending[:0], Event{Kind: Lost, Count: uint64(n)}), 0
	}
	fresh := w.pending[w.settled:]
	slices.SortStableFunc(fresh, func(a, b Event) int { return cmp.Compare(a.Time, b.Time) })
	newer, _ := slices.BinarySearchFunc(fresh, began, func(e Event, t uint64) int {
		if e.Time <= t {
			return -1
		}
		return 1
	})
	w.settled += newer
}

// Take appends the events since the last call to dst, in order of time: all that happened before this call, and
// none that happened since. In a time namespace whose clock is behind, events are late by one reading.
func (w *Watcher) Take(dst []Event) []Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read(now())
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
	for _, r := range w.rings {
		errs = append(errs, r.close())
	}
	w.rings = nil
	return errors.Join(errs...)
}

// onlineCPUs returns the CPUs that events can be opened on.
func onlineCPUs() ([]int, error) {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if errors.Is(err, os.ErrNotExist) {
		cpus := make([]int, runtime.NumCPU())
		for i := range cpus {
			cpus[i] = i
		}
		return cpus, nil
	}
	if err != nil {
		return nil, err
	}
	return parseList(string(text))
}
