// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/container"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/layout"
)

// TestMerged: runs of two hosts are in one trace, each below a row of its own, by the time of
// day. Threads of the same numbers are others.
func TestMerged(t *testing.T) {
	var traces []*formattest.Trace
	var printers []*Printer
	for i, label := range []string{"web1: a.ks", "web2: b\x1b.ks"} {
		k := formattest.New(t, fmt.Sprintf("h%d_", i+1))
		k.Calls("*open(flags, return)")
		k.Run.Number, k.Run.Label, k.Run.Boot = i+1, label, k.Run.Boot.Add(time.Duration(i)*time.Microsecond)
		traces, printers = append(traces, k), append(printers, New(k.Run))
	}
	var out []byte
	var err error
	for _, p := range printers {
		if out, err = p.AppendHeader(out); err != nil {
			t.Fatal(err)
		}
	}
	entry := bpf.Event{Kind: bpf.KindEntry, Time: 1000, PID: 7, TID: 8, Comm: formattest.Comm("cat")}
	returned := entry
	returned.Kind, returned.Time = bpf.KindReturn, 1500
	for i, k := range traces {
		for c := range k.Joined(k.Raw(formattest.Record{Func: "open", Event: entry, Words: []uint64{uint64(i)}}), k.Raw(formattest.Record{Func: "open", Event: returned})) {
			if out, err = printers[i].AppendCall(out, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	out = printers[1].AppendLoss(out, event.Loss{Cause: bpf.LostRingbuf, Count: 3, Time: ^uint64(0)})
	boot := formattest.Boot.UnixNano()
	got := readTrace(t, out, true)
	if diff := cmp.Diff([]string{
		"web1: a.ks",
		"web1: a.ks/ 7",
		"web1: a.ks/ 7/cat 8",
		fmt.Sprintf("  %d { h1_open call cpu=uint(0) flags=int(0) [h1_open fs/open.c:1400]", boot+1000),
		fmt.Sprintf("  %d } return=int(0)", boot+1500),
		`web2: b\x1b.ks`,
		`web2: b\x1b.ks/ 7`,
		`web2: b\x1b.ks/ 7/cat 8`,
		fmt.Sprintf("  %d { h2_open call cpu=uint(0) flags=int(1) [h2_open fs/open.c:1400]", boot+2000),
		fmt.Sprintf("  %d } return=int(0)", boot+2500),
		`web2: b\x1b.ks/lost`,
	}, got.lines()[:11]); diff != "" {
		t.Error(diff)
	}
	if last := got.lines()[11]; !strings.HasPrefix(last, "  9223372036854775807 * ") {
		t.Errorf("%s", last)
	}
	if want := "clocks 1: 0, primary 1"; got.tracks[0] != want {
		t.Errorf("%s, want %s", got.tracks[0], want)
	}
}

// TestOwner: a slice has the user and the cgroup of its call, by its path where that is known.
func TestOwner(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Owner = layout.OwnerUID | layout.OwnerCgroup
	k.Calls("t_open(flags)")
	k.Run.Cgroup = func(id uint64) container.Group { return map[uint64]container.Group{5: {Path: "/a\x1b"}}[id] }
	var raw [][]byte
	for i, id := range []uint64{5, 6, 0} {
		raw = append(raw, k.Raw(formattest.Record{Func: "open", Event: bpf.Event{Time: uint64(1000 + i), PID: 7, TID: 7}, Owner: bpf.Owner{UID: 1000, Cgroup: id}, Words: []uint64{3}}))
	}
	if diff := cmp.Diff([]string{
		"process 7 ", "thread 7/7 ",
		`  1000 * t_open call cpu=uint(0) uid=uint(1000) cgroup="/a\\x1b" flags=int(3) [t_open fs/open.c:1400]`,
		`  1001 * t_open call cpu=uint(0) uid=uint(1000) cgroup=uint(6) flags=int(3) [t_open fs/open.c:1400]`,
		`  1002 * t_open call cpu=uint(0) uid=uint(1000) flags=int(3) [t_open fs/open.c:1400]`,
	}, read(t, printCalls(t, k, New(k.Run), raw...)).lines()); diff != "" {
		t.Error(diff)
	}
	k.Sessions(false, "t_open", "t_read", "t_alloc")
	s := k.Failed()
	s.HasOwner, s.Owner = true, bpf.Owner{UID: 0, Cgroup: 5}
	if got := strings.Join(read(t, printSessions(t, New(k.Run), s)).lines(), "\n"); strings.Count(got, `uid=uint(0) cgroup="/a\\x1b"`) != 1 {
		t.Errorf("%s", got)
	}
}
