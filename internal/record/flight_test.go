// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/destination"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/layout"
)

// fly records n calls with a flight recorder and returns what the recording has: the times
// of its records, 0 for a mark; how many records the marks stand for; and its losses.
// before is called with each record's number, counted from 1, and with that after the last,
// and may ask for a write.
func fly(t *testing.T, limit, n int, take Takeoff, before func(r *Recording, i uint64)) (times []uint64, marked uint64, l event.Losses) {
	t.Helper()
	f := newFixture(t, layout.MethodAuto, "vfs_read(count)")
	name := filepath.Join(t.TempDir(), "calls.ks")
	file, err := destination.Create(name, false)
	if err != nil {
		t.Fatal(err)
	}
	if take.Written == nil {
		take.Written = func(uint64, uint64) {}
	}
	r := NewRecording(file, f.source)
	r.Fly(limit, take)
	if err := r.Begin(f.plan); err != nil {
		t.Fatal(err)
	}
	var records iter.Seq2[[]byte, error] = func(yield func([]byte, error) bool) {
		for i := uint64(1); i <= uint64(n); i++ {
			before(r, i)
			if !yield(append(bpf.AppendEvent(nil, &bpf.Event{Time: i}), make([]byte, 8)...), nil) {
				return
			}
		}
		before(r, uint64(n)+1)
	}
	for _, err := range r.Tee(records) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(r.End(&l), r.Close()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	back, raw, err := read(data)
	if err != nil {
		t.Fatal(err)
	}
	if back.Losses() != l {
		t.Errorf("losses %v, recorded %v", l, back.Losses())
	}
	seen := uint64(0)
	for _, rec := range raw {
		var e bpf.Event
		data, err := bpf.DecodeEvent(rec, &e)
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind != bpf.KindLost {
			times, seen = append(times, e.Time), seen+1
			continue
		}
		cause, n, err := bpf.DecodeLost(&e, data)
		if err != nil || cause != bpf.Overwritten {
			t.Fatalf("mark of cause %d: %v", cause, err)
		}
		if got := seen + marked + n; got != e.Time { // all records before it
			t.Errorf("a mark of time %d behind %d records", e.Time, got)
		}
		times, marked = append(times, 0), marked+n
	}
	return times, marked, l
}

const flightLimit = 1 << 20

// A flight recorder keeps the newest records, as many as fit, and counts the others at their
// place.
func TestFlight(t *testing.T) {
	size := bpf.EventSize + 8 + 1 // with its length
	for _, n := range []int{0, 1, 1000, flightLimit / size, 3 * flightLimit / size, 50_000} {
		written := -1
		times, marked, l := fly(t, flightLimit, n, Takeoff{Written: func(n, _ uint64) { written = int(n) }}, func(*Recording, uint64) {})
		kept := len(times)
		if marked > 0 {
			if times[0] != 0 {
				t.Errorf("%d: the mark is not at the beginning", n)
			}
			times, kept = times[1:], kept-1
		}
		if uint64(kept)+marked != uint64(n) || written != kept || l.Lost[bpf.Overwritten] != marked {
			t.Errorf("%d records: %d kept, %d written, %d marked, %d lost", n, kept, written, marked, l.Lost[bpf.Overwritten])
		}
		if bytes := kept * size; bytes > flightLimit || marked > 0 && bytes < flightLimit*(chunksOfFlight-2)/chunksOfFlight {
			t.Errorf("%d records: %d bytes are kept of %d", n, bytes, flightLimit)
		}
		for i, at := range times {
			if want := marked + uint64(i) + 1; at != want {
				t.Fatalf("%d records: record %d is that of %d, want %d", n, i, at, want)
			}
		}
	}
}

// TestFlightTold: at the end it is told what is written then, and that nothing is if nothing was
// before.
func TestFlightTold(t *testing.T) {
	for _, c := range []struct {
		n, after int // records; how many of them are written when asked for
		want     []uint64
	}{{0, 0, []uint64{0}}, {3, 0, []uint64{3}}, {3, 2, []uint64{2, 1}}, {3, 3, []uint64{3}}} {
		var told []uint64
		fly(t, flightLimit, c.n, Takeoff{Written: func(n, _ uint64) { told = append(told, n) }}, func(r *Recording, i uint64) {
			if i == uint64(c.after)+1 && c.after > 0 {
				r.write()
			}
		})
		if !slices.Equal(told, c.want) {
			t.Errorf("%d records, %d of them asked for: told %d, want %d", c.n, c.after, told, c.want)
		}
	}
}

// A trigger writes what was kept before it, and the last one that is counted ends the run.
func TestTrigger(t *testing.T) {
	trigger := func(raw []byte) bool {
		var e bpf.Event
		_, err := bpf.DecodeEvent(raw, &e)
		return err == nil && e.Time%400 == 0
	}
	for count, want := range map[uint64]int{1: 400, 2: 800, 0: 1000, 9: 1000} {
		times, marked, _ := fly(t, flightLimit, 1000, Takeoff{Trigger: trigger, Count: count}, func(*Recording, uint64) {})
		if len(times) != want || marked > 0 || times[len(times)-1] != uint64(want) {
			t.Errorf("count %d: %d records, %d marked, want %d", count, len(times), marked, want)
		}
	}
}

// TestFlightLate: a write that was asked for before the end, and begins after it, writes and tells nothing.
func TestFlightLate(t *testing.T) {
	var told []uint64
	var late *Recording
	fly(t, flightLimit, 3, Takeoff{Written: func(n, _ uint64) { told = append(told, n) }}, func(r *Recording, _ uint64) { late = r })
	if late.write(); !slices.Equal(told, []uint64{3}) {
		t.Errorf("told was that %d records are written", told)
	}
}

// TestFlightFull: records that could not be written are counted.
func TestFlightFull(t *testing.T) {
	f := newFixture(t, layout.MethodAuto, "vfs_read(count)")
	file, err := destination.Create("/dev/full", false)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w, err := newWriter(io.Discard, f.source, f.plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	fl := flight{limit: flightLimit}
	for i := range uint64(7) {
		if err := fl.add(append(bpf.AppendEvent(nil, &bpf.Event{Time: i}), make([]byte, 8)...)); err != nil {
			t.Fatal(err)
		}
	}
	w.out.w = file
	if _, _, err := fl.write(w, false); !errors.Is(err, unix.ENOSPC) {
		t.Error(err)
	}
	_, _, err = fl.write(w, true) // at the end there are no more
	if want := "not all of the 7 records that were kept are in it"; !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestFlightManyTriggers: triggers that come faster than records can be written are one write,
// not as many that wait.
func TestFlightManyTriggers(t *testing.T) {
	var told atomic.Int64
	times, marked, _ := fly(t, flightLimit, 10, Takeoff{Written: func(uint64, uint64) { told.Add(1) }}, func(r *Recording, i uint64) {
		if i != 6 {
			return
		}
		r.flight.writing.Lock() // as while records are written
		defer r.flight.writing.Unlock()
		before := runtime.NumGoroutine()
		for range 10_000 {
			r.Write()
		}
		if n := runtime.NumGoroutine() - before; n > 1 {
			t.Errorf("%d writes wait", n)
		}
	})
	if len(times) != 10 || marked != 0 || told.Load() > 2 {
		t.Errorf("%d records, %d marked, told %d times", len(times), marked, told.Load())
	}
}

// Records that are written while others come keep their order, and none is missing that no
// mark tells of.
func TestFlightWrites(t *testing.T) {
	const n = 200_000
	times, marked, l := fly(t, flightLimit, n, Takeoff{}, func(r *Recording, i uint64) {
		if i%3_000 == 0 {
			r.Write()
		}
	})
	at, records := uint64(0), uint64(0)
	for _, next := range times {
		if next == 0 {
			continue
		}
		if next <= at {
			t.Fatalf("record %d behind record %d", next, at)
		}
		at = next
		records++
	}
	if records+marked != n || at != n || l.Lost[bpf.Overwritten] != marked {
		t.Errorf("%d records and %d marked of %d, the last is %d", records, marked, n, at)
	}
}

// What cannot be written ends the run.
func TestFlightFails(t *testing.T) {
	f := newFixture(t, layout.MethodAuto, "vfs_read(count)")
	w, err := NewWriter(io.Discard, f.source, f.plan)
	if err != nil {
		t.Fatal(err)
	}
	fl := &flight{limit: flightLimit}
	raw := append(bpf.AppendEvent(nil, &bpf.Event{Time: 1}), make([]byte, 8)...)
	if err := fl.add(raw); err != nil {
		t.Fatal(err)
	}
	w.out.w = &limitedWriter{0}
	if _, _, err := fl.write(w, false); !errors.Is(err, errFull) {
		t.Errorf("writing: %v", err)
	}
	if err := fl.add(raw); !errors.Is(err, errFull) {
		t.Errorf("the next record: %v", err)
	}
}
