// SPDX-License-Identifier: Apache-2.0

package mappings

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// A buffer has what happens on one CPU.
type buffer interface {
	read(dst []Event) []Event
	close() error
}

// A followed is a CPU that is followed while it is on.
type followed struct {
	buffer buffer
	is     cpu    // what it is of
	on     bool   // it is followed, as far as is known
	since  uint64 // when the buffer was opened
	looked uint64 // when the CPU was seen to be on
	// complete says that the kernel had switched it on completely before: what is opened while it does so may tell nothing.
	complete bool
	young    bool // it is not known to be complete, and is to be followed anew when it is
	counted  bool // that it came on is in a Count already; it is still young, or could not be followed
}

// A switched says that a CPU was switched on completely, or off.
type switched struct {
	number int
	on     bool
}

// A teller tells what was switched since it was asked last, in order, and whether it has missed some.
type teller interface {
	read() (all []switched, missed bool)
	close() error
}

// silent tells nothing.
type silent struct{}

func (silent) read() ([]switched, bool) { return nil, false }
func (silent) close() error             { return nil }

// How long the kernel takes at most to switch a CPU on.
const (
	mostYoung     = time.Second // where it does not tell that it has, as when the machine wakes up
	mostSwitching = 10 * time.Second
)

// A look is one at which CPUs are on.
type look struct {
	began  uint64
	told   map[int]bool // which were switched before, and whether they were on at last
	came   map[int]bool // those of them that were switched on
	missed bool         // others may have been switched
	gap    bool         // something is lost
	lost   Event
}

// look follows the CPUs that are on by now. What they did since the last look is lost, and each one that came on meanwhile counts. What
// one does that cannot be followed is lost each time, and counts once.
func (w *Watcher) look() error {
	l := look{began: Now(), missed: w.missed, lost: Event{Kind: Lost, Since: w.looked}}
	l.tell(w.switches) // first: of one that is switched from now on, the next look is told
	cpus, err := w.online()
	w.missed = err != nil
	if err != nil && !w.failed {
		l.lost.Count++
	}
	failed := []error{err}
	for _, is := range cpus {
		failed = append(failed, w.follow(is, &l))
	}
	if err == nil {
		w.leave(&l)
	}
	err = errors.Join(failed...)
	w.failed, w.looked = err != nil, l.began
	if l.gap || w.failed {
		l.lost.Time = Now()
		w.pending = append(w.pending, l.lost)
	}
	return err
}

// begin looks for the first time. The CPUs have been on before, and nothing is lost. If one is just being switched on, that will be told;
// where it is not, all are followed anew when it must be on, and what was before may be lost.
func (w *Watcher) begin() error {
	err := w.look()
	w.pending = nil
	for _, c := range w.cpus {
		if c != nil {
			c.young, c.counted = c.young && w.deaf != nil, false
		}
	}
	return err
}

// tell asks what was switched.
func (l *look) tell(switches teller) {
	all, missed := switches.read()
	if missed {
		l.lost.Count++
	}
	l.missed = l.missed || missed
	l.gap = l.gap || l.missed
	if len(all) == 0 {
		return
	}
	l.told, l.came = map[int]bool{}, map[int]bool{}
	for _, s := range all {
		l.told[s.number] = s.on
		if s.on {
			l.came[s.number] = true
		}
	}
}

// follow opens the buffer of a CPU that is on, unless that was done and goes on.
func (w *Watcher) follow(is cpu, l *look) error {
	c := w.cpu(is.number)
	c.looked = l.began
	complete, told := l.told[is.number]
	goesOn := c.on && c.is == is && !told && !l.missed
	grown := c.young && l.began-c.since > uint64(mostYoung)
	if goesOn && !grown {
		l.gap = l.gap || c.young && c.counted
		c.complete = c.complete || l.began-c.since > uint64(mostSwitching)
		return nil
	}
	l.gap = true
	if c.on && !c.complete { // it may have told nothing so far
		l.lost.Since = min(l.lost.Since, c.since)
	}
	if !goesOn && !c.counted && !l.missed {
		l.lost.Count++
	}
	b, err := w.open(is.number)
	c.on = err == nil
	switch {
	case errors.Is(err, unix.ENODEV): // it was switched off meanwhile, but was on
		c.young, c.counted = false, false
		return nil
	case err != nil:
		if goesOn && !c.counted {
			l.lost.Count++
		}
		c.young, c.counted = false, true
		return fmt.Errorf("perf_event_open: %w", err)
	}
	if old := c.buffer; old != nil {
		w.pending = old.read(w.pending)
		err = old.close()
	}
	c.buffer, c.is, c.since, c.complete = b, is, l.began, complete
	c.young = !complete && !grown && (!l.missed || w.deaf != nil)
	c.counted = c.young
	return err
}

// leave takes note of the CPUs that were not found on. If one of them came on before, something is lost.
func (w *Watcher) leave(l *look) {
	for number := range l.came {
		if c := w.cpu(number); c.looked != l.began {
			l.gap = true
			if !c.counted {
				l.lost.Count++
			}
		}
	}
	for _, c := range w.cpus {
		if c != nil && c.looked != l.began {
			c.on, c.young, c.counted = false, false, false
		}
	}
}

// cpu returns the CPU of a number.
func (w *Watcher) cpu(number int) *followed {
	for number >= len(w.cpus) {
		w.cpus = append(w.cpus, nil)
	}
	if w.cpus[number] == nil {
		w.cpus[number] = &followed{}
	}
	return w.cpus[number]
}
