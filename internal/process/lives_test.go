// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/ksnoop/ksnoop/internal/mappings"
)

// mappedAt is an event of process 7, which maps a page of a file.
func mappedAt(time, page uint64, file string) *mappings.Event {
	return &mappings.Event{Kind: mappings.Mapped, PID: 7, TID: 7, Time: time, Start: page << 12, End: (page + 1) << 12, Path: file}
}

// TestLateMapping: what a process is known late to have mapped before a fork changes nothing of what its
// child has.
func TestLateMapping(t *testing.T) {
	const most = 20
	for count := range uint64(most) { // arrays have room for more after some of these
		l := newLives(fstest.MapFS{}, &told{})
		l.apply(&mappings.Event{Kind: mappings.Execed, PID: 7, TID: 7, Time: 50})
		for page := range count {
			l.apply(mappedAt(100+10*page, page, fmt.Sprint("/", page)))
		}
		l.apply(&mappings.Event{Kind: mappings.Forked, PID: 8, TID: 8, Parent: 7, Time: 1000})
		l.apply(mappedAt(95, most, "/late"))
		child := l.at(8, 1000)
		for page := range count {
			if m, _ := child.find(page<<12, 1000); m == nil || m.file.path != fmt.Sprint("/", page) {
				t.Errorf("%d mappings: the child has %v at page %d", count, m, page)
			}
		}
		if m, _ := l.at(7, 1000).find(most<<12, 1000); m == nil || m.file.path != "/late" {
			t.Errorf("%d mappings: %v is what was late", count, m)
		}
	}
}

// TestLateFork: a fork that is told late gives a process what its parent had mapped then, and up to its exec only.
func TestLateFork(t *testing.T) {
	l := newLives(fstest.MapFS{}, &told{})
	keeper := &ends{}
	l.keeper = keeper
	l.apply(&mappings.Event{Kind: mappings.Execed, PID: 7, TID: 7, Time: 1})
	l.apply(mappedAt(5, 1, "/bin/sh"))
	l.apply(mappedAt(15, 2, "/lib/later"))
	l.apply(&mappings.Event{Kind: mappings.Execed, PID: 8, TID: 8, Time: 20})
	own := mappedAt(21, 3, "/bin/ls")
	own.PID, own.TID = 8, 8
	l.apply(own)
	l.apply(&mappings.Event{Kind: mappings.Forked, PID: 8, TID: 8, Parent: 7, Time: 10})
	for _, c := range []struct {
		time, page uint64
		want       string
	}{{10, 1, "/bin/sh"}, {19, 1, "/bin/sh"}, {19, 2, ""}, {21, 1, ""}, {21, 3, "/bin/ls"}, {99, 1, ""}, {99, 3, "/bin/ls"}} {
		got := ""
		if m, _ := l.at(8, c.time).find(c.page<<12, c.time); m != nil {
			got = m.file.path
		}
		if got != c.want {
			t.Errorf("page %d at %d: %q, want %q", c.page, c.time, got, c.want)
		}
	}
	if want := []uint64{10}; !slices.Equal(keeper.of, want) {
		t.Errorf("over are the lives from %d, want %d", keeper.of, want)
	}
	l.apply(&mappings.Event{Kind: mappings.Forked, PID: 8, TID: 8, Parent: 7, Time: 40}) // the number is used again
	l.apply(&mappings.Event{Kind: mappings.Ended, PID: 8, TID: 8, Time: 30})
	if want := []uint64{10, 20}; !slices.Equal(slices.Compact(keeper.of), want) {
		t.Errorf("over are the lives from %d, want %d", keeper.of, want)
	}
}

// ends is a keeper that takes note of which lives are over.
type ends struct{ of []uint64 }

func (e *ends) generates(uint32, *life) {}
func (e *ends) over(_ uint32, of *life) { e.of = append(e.of, of.from) }

// TestMappedAgain: mappings that are told again take no room, however often that happens, and what has no
// room is counted.
func TestMappedAgain(t *testing.T) {
	l := newLives(fstest.MapFS{}, &told{})
	for time := range uint64(2 * mostMapped) { // a compiler at run time changes the protection of its code
		l.apply(mappedAt(1+time, 5, "//anon"))
	}
	const half = 0x800
	upper := mappedAt(1<<20, 5, "/upper")
	upper.Start += half
	l.apply(upper)
	at := func(addr, time uint64) string {
		m, _ := l.at(7, time).find(addr, time)
		if m == nil {
			return ""
		}
		return m.file.path
	}
	if got := at(5<<12+half, 1<<20); got != "/upper" {
		t.Errorf("after all that: %q", got)
	}
	l.apply(mappedAt(1<<20+1, 5, "//anon")) // not the newest at all of its place
	if got := at(5<<12+half, 1<<20+1); got != "//anon" {
		t.Errorf("mapped once more: %q", got)
	}
	if got := at(5<<12+half, 1<<20); got != "/upper" {
		t.Errorf("before that: %q", got)
	}
	if l.lost != 0 || len(l.at(7, 1).maps) != 3 {
		t.Errorf("%d lost, %d mappings", l.lost, len(l.at(7, 1).maps))
	}

	const more = 10
	for n := range uint64(mostMapped + more) {
		l.apply(mappedAt(1<<21+n, 100+n, "/file"))
	}
	if l.lost != 3+more {
		t.Errorf("%d lost, want %d", l.lost, 3+more)
	}
	l.apply(mappedAt(1<<22, 100+mostMapped-4, "/file")) // it is there, the last that had room
	if l.lost != 3+more {
		t.Errorf("what is there is lost")
	}
}
