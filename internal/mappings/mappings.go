// SPDX-License-Identifier: Apache-2.0

// Package mappings follows which code processes map, from the moment it is opened on: what
// they execute, load, fork and end. The kernel tells that in records of perf events, in
// order and with the time, so that it is known after a process has ended.
//
// [Open] follows all processes of the machine, and [Watcher.Take] returns what has happened
// since. [decode] reads the records.
package mappings

import (
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
	pending []Event
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
			w.read()
			w.mu.Unlock()
		}
	}
}

// mostPending bounds what is kept for whoever asks.
const mostPending = 1 << 20

// read takes what is in the buffers.
func (w *Watcher) read() {
	before := len(w.pending)
	for _, r := range w.rings {
		w.pending = r.read(w.pending)
	}
	fresh := w.pending[before:]
	slices.SortStableFunc(fresh, func(a, b Event) int {
		switch {
		case a.Time < b.Time:
			return -1
		case a.Time > b.Time:
			return 1
		}
		return 0
	})
	if n := len(w.pending); n > mostPending {
		w.pending = append(w.pending[:0], Event{Kind: Lost, Count: uint64(n)})
	}
}

// Take appends all events since the last call to dst. They are in order of time, but events that
// arrive while it reads may be late.
func (w *Watcher) Take(dst []Event) []Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read()
	dst = append(dst, w.pending...)
	clear(w.pending)
	w.pending = w.pending[:0]
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
