// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// TestTriggerWatch: a trigger waits for the end of the session of its thread, for a while.
func TestTriggerWatch(t *testing.T) {
	var fired []string
	w := &triggerWatch{pending: map[triggerThread]*pendingTriggers{}, fire: func(n int, first triggered, over bool) {
		fired = append(fired, fmt.Sprintf("%d of %s %s %d at %d %t", n, first.name, first.comm, first.pid, first.time, over))
	}}
	probe := &plan.Probe{Probe: layout.Probe{Name: "vfs_read"}}
	met := func(tid uint32, time uint64) {
		w.met(&event.Event{Event: bpf.Event{PID: 7, TID: tid, Time: time, Comm: [16]byte{'c', 'a', 't'}}, Probe: probe})
	}
	session := func(kind bpf.SessionRecordKind, tid uint32, end uint64) []byte {
		return bpf.AppendSession(nil, &bpf.SessionHeader{Kind: kind, TID: tid, End: end})
	}
	met(8, 100)
	met(8, 120)
	met(9, 130)
	for _, c := range []struct {
		raw  []byte
		want []string
	}{
		{session(bpf.SessionEnd, 8, 119), nil},   // it ended before the call
		{session(bpf.SessionChunk, 8, 121), nil}, // it goes on
		{session(bpf.SessionHung, 8, 121), nil},
		{session(bpf.SessionEnd, 10, 200), nil}, // another thread's
		{bpf.AppendLost(nil, bpf.LostRingbuf, 3, 4), nil},
		{[]byte{1, 2, 3}, nil},
		{session(bpf.SessionEnd, 8, 121), []string{"2 of vfs_read cat 7 at 100 false"}},
		{session(bpf.SessionEnd, 8, 300), nil}, // once
		{session(bpf.SessionDrop, 9, 130), []string{"1 of vfs_read cat 7 at 130 false"}},
	} {
		fired = nil
		for raw := range w.passes(func(yield func([]byte, error) bool) { yield(c.raw, nil) }) {
			if !slices.Equal(raw, c.raw) {
				t.Errorf("%q was passed on as %q", c.raw, raw)
			}
		}
		if diff := cmp.Diff(c.want, fired); diff != "" {
			t.Errorf("%q: %s", c.raw[:min(len(c.raw), 16)], diff)
		}
	}
	fired = nil
	met(8, 400)
	late := func(now time.Time) func(triggerThread, *pendingTriggers) bool {
		return func(_ triggerThread, p *pendingTriggers) bool { return now.After(p.until) }
	}
	w.take(false, late(time.Now()))
	w.take(false, late(time.Now().Add(2*sessionPatience)))
	if diff := cmp.Diff([]string{"1 of vfs_read cat 7 at 400 false"}, fired); diff != "" {
		t.Error(diff)
	}
	if len(w.pending) != 0 {
		t.Errorf("%d threads are waited for", len(w.pending))
	}
}

// TestTriggerWatchInterrupts: a call of a thread waits for the thread's session, one of an interrupt for that of the interrupt.
func TestTriggerWatchInterrupts(t *testing.T) {
	end := func(tid uint32, cpu uint16, start, end uint64, interrupt bool) *bpf.SessionHeader {
		return &bpf.SessionHeader{Kind: bpf.SessionEnd, TID: tid, CPU: cpu, Start: start, End: end, Interrupt: interrupt}
	}
	type call struct {
		tid  uint32
		cpu  uint16
		time uint64
	}
	for _, c := range []struct {
		name  string
		calls []call
		ends  []*bpf.SessionHeader
		want  []int // calls that have fired, when each has ended
	}{
		{"of the thread", []call{{8, 1, 100}}, []*bpf.SessionHeader{end(8, 1, 110, 120, true), end(8, 2, 90, 130, false)}, []int{0, 1}},
		{"of the interrupt", []call{{8, 1, 115}}, []*bpf.SessionHeader{end(8, 1, 110, 120, true), end(8, 1, 90, 130, false)}, []int{1, 1}},
		{"of both", []call{{8, 1, 100}, {8, 1, 115}}, []*bpf.SessionHeader{end(8, 1, 110, 120, true), end(8, 1, 90, 130, false)}, []int{0, 2}},
		{"of the idle thread of a CPU", []call{{0, 1, 115}}, []*bpf.SessionHeader{end(0, 2, 110, 120, true), end(0, 1, 110, 130, true)}, []int{0, 1}},
		{"of two idle threads", []call{{0, 1, 115}, {0, 2, 116}}, []*bpf.SessionHeader{end(0, 2, 110, 120, true), end(0, 1, 110, 130, true)}, []int{1, 2}},
	} {
		var fired int
		w := &triggerWatch{pending: map[triggerThread]*pendingTriggers{}, fire: func(n int, _ triggered, _ bool) { fired += n }}
		for _, call := range c.calls {
			w.met(&event.Event{Event: bpf.Event{TID: call.tid, CPU: call.cpu, Time: call.time}, Probe: &plan.Probe{}})
		}
		for i, h := range c.ends {
			w.ended(bpf.AppendSession(nil, h))
			if fired != c.want[i] {
				t.Errorf("%s: %d calls have fired when session %d has ended, want %d", c.name, fired, i, c.want[i])
			}
		}
	}
}

// TestTriggerWatchStops: when the watch is stopped, as where a run ends by an error, nothing reads
// calls or fires any more.
func TestTriggerWatchStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var reading, fired atomic.Bool
	w := &triggerWatch{pending: map[triggerThread]*pendingTriggers{}, cancel: cancel, fire: func(int, triggered, bool) { fired.Store(true) }}
	begun := make(chan struct{})
	w.read(func(yield func(*event.Event, error) bool) {
		reading.Store(true)
		defer reading.Store(false)
		close(begun)
		<-ctx.Done()
		time.Sleep(10 * time.Millisecond) // what is in the buffer is still read
		yield(&event.Event{Event: bpf.Event{TID: 7, Kind: bpf.KindCall}, Probe: &plan.Probe{}}, nil)
	})
	<-begun
	w.stop()
	if reading.Load() {
		t.Error("calls are still read")
	}
	if len(w.pending) != 1 || fired.Load() {
		t.Errorf("%d threads are waited for, fired: %t", len(w.pending), fired.Load())
	}
	(&triggerWatch{}).stop() // nothing was begun
}
