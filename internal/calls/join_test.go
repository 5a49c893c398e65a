// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// The probes of the tests by the letter that stands for them. f and g send a
// record at both ends, e only at entry, r only at return, k one for both.
func testProbes() map[byte]*plan.Probe {
	sends := &layout.Half{Record: &layout.Record{}}
	return map[byte]*plan.Probe{
		'f': {Probe: layout.Probe{Entry: sends, Return: sends}},
		'g': {Probe: layout.Probe{Entry: sends, Return: sends}},
		'e': {Probe: layout.Probe{Entry: sends}},
		'r': {Probe: layout.Probe{Return: sends}},
		'k': {Probe: layout.Probe{Entry: &layout.Half{}, Return: sends, Joined: true}},
	}
}

// parseEvents reads events as "+f1": f was entered on thread 1, "-f1": it
// returned, "=k1": both in one record. Thread 0 is the idle one of CPU 0, and
// "0'" that of CPU 1; a " at the end is another process with that thread ID.
// "+f1@5" was called at place 5, as a function of user space.
// "!0" is a mark of records that are missing, with the number of its cause.
// The value of each is its position, without marks.
func parseEvents(t *testing.T, text string) []*event.Event {
	t.Helper()
	probes := testProbes()
	kinds := map[byte]bpf.Kind{'+': bpf.KindEntry, '-': bpf.KindReturn, '=': bpf.KindCall}
	var events []*event.Event
	gaps := 0
	for _, word := range strings.Fields(text) {
		if cause, ok := strings.CutPrefix(word, "!"); ok {
			n, err := strconv.Atoi(cause)
			if err != nil {
				t.Fatal(err)
			}
			e := &event.Event{Cause: bpf.Counter(n)}
			e.Kind = bpf.KindLost
			events, gaps = append(events, e), gaps+1
			continue
		}
		i := len(events) - gaps
		word, place, _ := strings.Cut(word, "@")
		kind, ok := kinds[word[0]]
		if !ok || probes[word[1]] == nil || len(word) < 3 {
			t.Fatalf("event %q", word)
		}
		e := &event.Event{Probe: probes[word[1]], Data: []byte(fmt.Sprint(i))}
		e.Kind, e.TID, e.PID = kind, uint32(word[2]-'0'), 1
		if place != "" {
			e.Place = uint64(place[0] - '0')
		}
		if strings.HasSuffix(word, "'") {
			e.CPU = 1
		}
		if strings.HasSuffix(word, `"`) {
			e.PID = 2
		}
		events = append(events, e)
	}
	return events
}

// stream yields events the way a ring buffer does: all in the same memory.
func stream(events []*event.Event, err error) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		var shared event.Event
		var data []byte
		for _, e := range events {
			data = append(data[:0], e.Data...)
			shared = *e
			shared.Data = data
			if !yield(&shared, nil) {
				return
			}
			for i := range data {
				data[i] = '?'
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

var endNames = map[End]string{Paired: "paired", Whole: "whole", NoEntry: "noentry", Open: "open", Evicted: "evicted"}

// describe writes a call as the values of its ends and how it ended.
func describe(c *Call) string {
	value := func(e *event.Event) string {
		if e == nil {
			return ""
		}
		return string(e.Data)
	}
	return fmt.Sprintf("%s-%s:%s", value(c.Entry), value(c.Return), endNames[c.End])
}

func TestJoin(t *testing.T) {
	for _, test := range []struct {
		name, events, want string
		limit              int // in calls
		counts             Counts
	}{
		{name: "nothing"},
		{name: "one", events: "+f1 -f1", want: "0-1:paired", counts: Counts{Paired: 1}},
		{name: "two in turn", events: "+f1 -f1 +f1 -f1", want: "0-1:paired 2-3:paired", counts: Counts{Paired: 2}},
		{name: "recursion", events: "+f1 +f1 +f1 -f1 -f1 -f1", want: "2-3:paired 1-4:paired 0-5:paired", counts: Counts{Paired: 3}},
		{name: "nested", events: "+f1 +g1 -g1 -f1", want: "1-2:paired 0-3:paired", counts: Counts{Paired: 2}},
		{name: "mutual recursion", events: "+f1 +g1 +f1 -f1 -g1 -f1", want: "2-3:paired 1-4:paired 0-5:paired", counts: Counts{Paired: 3}},
		{name: "threads", events: "+f1 +f2 +f3 -f2 -f1 -f3", want: "1-3:paired 0-4:paired 2-5:paired", counts: Counts{Paired: 3}},
		{name: "idle threads", events: "+f0 +f0' -f0 -f0'", want: "0-2:paired 1-3:paired", counts: Counts{Paired: 2}},
		{name: "migrated", events: "+f1 -f1'", want: "0-1:paired", counts: Counts{Paired: 1}},
		{name: "thread ID used again", events: `+f1 -f1" -f1`, want: "-1:noentry 0-2:paired", counts: Counts{Paired: 1, NoEntry: 1}},
		{name: "lost entry", events: "-f1 +f1 -f1", want: "-0:noentry 1-2:paired", counts: Counts{Paired: 1, NoEntry: 1}},
		{name: "lost return", events: "+f1 +f1 -f1", want: "1-2:paired 0-:open", counts: Counts{Paired: 1, Open: 1}},
		{name: "never returns", events: "+f1 +g2 -g2 +f3", want: "1-2:paired 0-:open 3-:open", counts: Counts{Paired: 1, Open: 2}},
		{name: "entry alone", events: "+e1 +f1 +e1 -f1", want: "0-:whole 2-:whole 1-3:paired", counts: Counts{Paired: 1, Whole: 2}},
		{name: "return alone", events: "-r1 +f1 -r1 -f1", want: "-0:whole -2:whole 1-3:paired", counts: Counts{Paired: 1, Whole: 2}},
		{name: "joined by the kernel", events: "+f1 =k1 -f1", want: "-1:whole 0-2:paired", counts: Counts{Paired: 1, Whole: 1}},
		{name: "evicted", events: "+f1 +f2 +f3 -f1 -f2 -f3", limit: 2, want: "0-:evicted -3:noentry 1-4:paired 2-5:paired",
			counts: Counts{Paired: 2, NoEntry: 1, Evicted: 1}},
		{name: "evicted in recursion", events: "+f1 +f1 +f1 -f1 -f1 -f1", limit: 2, want: "0-:evicted 2-3:paired 1-4:paired -5:noentry",
			counts: Counts{Paired: 2, NoEntry: 1, Evicted: 1}},
		// The stack grows downwards: calls within another one are at lower places.
		{name: "longjmp", events: "+f1@9 +f1@7 +f1@5 -f1@9", want: "0-3:paired 1-:open 2-:open", counts: Counts{Paired: 1, Open: 2}},
		{name: "longjmp, and called again", events: "+f1@9 +f1@7 +f1@5 +f1@7 -f1@7 -f1@9", want: "3-4:paired 0-5:paired 1-:open 2-:open", counts: Counts{Paired: 2, Open: 2}},
		{name: "longjmp, and the next one further out", events: "+f1@5 +f1@7 -f1@7 +f1@9 -f1@9", want: "1-2:paired 3-4:paired 0-:open", counts: Counts{Paired: 2, Open: 1}},
		{name: "no entry at the place", events: "+f1@9 -f1@7 -f1@9", want: "-1:noentry 0-2:paired", counts: Counts{Paired: 1, NoEntry: 1}},
		{name: "tail recursion", events: "+f1@9 +f1@7 +f1@7 +f1@7 -f1@7 -f1@7 -f1@7 -f1@9", want: "3-4:paired 2-5:paired 1-6:paired 0-7:paired", counts: Counts{Paired: 4}},
		{name: "another stack", events: "+f1@5 +f1@9 -f1@9 -f1@5", want: "1-2:paired 0-3:paired", counts: Counts{Paired: 2}},
		{name: "two stacks in turn", events: "+f1@5 +f1@9 -f1@5 -f1@9", want: "0-2:paired 1-3:paired", counts: Counts{Paired: 2}},
		{name: "same place, other threads", events: "+f1@5 +f2@5 +g1@5 -f1@5 -g1@5 -f2@5", want: "0-3:paired 2-4:paired 1-5:paired", counts: Counts{Paired: 3}},
		{name: "recorded without places", events: "+f1 +f1 +f1 -f1", want: "2-3:paired 0-:open 1-:open", counts: Counts{Paired: 1, Open: 2}},
		{name: "lost meanwhile", events: "+f1 +g2 !0 -f1 +f1 -f1 -g2", want: "0-:evicted -2:noentry 3-4:paired 1-:evicted -5:noentry",
			counts: Counts{Paired: 1, NoEntry: 2, Evicted: 2}},
		{name: "lost in recursion", events: "+f1 +f1 !0 +f1 -f1 -f1 -f1", want: "2-3:paired 1-:evicted 0-:evicted -4:noentry -5:noentry",
			counts: Counts{Paired: 1, NoEntry: 2, Evicted: 2}},
		{name: "something else is left out", events: "+f1 !10 -f1", want: "0-1:paired", counts: Counts{Paired: 1}},
		{name: "room for one", events: "+f1 +g1 -g1 -f1", limit: 1, want: "0-:evicted 1-2:paired -3:noentry",
			counts: Counts{Paired: 1, NoEntry: 1, Evicted: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := Joiner{Limit: test.limit * (openCost + 8)} // the least that append allocates
			var got []string
			for c, err := range j.Join(stream(parseEvents(t, test.events), nil)) {
				if err != nil {
					t.Fatal(err)
				}
				if c.End != Gap {
					got = append(got, describe(c))
				}
			}
			if text := strings.Join(got, " "); text != test.want {
				t.Errorf("got  %s\nwant %s", text, test.want)
			}
			if j.Counts() != test.counts {
				t.Errorf("counts %+v, want %+v", j.Counts(), test.counts)
			}
		})
	}
}

// The kernel shows the returns of the 64 outermost calls of a thread. None of these is taken for one of those within.
func TestJoinDeep(t *testing.T) {
	const depth, seen = 1000, 64
	probe := testProbes()['f']
	var events []*event.Event
	add := func(kind bpf.Kind, n int) {
		e := &event.Event{Probe: probe, Place: uint64(1<<20 - 16*n), Data: []byte(fmt.Sprint(n))}
		e.Kind, e.PID, e.TID = kind, 1, 1
		events = append(events, e)
	}
	for range 2 {
		for n := range depth {
			add(bpf.KindEntry, n)
		}
		for n := seen - 1; n >= 0; n-- {
			add(bpf.KindReturn, n)
		}
	}
	var j Joiner
	for c := range j.Join(stream(events, nil)) {
		switch {
		case c.End == Paired && string(c.Entry.Data) != string(c.Return.Data):
			t.Errorf("%s", describe(c))
		case c.End == Open && len(c.Entry.Data) < 2:
			t.Errorf("%s", describe(c))
		}
	}
	if want := (Counts{Paired: 2 * seen, Open: 2 * (depth - seen)}); j.Counts() != want {
		t.Errorf("counts %+v, want %+v", j.Counts(), want)
	}
}

// An error comes after the calls that it leaves open.
func TestJoinError(t *testing.T) {
	want := errors.New("cut")
	var j Joiner
	var got []string
	for c, err := range j.Join(stream(parseEvents(t, "+f1 +g1 -g1"), want)) {
		if err != nil {
			got = append(got, err.Error())
			continue
		}
		got = append(got, describe(c))
	}
	if text := strings.Join(got, " "); text != "1-2:paired 0-:open cut" {
		t.Errorf("got %s", text)
	}
}

// Whoever stops asking is not given more: Go's runtime would panic.
func TestJoinStop(t *testing.T) {
	events := parseEvents(t, "+e1 +f1 +f2 +f3 -f2 -r1 -f1 +f1")
	for n := 1; n <= 8; n++ {
		j := Joiner{Limit: 2 * (openCost + 8)}
		seen := 0
		for range j.Join(stream(events, nil)) {
			if seen++; seen == n {
				break
			}
		}
		if want := min(n, 7); seen != want {
			t.Errorf("%d calls seen, want %d", seen, want)
		}
	}
}

func TestJoinAllocates(t *testing.T) {
	events := parseEvents(t, "+f1 +f1 -f1 +g2 -f1 -g2")
	var j Joiner
	run := func() {
		for range j.Join(stream(events, nil)) {
		}
	}
	run()
	var shared func(*event.Event, error) bool
	base := testing.AllocsPerRun(100, func() {
		shared = func(*event.Event, error) bool { return true }
		stream(events, nil)(shared)
	})
	// What is more than the stream's own are the closures of Join: none for
	// each event.
	if n := testing.AllocsPerRun(100, run); n > base+5 {
		t.Errorf("%v allocations for %d events, the stream has %v", n, len(events), base)
	}
}

// model is Join without a bound, as plainly as it can be said.
func model(events []*event.Event) []string {
	var out []string
	open := make([]bool, len(events))
	for i, e := range events {
		switch {
		case e.Kind == bpf.KindEntry && e.Probe.Return != nil:
			open[i] = true
		case e.Kind == bpf.KindEntry:
			out = append(out, fmt.Sprintf("%d-:whole", i))
		case e.Kind == bpf.KindCall || e.Probe.Entry == nil:
			out = append(out, fmt.Sprintf("-%d:whole", i))
		default:
			at := i - 1
			for at >= 0 && !(open[at] && sameThread(events[at], e)) {
				at--
			}
			if at < 0 {
				out = append(out, fmt.Sprintf("-%d:noentry", i))
				continue
			}
			open[at] = false
			out = append(out, fmt.Sprintf("%d-%d:paired", at, i))
		}
	}
	for i := range events {
		if open[i] {
			out = append(out, fmt.Sprintf("%d-:open", i))
		}
	}
	return out
}

func sameThread(a, b *event.Event) bool {
	return a.Probe == b.Probe && a.PID == b.PID && a.TID == b.TID && a.Place == b.Place && (a.TID != 0 || a.CPU == b.CPU)
}

// FuzzJoin makes a stream of random bytes and compares with the model. With a
// bound that is too small, every event must still come out exactly once.
func FuzzJoin(f *testing.F) {
	f.Add([]byte("\x00\x01\x08\x09\x00\x00\x01\x01"), uint8(3))
	f.Add([]byte("abcdefghijklmnopqrstuvwxyz0123456789"), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, limit uint8) {
		probes := testProbes()
		var events []*event.Event
		for i, b := range data {
			letter := "ffgger"[int(b>>1&7)%6]
			e := &event.Event{Probe: probes[letter], Data: []byte(fmt.Sprint(i))}
			e.Kind, e.PID, e.TID, e.CPU = bpf.Kind(b&1), 1+uint32(b>>4&1), uint32(b>>5&1), uint16(b>>6&1)
			e.Place = uint64(b >> 7)
			if letter == 'e' {
				e.Kind = bpf.KindEntry
			}
			if letter == 'r' {
				e.Kind = bpf.KindReturn
			}
			events = append(events, e)
		}
		var free Joiner
		var got []string
		for c := range free.Join(stream(events, nil)) {
			got = append(got, describe(c))
		}
		if want := model(events); !slices.Equal(got, want) {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
		bound := Joiner{Limit: int(limit) * (openCost + 8)}
		seen := make(map[string]int)
		for c := range bound.Join(stream(events, nil)) {
			for _, e := range []*event.Event{c.Entry, c.Return} {
				if e != nil {
					seen[string(e.Data)]++
				}
			}
			if c.End == Paired && !sameThread(c.Entry, c.Return) {
				t.Fatalf("%s: not one caller", describe(c))
			}
			if (c.Entry != nil && c.Return != nil) != (c.End == Paired) {
				t.Fatalf("%s", describe(c))
			}
		}
		for i := range events {
			if n := seen[fmt.Sprint(i)]; n != 1 {
				t.Fatalf("event %d came out %d times", i, n)
			}
		}
		if bound.size != 0 || len(bound.open) != 0 || bound.newest != nil {
			t.Fatalf("%d bytes of open calls are left", bound.size)
		}
	})
}
