// SPDX-License-Identifier: Apache-2.0

package mappings

import (
	"errors"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A bench is a Watcher of a machine that is told which CPUs are on.
type bench struct {
	*Watcher
	cpus   []cpu
	opened []int
	fails  map[int]error // opening the buffers of CPUs
	failed error         // asking which are on
	all    []switched    // what is told
	missed bool
}

func newBench(numbers ...int) *bench {
	b := &bench{Watcher: newWatcher(), fails: map[int]error{}}
	b.set(numbers...)
	b.online = func() ([]cpu, error) { return b.cpus, b.failed }
	b.open = func(number int) (buffer, error) {
		if err := b.fails[number]; err != nil {
			return nil, err
		}
		b.opened = append(b.opened, number)
		return &closedRing{memoryRing()}, nil
	}
	b.switches = b
	return b
}

func (b *bench) set(numbers ...int) {
	b.cpus = nil
	for _, n := range numbers {
		b.cpus = append(b.cpus, cpu{n, 1})
	}
}

// read implements teller.
func (b *bench) read() (all []switched, missed bool) {
	all, missed = b.all, b.missed
	b.all, b.missed = nil, false
	return all, missed
}

func (b *bench) close() error { return nil }

// ages lets time pass for CPUs.
func (b *bench) ages(d time.Duration) {
	for _, c := range b.Watcher.cpus {
		if c != nil {
			c.since -= min(c.since, uint64(d))
		}
	}
}

// TestLook: buffers are opened of CPUs that are new, were off, or may have been followed too early. What is lost begins at the last
// look, or when the buffer was opened that may have told nothing.
func TestLook(t *testing.T) {
	on := func(number int) switched { return switched{number, true} }
	off := func(number int) switched { return switched{number, false} }
	type step struct {
		name    string
		numbers []int
		told    []switched
		does    func(b *bench)
		opened  []int
		lost    bool
		count   uint64
		early   bool // lost since before the last look
	}
	for name, steps := range map[string][]step{
		"told in time": {
			{name: "as before", numbers: []int{0, 1}},
			{name: "off", numbers: []int{0}, told: []switched{off(1)}},
			{name: "on", numbers: []int{0, 1}, told: []switched{on(1)}, opened: []int{1}, lost: true, count: 1},
			{name: "as before", numbers: []int{0, 1}},
			{name: "off and on", numbers: []int{0, 1}, told: []switched{off(1), on(1)}, opened: []int{1}, lost: true, count: 1},
			{name: "off and on, which sysfs tells", numbers: []int{0, 1}, does: func(b *bench) { b.cpus[1].since = 2 }, opened: []int{1}, lost: true, count: 1},
		},
		"on for a moment": {
			{name: "a new one", numbers: []int{0, 1}, told: []switched{on(2), off(2)}, lost: true, count: 1},
			{name: "as before", numbers: []int{0, 1}},
			{name: "one that was on", numbers: []int{0}, told: []switched{off(1), on(1), off(1)}, lost: true, count: 1},
			{name: "it is off", numbers: []int{0}},
			{name: "two", numbers: []int{0}, told: []switched{on(1), off(1), on(2), off(2)}, lost: true, count: 2},
		},
		"followed before it is on completely": {
			{name: "seen", numbers: []int{0, 1, 2}, opened: []int{2}, lost: true, count: 1},
			{name: "not yet", numbers: []int{0, 1, 2}, lost: true},
			{name: "told", numbers: []int{0, 1, 2}, told: []switched{on(2)}, opened: []int{2}, lost: true, early: true},
			{name: "followed", numbers: []int{0, 1, 2}},
		},
		"nothing is told": {
			{name: "seen", numbers: []int{0, 1, 2}, opened: []int{2}, lost: true, count: 1},
			{name: "a second later", numbers: []int{0, 1, 2}, does: func(b *bench) { b.ages(mostYoung) }, opened: []int{2}, lost: true, early: true},
			{name: "followed", numbers: []int{0, 1, 2}},
			{name: "told much later", numbers: []int{0, 1, 2}, told: []switched{on(2)}, opened: []int{2}, lost: true, count: 1, early: true},
		},
		"switched on while it was opened at first": {
			{name: "as before", numbers: []int{0, 1}},
			{name: "told", numbers: []int{0, 1}, told: []switched{on(1)}, opened: []int{1}, lost: true, count: 1, early: true},
			{name: "followed", numbers: []int{0, 1}},
		},
		"on for long": {
			{name: "as before", numbers: []int{0, 1}, does: func(b *bench) { b.ages(mostSwitching) }},
			{name: "off and on", numbers: []int{0, 1}, told: []switched{off(1), on(1)}, opened: []int{1}, lost: true, count: 1},
		},
		"coming on again while it is opened": {
			{name: "off", numbers: []int{0}, told: []switched{off(1)}},
			{name: "on", numbers: []int{0, 1}, told: []switched{on(1)}, opened: []int{1}, lost: true, count: 1}, // but off and being switched on by now
			{name: "off was told", numbers: []int{0, 1}, told: []switched{off(1)}, opened: []int{1}, lost: true, count: 1},
			{name: "on is told", numbers: []int{0, 1}, told: []switched{on(1)}, opened: []int{1}, lost: true},
			{name: "followed", numbers: []int{0, 1}},
		},
		"switched off while it is opened": {
			{name: "on", numbers: []int{0, 1, 2}, told: []switched{on(2)}, does: func(b *bench) { b.fails[2] = unix.ENODEV }, lost: true, count: 1},
			{name: "off", numbers: []int{0, 1}, told: []switched{off(2)}, does: func(b *bench) { clear(b.fails) }},
		},
		"some of what is told is missed": {
			{name: "missed", numbers: []int{0, 1}, does: func(b *bench) { b.missed = true }, opened: []int{0, 1}, lost: true, count: 1},
			{name: "as before", numbers: []int{0, 1}},
		},
		"it cannot be asked which are on": {
			{name: "it cannot", told: []switched{on(1)}, does: func(b *bench) { b.failed = unix.EMFILE }, lost: true, count: 1},
			{name: "again", does: func(b *bench) { b.failed = unix.EMFILE }, lost: true}, // which counts once
			{name: "it can", numbers: []int{0, 1}, opened: []int{0, 1}, lost: true, early: true},
			{name: "as before", numbers: []int{0, 1}},
		},
		"one cannot be followed": {
			{name: "it cannot", numbers: []int{0, 1, 2}, told: []switched{on(2)}, does: func(b *bench) { b.fails[2] = unix.EMFILE }, lost: true, count: 1},
			{name: "again", numbers: []int{0, 1, 2}, lost: true},
			{name: "another one is new", numbers: []int{0, 1, 2, 3}, told: []switched{on(3)}, opened: []int{3}, lost: true, count: 1},
			{name: "it can", numbers: []int{0, 1, 2, 3}, does: func(b *bench) { clear(b.fails) }, opened: []int{2}, lost: true},
			{name: "not yet", numbers: []int{0, 1, 2, 3}, lost: true},
			{name: "told", numbers: []int{0, 1, 2, 3}, told: []switched{on(2)}, opened: []int{2}, lost: true, early: true},
			{name: "followed", numbers: []int{0, 1, 2, 3}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(0, 1)
			if err := b.begin(); err != nil || !slices.Equal(b.opened, []int{0, 1}) || len(b.pending) != 0 {
				t.Fatalf("at first: %v; opened %v, %+v", err, b.opened, b.pending)
			}
			for _, s := range steps {
				b.set(s.numbers...)
				b.all, b.opened, b.pending, b.failed = s.told, nil, nil, nil
				if s.does != nil {
					s.does(b)
				}
				looked := b.looked
				failed := b.look() != nil
				var lost Event
				if len(b.pending) > 0 {
					lost = b.pending[0]
				}
				if !slices.Equal(b.opened, s.opened) || (len(b.pending) == 1) != s.lost || lost.Count != s.count {
					t.Errorf("%s: opened %v, want %v; lost %+v, want %v and %d", s.name, b.opened, s.opened, b.pending, s.lost, s.count)
				}
				if s.lost && (lost.Kind != Lost || lost.Since > looked || (lost.Since < looked) != s.early || lost.Time < b.looked) {
					t.Errorf("%s: lost %+v; the looks were at %d and %d", s.name, lost, looked, b.looked)
				}
				if want := b.failed != nil || b.fails[2] == unix.EMFILE; failed != want || b.Watcher.failed != want {
					t.Errorf("%s: failed: %v, want %v", s.name, failed, want)
				}
			}
		})
	}
}

// TestLookDeaf: where it is not told which CPUs are switched on, one of those that are found at first may have been followed too early.
func TestLookDeaf(t *testing.T) {
	b := newBench(0, 1)
	b.deaf = unix.EACCES
	if err := b.begin(); err != nil || len(b.pending) > 0 {
		t.Fatalf("%v, %+v", err, b.pending)
	}
	for _, step := range []struct {
		name   string
		cpus   []int
		after  time.Duration
		opened []int
		lost   bool
		count  uint64
	}{
		{name: "as before", cpus: []int{0, 1}},
		{name: "a second later", cpus: []int{0, 1}, after: mostYoung, opened: []int{0, 1}, lost: true},
		{name: "followed", cpus: []int{0, 1}},
		{name: "one came on", cpus: []int{0, 1, 2}, opened: []int{2}, lost: true, count: 1},
		{name: "it may tell nothing", cpus: []int{0, 1, 2}, lost: true},
		{name: "a second later again", cpus: []int{0, 1, 2}, after: mostYoung, opened: []int{2}, lost: true},
		{name: "followed again", cpus: []int{0, 1, 2}},
	} {
		b.set(step.cpus...)
		b.opened, b.pending = nil, nil
		b.ages(step.after)
		if err := b.look(); err != nil {
			t.Fatal(err)
		}
		lost := append(b.pending, Event{})[0]
		if !slices.Equal(b.opened, step.opened) || (lost.Kind == Lost) != step.lost || lost.Count != step.count {
			t.Errorf("%s: opened %v, want %v; lost %+v, want %v and %d", step.name, b.opened, step.opened, lost, step.lost, step.count)
		}
	}
}

// TestLookAnewFails: where a CPU is to be followed anew and cannot be, that counts once.
func TestLookAnewFails(t *testing.T) {
	b := newBench(0)
	b.deaf = unix.EACCES
	if err := b.begin(); err != nil {
		t.Fatal(err)
	}
	b.ages(mostYoung)
	b.fails[0] = unix.EMFILE
	for n, want := range []uint64{1, 0} {
		b.pending = nil
		if err := b.look(); !errors.Is(err, unix.EMFILE) {
			t.Fatal(err)
		}
		if lost := append(b.pending, Event{})[0]; lost.Kind != Lost || lost.Count != want {
			t.Errorf("look %d: lost %+v, want %d", n, lost, want)
		}
	}
}

// TestReplaced: what is in the buffer of a CPU that was off is not lost.
func TestReplaced(t *testing.T) {
	b := newBench(0, 1)
	if err := b.begin(); err != nil {
		t.Fatal(err)
	}
	b.Watcher.cpus[1].buffer.(*closedRing).write(recordAt(7, unix.PERF_RECORD_FORK, 0, make([]byte, 24)))
	b.cpus[1].since = 2
	if err := b.look(); err != nil || len(b.pending) != 2 || b.pending[0].Time != 7 {
		t.Errorf("%v: %+v", err, b.pending)
	}
}

// TestTake: it is looked before it is told what has happened up to a later time. While a CPU cannot be followed, that is in doubt.
func TestTake(t *testing.T) {
	b := newBench(0)
	if err := b.begin(); err != nil {
		t.Fatal(err)
	}
	looks := 0
	b.online = func() ([]cpu, error) { looks++; return b.cpus, nil }
	take := func(time uint64) []Event { return b.Take(nil, time) }
	if got := take(0); looks != 0 || got != nil {
		t.Errorf("at no time: %d looks, %v", looks, got)
	}
	if got := take(b.looked); looks != 0 || got != nil {
		t.Errorf("at the time of the last look: %d looks, %v", looks, got)
	}
	if got := take(Now()); looks != 1 || got != nil {
		t.Errorf("later: %d looks, %v", looks, got)
	}
	b.set(0, 2)
	b.fails[2] = unix.EMFILE
	if got := take(Now()); looks != 2 || len(got) != 1 || got[0].Count != 1 {
		t.Errorf("one cannot be followed: %d looks, %+v", looks, got)
	}
	for range 2 {
		before, at := b.looked, Now()
		if got := take(at); looks != 2 || len(got) != 1 || got[0].Since != before || got[0].Time < at || got[0].Count != 0 {
			t.Errorf("it still cannot be followed: %d looks, %+v; known was what there was at %d", looks, got, before)
		}
	}
	if got := take(b.looked); got != nil {
		t.Errorf("at a time up to which all is in doubt: %+v", got)
	}
}
