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
	"sort"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Watcher follows processes. It is safe for concurrent use.
type Watcher struct {
	mu      sync.Mutex
	buffers []buffer
	pending []Event // the first settled ones are in order of time, and nothing is to come before them
	settled int
	stop    chan struct{}
	done    sync.WaitGroup
}

// A buffer has what happens on one CPU.
type buffer interface {
	read(dst []Event) []Event
	close() error
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
		w.buffers = append(w.buffers, r)
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
