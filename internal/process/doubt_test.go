// SPDX-License-Identifier: Apache-2.0

package process

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/mappings"
)

// TestDoubt: what was not seen may be that a process has executed another program. From then on its addresses have the names of what
// it maps now, and none as long as that is not known, live and in a recording.
func TestDoubt(t *testing.T) {
	shell := "00001000-00002000 r-xp 00000000 fe:01 131 /bin/sh\n"
	root := fstest.MapFS{
		"proc/7/maps": {Data: []byte(shell + "00009000-0000a000 r-xp 00000000 00:00 0\n")}, // it goes on, with code of its own
		"proc/7/stat": {Data: []byte(stat("sh", 1, 2))},
		"proc/8/maps": {Data: []byte("00001000-00002000 r-xp 00000000 fe:01 132 /bin/other\n")}, // it has executed another program
		"proc/8/stat": {Data: []byte(stat("other", 1, 2))},
		"proc/9/maps": {Data: []byte(shell)}, // its fork was not seen
		"proc/9/stat": {Data: []byte(stat("sh", 1, 2))},
	}
	source := &told{}
	s := Following(fstest.MapFS{}, NumberedOurs, source, false)
	s.lives.root = root
	r, replay := s.NewRecorder(), NewRecorded()
	shows := func(pid uint32, time uint64, page uint64, want string) {
		t.Helper()
		e := &bpf.Event{PID: pid, TID: pid, Time: time}
		e.Inner.PID, e.Inner.TID, e.Inner.Ours = pid, pid, true
		addr := page<<12 + 8
		p := s.Of(e, "a")
		got := string(p.AppendFrame(nil, addr, false))
		place := "0x" + strconv.FormatUint(addr, 16)
		if want == "" {
			want = place
			if !strings.Contains(p.Missing(), "may have executed another program") {
				t.Errorf("process %d at %d: %q is why", pid, time, p.Missing())
			}
		} else {
			want = place + " (" + want + ")"
		}
		if got != want {
			t.Errorf("process %d at %d: %q, want %q", pid, time, got, want)
		}
		block := r.Append(nil, e, []bpf.UserFrame{bpf.NewUserFrame(addr, 0, true)})
		if err := replay.Add(block); err != nil {
			t.Fatal(err)
		}
		if (replay.Of(e).Missing() != "") != (want == place) {
			t.Errorf("process %d at %d, replayed: %q is why", pid, time, replay.Of(e).Missing())
		}
		if got := string(replay.Of(e).AppendFrame(nil, addr, false)); got != want {
			t.Errorf("process %d at %d, replayed: %q, want %q", pid, time, got, want)
		}
	}
	*source = append(*source, []mappings.Event{
		{Kind: mappings.Execed, PID: 7, TID: 7, Time: 10}, *mappedAt(11, 1, "/bin/sh"),
		{Kind: mappings.Forked, PID: 8, TID: 8, Parent: 7, Time: 20},
		{Kind: mappings.Forked, PID: 10, TID: 10, Parent: 7, Time: 20}, // it ends before anybody looks
	})
	for _, pid := range []uint32{7, 8, 10} {
		shows(pid, 25, 1, "/bin/sh")
	}
	*source = append(*source, []mappings.Event{{Kind: mappings.Lost, Since: 30, Time: 40, Count: 2},
		{Kind: mappings.Forked, PID: 11, TID: 11, Parent: 10, Time: 50}, {Kind: mappings.Forked, PID: 12, TID: 12, Parent: 10, Time: 20}}) // the last is told late
	shows(7, 35, 1, "/bin/sh")
	shows(7, math.MaxInt64, 9, anonymous)
	shows(8, 29, 1, "/bin/sh")
	shows(8, 35, 1, "")
	shows(8, math.MaxInt64, 1, "/bin/other")
	shows(9, math.MaxInt64, 1, "/bin/sh")
	for pid, times := range map[uint32][2]uint64{10: {29, 30}, 11: {0, 50}, 12: {29, 35}} {
		if times[0] > 0 {
			shows(pid, times[0], 1, "/bin/sh")
		}
		if times[1] > 0 {
			shows(pid, times[1], 1, "")
		}
	}
	if n := s.Unseen(); n != 2 {
		t.Errorf("%d are not seen", n)
	}
}

// TestDoubtAgain: /proc is read again only after a rest, whatever is not seen meanwhile. What turns out to go on has names again, also
// in a recording.
func TestDoubtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := fstest.MapFS{"proc/7/maps": {Data: []byte("00001000-00002000 r-xp 00000000 fe:01 131 /bin/sh\n")}, "proc/7/stat": {Data: []byte(stat("sh", 1, 2))}}
		source := &told{{{Kind: mappings.Execed, PID: 7, TID: 7, Time: 10}, *mappedAt(11, 1, "/bin/sh")}}
		l := newLives(root, source)
		l.of = map[uint32][]*life{}
		l.update(0)
		l.doubts.next = time.Now().Add(time.Second)
		*source = append(*source, []mappings.Event{{Kind: mappings.Lost, Since: 30, Time: 40}}, nil)
		if l.update(0); !l.at(7, 35).doubtAt(35) || l.at(7, 35).doubtAt(29) {
			t.Error("there is no doubt")
		}
		time.Sleep(time.Second)
		if l.update(0); l.at(7, 35).doubtAt(35) {
			t.Error("the doubt stays")
		}
	})
	var h Recorder
	h.hidden = map[uint32]*hidden{7: {from: 30}}
	of := &life{from: 10}
	at := func(time uint64) uint64 { return h.life(of, &bpf.Event{PID: 7, Time: time}) }
	if before, first, later := at(29), at(50), at(60); before != 10 || first != 50 || later != 50 {
		t.Errorf("lives %d, %d and %d", before, first, later)
	}
}
