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
	on      map[cpu]bool   // those that buffers are filled of
	at      map[int]int    // which buffer a CPU has
	young   map[int]uint64 // CPUs that the kernel may not have switched on completely, and since when they are known
	failed  bool           // one of them could not be followed
	looked  uint64         // when it was looked last which CPUs are on: CLOCK_MONOTONIC ns
	online  func() ([]cpu, error)
	open    func(number int) (buffer, error)
	were    func() (on []int, all bool) // which CPUs were switched on since the last call
	uevents *uevents                    // nil: nothing tells that
	pending []Event                     // the first settled ones are in order of time, and nothing is to come before them
	settled int
	closed  bool
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
	w := newWatcher()
	if u, err := openUevents(); err == nil { // without, a CPU that is on for a moment is not known of
		w.uevents, w.were = u, u.on
	}
	cpus, err := w.online()
	if err == nil {
		_, err = w.follow(cpus, nil)
		clear(w.young) // they were on before
	}
	if err != nil {
		return nil, fmt.Errorf("follow mappings: %w", errors.Join(err, w.Close()))
	}
	w.done.Go(w.empty)
	return w, nil
}

func newWatcher() *Watcher {
	return &Watcher{on: map[cpu]bool{}, at: map[int]int{}, young: map[int]uint64{}, looked: Now(), online: onlineCPUs, open: openBuffer, stop: make(chan struct{}),
		were: func() ([]int, bool) { return nil, false }}
}

// follow opens buffers of those CPUs, which are on, that were not when it was called last, or have been off meanwhile, and reports
// whether there are such: the old buffers are filled no more. Those that are not known to be on completely are young.
func (w *Watcher) follow(cpus []cpu, complete []int) (fresh bool, err error) {
	maps.DeleteFunc(w.on, func(c cpu, _ bool) bool { return !slices.Contains(cpus, c) })
	maps.DeleteFunc(w.young, func(number int, _ uint64) bool {
		return !slices.ContainsFunc(cpus, func(c cpu) bool { return c.number == number })
	})
	var failed []error
	for _, c := range cpus {
		if w.on[c] {
			continue
		}
		b, err := w.open(c.number)
		if errors.Is(err, unix.ENODEV) { // it was switched off meanwhile, but was on
			fresh = true
			continue
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("perf_event_open: %w", err))
			continue
		}
		failed = append(failed, w.replace(c.number, b))
		w.on[c], fresh = true, true
		if !slices.Contains(complete, c.number) {
			w.young[c.number] = Now()
		}
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

// followAgain follows CPUs that are on again: all but one, when the machine has slept. What one does that cannot be followed is lost
// each time, and counts once.
func (w *Watcher) followAgain() {
	looked := Now()
	cpus, err := w.online()
	on, all := w.were()
	complete, again := w.complete(on, looked)
	fresh := false
	if err == nil {
		fresh, err = w.follow(cpus, complete)
	}
	// One that was on for a moment since the last look is off now, and was never followed.
	over := all || slices.ContainsFunc(on, func(number int) bool {
		return !slices.ContainsFunc(cpus, func(c cpu) bool { return c.number == number })
	})
	if fresh || over || len(w.young) > 0 || err != nil {
		lost := Event{Kind: Lost, Since: w.looked, Time: Now()}
		if !w.failed && (fresh && !again || over || err != nil) {
			lost.Count = 1
		}
		w.pending = append(w.pending, lost)
	}
	w.failed, w.looked = err != nil, looked
}

// complete returns the CPUs that are on completely by now: what is opened while the kernel switches one on may tell nothing. The kernel
// has said so of those in on. Where it does not, as when the machine wakes up, they are a second later. again says that some are to be
// followed anew.
func (w *Watcher) complete(on []int, looked uint64) (numbers []int, again bool) {
	numbers = slices.Clone(on)
	for number, since := range w.young {
		if slices.Contains(on, number) || looked-since > uint64(time.Second) {
			delete(w.young, number)
			maps.DeleteFunc(w.on, func(c cpu, _ bool) bool { return c.number == number })
			numbers = append(numbers, number)
			again = true
		}
	}
	return numbers, again
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
			lost.Since = min(lost.Since, e.Since)
			lost.Count += e.Count
		}
	}
	return lost
}

func byTime(a, b Event) int { return cmp.Compare(a.Time, b.Time) }

// collect takes what is in each buffer.
func (w *Watcher) collect() {
	for _, b := range w.buffers {
		w.pending = b.read(w.pending)
	}
}

// Take appends the events since the last call to dst, in order of time: all that happened before this call, and perhaps
// some that happened since. If CPUs have been switched on before a time, in CLOCK_MONOTONIC ns, the Lost event is among them. At time
// 0, or if a CPU cannot be followed, that may come a second later.
func (w *Watcher) Take(dst []Event, time uint64) []Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		if time > w.looked && !w.failed {
			w.followAgain()
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
	for _, r := range w.buffers {
		errs = append(errs, r.close())
	}
	w.buffers = nil
	if w.uevents != nil {
		errs = append(errs, w.uevents.close())
	}
	return errors.Join(errs...)
}
