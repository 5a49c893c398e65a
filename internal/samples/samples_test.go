// SPDX-License-Identifier: Apache-2.0

package samples

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/layout"
)

// text writes a sample on one line.
func text(s *Sample) string {
	var names []string
	for _, f := range s.Stack {
		name := f.Name
		if f.Inlined {
			name = "." + name
		}
		if f.Line > 0 {
			name += fmt.Sprintf(" %s:%d", f.File, f.Line)
		}
		names = append(names, name)
	}
	return fmt.Sprintf("%s | calls %d time %d errors %d | %d %s %s", strings.Join(names, " > "), s.Calls, s.Time, s.Errors, s.PID, s.Comm, s.Errno)
}

// TestCall: a call has its stack, the time between its ends, and its error.
func TestCall(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_read(count, return)", "t_open(flags, return < 0, $duration)")
	entry := bpf.Event{Kind: bpf.KindEntry, Time: 1000, PID: 7, TID: 8, Comm: formattest.Comm("cat")}
	returned := entry
	returned.Kind, returned.Time = bpf.KindReturn, 1500
	whole := entry
	whole.Kind, whole.Time, whole.EntryTime = bpf.KindCall, 9000, 2000
	orphan := returned
	orphan.TID = 9
	var got []string
	s := New(&k.Run)
	for c := range k.Joined(
		k.Raw(formattest.Record{Func: "read", Event: entry, Words: []uint64{4096}, Stack: []uint64{formattest.Read + 5, formattest.Open + 0x50, formattest.Syscall + 0x60}}),
		k.Raw(formattest.Record{Func: "read", Event: returned, Words: []uint64{12}}),
		k.Raw(formattest.Record{Func: "read", Event: orphan, Words: []uint64{formattest.Errno(5)}}),
		k.Raw(formattest.Record{Func: "open", Event: whole, Words: []uint64{0, formattest.Errno(2), 7000}}),
	) {
		sample, err := s.Call(c)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, text(sample))
	}
	if diff := cmp.Diff([]string{
		"entry_SYSCALL_64 entry/entry.S:121 > .do_syscall entry/common.c:81 > t_open fs/open.c:1400 > t_read | calls 1 time 500 errors 0 | 7 cat ",
		"t_read | calls 1 time 0 errors 1 | 7 cat EIO",
		"t_open fs/open.c:1400 | calls 1 time 7000 errors 1 | 7 cat ENOENT",
	}, got); diff != "" {
		t.Error(diff)
	}
}

// TestSession: what a call took itself is without what it called, and a failure counts where
// it began.
func TestSession(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Sessions(false, "t_open", "t_read", "t_alloc")
	const below = "entry_SYSCALL_64 entry/entry.S:121 > .do_syscall entry/common.c:81 > t_open fs/open.c:1400"
	chain := []string{
		below + " | calls 1 time 700 errors 0 | 7 cat ENOMEM",
		below + " > t_read | calls 1 time 200 errors 0 | 7 cat ENOMEM",
		below + " > t_read > t_alloc | calls 1 time 100 errors 1 | 7 cat NULL",
	}
	x := k.Failed()
	traced := k.Failed()
	open, read, alloc := k.Probe("open"), k.Probe("read"), k.Probe("alloc")
	traced.Trace = []session.Step{
		{Kind: session.StepEntry, Func: open, Time: 1000},
		{Kind: session.StepLeaf, Depth: 1, Func: read, Time: 1300, Duration: 200, Result: 5},
		{Kind: session.StepEntry, Depth: 1, Func: read, Time: 1500},
		{Kind: session.StepLeaf, Depth: 2, Func: alloc, Time: 1700, Duration: 100, Failed: true},
		{Kind: session.StepExit, Depth: 1, Func: read, Time: 1800, Duration: 300, Result: formattest.Errno(12), Failed: true},
		{Kind: session.StepExit, Func: open, Time: 2000, Duration: 1000, Result: formattest.Errno(12), Failed: true},
	}
	interim := k.Failed()
	interim.Interim = []session.Chain{{Frames: []session.Frame{interim.Chain.Frames[0], {Func: read, Entry: 1100, Duration: 50, Result: formattest.Errno(4), Finished: true, Failed: true}}}}
	hung := k.Failed()
	hung.State = session.Hung
	for name, c := range map[string]struct {
		session *session.Session
		want    []string
	}{
		"chain": {x, chain},
		"trace": {traced, append([]string{strings.Replace(chain[0], "700", "500", 1), chain[1], chain[2]}, below+" > t_read | calls 1 time 200 errors 0 | 7 cat ")},
		"interim": {interim, append([]string{strings.Replace(chain[0], "700", "650", 1), chain[1], chain[2]},
			below+" > t_read | calls 1 time 50 errors 1 | 7 cat EINTR")},
		"nothing recorded": {&session.Session{PID: 7, Comm: "cat", Start: 1000, End: 1800, Func: open}, []string{"t_open fs/open.c:1400 | calls 1 time 800 errors 0 | 7 cat "}},
		"open":             {hung, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for s := range New(&k.Run).Session(c.session) {
				got = append(got, text(s))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTallest: stacks that a damaged recording makes up do not grow without bound.
func TestTallest(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Sessions(false, "t_open", "t_read")
	x := &session.Session{Func: k.Probe("open")}
	for i := range 3 * uint64(tallest) {
		x.Interim = append(x.Interim, session.Chain{Frames: []session.Frame{{Func: k.Probe("read"), Entry: i}, {Func: k.Probe("read"), Entry: i + 1}}})
	}
	n := 0
	for s := range New(&k.Run).Session(x) {
		n = max(n, len(s.Stack))
	}
	if n != tallest {
		t.Errorf("%d frames, want %d", n, tallest)
	}
}

func TestErrno(t *testing.T) {
	for _, c := range []struct {
		class  layout.ErrorClass
		result uint64
		want   string
	}{
		{layout.FailsInt32, 0xfffffffe, "ENOENT"}, {layout.FailsInt32, formattest.Errno(2), "ENOENT"}, {layout.FailsInt32, 0, ""}, {layout.FailsInt64, 0xfffffffe, ""},
		{layout.FailsInt64, formattest.Errno(22), "EINVAL"}, {layout.FailsPointer, 0, "NULL"}, {layout.FailsPointer, formattest.Errno(12), "ENOMEM"}, {layout.FailsPointer, formattest.Open, ""},
		{layout.FailsInt64, formattest.Errno(4000), "4000"}, {layout.NeverFails, formattest.Errno(2), ""},
	} {
		if got := Errno(c.class, c.result); got != c.want {
			t.Errorf("class %d, %#x: %q, want %q", c.class, c.result, got, c.want)
		}
	}
}
