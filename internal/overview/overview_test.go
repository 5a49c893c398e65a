// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/session"
)

func end(t *testing.T, p *Printer) string {
	t.Helper()
	text, err := p.AppendEnd(nil, &output.Totals{})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestCalls: 500 is in a bucket of 8 from 496 on, and 3000 in one of 64 from 2944 on; quantiles are
// their middles. A $duration that was captured counts, not the 7000 between the records' times. A call whose begin is not known has no duration, and an error counts by its name.
func TestCalls(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_read(count, return)", "t_open(flags, return < 0, $duration)")
	entry := bpf.Event{Kind: bpf.KindEntry, Time: 1000, PID: 7, TID: 8, Comm: formattest.Comm("cat")}
	returned := entry
	returned.Kind, returned.Time = bpf.KindReturn, 1500
	whole := entry
	whole.Kind, whole.Time, whole.EntryTime = bpf.KindCall, 9000, 2000
	orphan := returned
	orphan.TID = 9
	p := New(&k.Run, false, output.NewSummaries(k.Run, nil, false))
	for c := range k.Joined(
		k.Raw(formattest.Record{Func: "read", Event: entry, Words: []uint64{4096}}), k.Raw(formattest.Record{Func: "read", Event: returned, Words: []uint64{12}}),
		k.Raw(formattest.Record{Func: "read", Event: orphan, Words: []uint64{formattest.Errno(5)}}),
		k.Raw(formattest.Record{Func: "open", Event: whole, Words: []uint64{0, formattest.Errno(2), 3000}}),
	) {
		if text, err := p.AppendCall(nil, c); len(text) > 0 || err != nil {
			t.Fatalf("%q, %v", text, err)
		}
	}
	const want = `count()[$func, error]
    $func   error     count()
    t_read  ""              1
    t_read  "EIO"           1
    t_open  "ENOENT"        1

quantiles($duration)[$func]
    $func   calls      p50      p90      p99    p99.9      max
    t_read      1    499ns    499ns    499ns    499ns    500ns
    t_open      1  2.975us  2.975us  2.975us  2.975us  3.000us

`
	if diff := cmp.Diff(want, end(t, p)); diff != "" {
		t.Error(diff)
	}
}

// TestSessions: the session of formattest fails in alloc, where 100 of its 1000 ns are spent; read
// takes 300 with what it calls. open is off the CPU for 450 ns of the first, read for 250 and alloc for
// 80; nobody has asked that of the last one.
func TestSessions(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Sessions(false, "t_open", "t_read", "t_alloc")
	failed := func() *session.Session {
		x := k.Failed()
		x.HasOffCPU, x.OffCPU = true, 450
		for i, ns := range []uint64{450, 250, 80} {
			x.Chain.Frames[i].OffCPU = ns
		}
		return x
	}
	const want = `count()[error, leaf]
    error     leaf     count()
    "ENOMEM"  t_alloc        2
    ""        t_open         1

stats(total)[$func]
    $func    calls    min       avg      max      sum
    t_open       3  800ns  933.33ns  1.000us  2.800us
    t_read       2  300ns  300.00ns    300ns    600ns
    t_alloc      2  100ns  100.00ns    100ns    200ns

stats(self)[$func]
    $func    calls    min       avg    max      sum
    t_open       3  700ns  733.33ns  800ns  2.200us
    t_read       2  200ns  200.00ns  200ns    400ns
    t_alloc      2  100ns  100.00ns  100ns    200ns

`
	const offCPU = `stats(off_cpu)[$func]
    $func    calls    min       avg    max    sum
    t_open       2  450ns  450.00ns  450ns  900ns
    t_read       2  250ns  250.00ns  250ns  500ns
    t_alloc      2   80ns   80.00ns   80ns  160ns

stats(self_off_cpu)[$func]
    $func    calls    min       avg    max    sum
    t_open       2  200ns  200.00ns  200ns  400ns
    t_read       2  170ns  170.00ns  170ns  340ns
    t_alloc      2   80ns   80.00ns   80ns  160ns

`
	running, hung := k.Failed(), k.Failed()
	running.State, hung.State = session.Running, session.Hung
	fine := &session.Session{PID: 7, Comm: "cat", Start: 1000, End: 1800, Func: k.Probe("open")}
	for timed, want := range map[bool]string{false: want, true: want + offCPU} {
		p := New(&k.Run, timed, output.NewSummaries(k.Run, nil, false))
		for _, x := range []*session.Session{failed(), running, failed(), hung, fine} {
			if text, err := p.AppendSession(nil, x); len(text) > 0 || err != nil {
				t.Fatalf("%q, %v", text, err)
			}
		}
		if diff := cmp.Diff(want, end(t, p)); diff != "" {
			t.Errorf("%t: %s", timed, diff)
		}
	}
}

// TestErrorOfVoid: a session whose entry function returns void has the error that came up to it. A
// call without a return has none, and a session that has not failed neither.
func TestErrorOfVoid(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Sessions(false, "t_open", "t_read", "t_alloc")
	unseen, fine := k.Failed(), k.Failed()
	unseen.Chain.Frames[0].Finished, unseen.Chain.Frames[0].Failed = false, false
	unseen.Chain.Frames[1].Result = formattest.Errno(5)
	fine.Failed, fine.State = false, session.Exited
	p := New(&k.Run, false, output.NewSummaries(k.Run, nil, false))
	for _, x := range []*session.Session{k.Quiet(), k.Quiet(), unseen, fine} {
		if _, err := p.AppendSession(nil, x); err != nil {
			t.Fatal(err)
		}
	}
	const want = `count()[error, leaf]
    error     leaf     count()
    "ENOMEM"  t_alloc        2
    ""        t_open         1
    "EIO"     t_alloc        1

`
	got, _, _ := strings.Cut(end(t, p), "stats(")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
