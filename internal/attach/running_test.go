// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// attached attaches one function, whose calls are sent at entry.
func (k *fakeKernel) attached(change ...func(*Options)) *Tracer {
	k.t.Helper()
	tracer, _, err := k.attach(1, "(count)", layout.MethodFentry, change...)
	if err != nil {
		k.t.Fatal(err)
	}
	return tracer
}

// TestCounters: counts are those of all CPUs, and what the kernel has skipped while probes
// were being attached is none of them.
func TestCounters(t *testing.T) {
	k := newFake(t)
	k.skips, k.misses = 40, 2
	tracer, _, err := k.attach(20, bothEnds, layout.MethodKprobeMulti)
	if err != nil {
		t.Fatal(err)
	}
	k.skips, k.misses = 45, 5 // of each of two programs and two links
	for i := range uint32(bpf.Counters) {
		fakeTable{k, bpf.MapCounters}.Put(i, []uint64{uint64(i), 100})
	}
	k.values[bpf.VarGuarded] = uint64(9)
	got, err := tracer.Counters()
	if err != nil || tracer.Uncounted() {
		t.Fatal(err)
	}
	var want [bpf.Counters]uint64
	for i := range want {
		want[i] = uint64(i) + 100
	}
	want[bpf.Missed] = 2*5 + 3 // the programs, and the link of entries
	want[bpf.MissedReturn] += 3
	want[bpf.MissedTask] = 0 // what the one that frees frames did not free is only stale
	want[bpf.LostRecursion] += 9
	want[bpf.PausedTime] = 0
	if got != want {
		t.Errorf("%v, want %v", got, want)
	}
	var policy uint32
	if err := unpreempted(func() error { attr, err := unix.SchedGetAttr(0, 0); policy = attr.Policy; return err }); err != nil {
		t.Fatal(err)
	}
	if k.lookupPolicy != policy { // SCHED_FIFO, if this process may have it
		t.Errorf("the counters are read with scheduling policy %d, want %d", k.lookupPolicy, policy)
	}
	for _, what := range []string{"lookup " + bpf.MapCounters, "get " + bpf.VarGuarded} {
		k.refuse = map[string]error{what: unix.EPERM}
		if _, err := tracer.Counters(); err == nil || err.Error() != "reading the counters: operation not permitted" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestMissed: what a probe of returns has missed is counted apart from what others have, but for kretprobes that miss what the
// kprobes beside them do. What a kernel does not count is not taken for nothing.
func TestMissed(t *testing.T) {
	for _, c := range []struct {
		release           string
		n                 int
		method            layout.Method
		entries, returns  uint64
		uncounted, traced bool // traced: tracefs is there
	}{
		{"6.12.1", 20, layout.MethodKprobeMulti, 3, 3, false, true},
		{"6.7.0", 20, layout.MethodKprobeMulti, 3, 3, false, true},
		{"6.6.99", 20, layout.MethodKprobeMulti, 3, 3, true, true},
		{"6.6.99", 1, layout.MethodKprobe, 3 + 3, 0, true, true},
		{"6.1.0", 20, layout.MethodKprobe, 20 * (3 + 3), 0, true, false},
		{"6.1.0", 1, layout.MethodFentry, 0, 0, false, true},
		{"6.12.1", 1, layout.MethodKprobe, 3 + 3, 0, false, true},
		{"6.12.1", 1, layout.MethodKprobe, 3 + 3, 0, false, false},
		{"6.12.1", 20, layout.MethodKprobe, 20 * (3 + 3), 0, false, false},
	} {
		k := newFake(t)
		k.release, k.withoutTracefs = c.release, !c.traced
		tracer, _, err := k.attach(c.n, bothEnds, c.method)
		if err != nil {
			t.Fatal(err)
		}
		k.misses = 3
		for i := range uint32(bpf.Counters) {
			fakeTable{k, bpf.MapCounters}.Put(i, []uint64{0})
		}
		got, err := tracer.Counters()
		if err != nil || got[bpf.Missed] != c.entries || got[bpf.MissedReturn] != c.returns || tracer.Uncounted() != c.uncounted {
			t.Errorf("%+v: %d and %d, uncounted %v, %v", c, got[bpf.Missed], got[bpf.MissedReturn], tracer.Uncounted(), err)
		}
	}
}

// TestMissedTasks: what the engine's own programs have missed is counted apart from calls.
func TestMissedTasks(t *testing.T) {
	k := newFake(t)
	k.skips = 40
	tracer := k.sessions(io.Discard)
	k.skips = 45 // also of the program that sees threads end, whose sessions another one counts
	for i := range uint32(bpf.Counters) {
		fakeTable{k, bpf.MapCounters}.Put(i, []uint64{0})
	}
	got, err := tracer.Counters()
	// The engine has a program for the end of a task with a session. The two functions have one at both ends.
	if err != nil || got[bpf.MissedTask] != 5 || got[bpf.Missed] != 4*5 {
		t.Errorf("of tasks %d, of calls %d, %v", got[bpf.MissedTask], got[bpf.Missed], err)
	}
}

// TestLeftOut: sessions that were not wanted are counted apart, by cause.
func TestLeftOut(t *testing.T) {
	k := newFake(t)
	tracer := k.sessions(io.Discard)
	for i := range uint32(bpf.Counters) {
		fakeTable{k, bpf.MapCounters}.Put(i, []uint64{0, 0})
	}
	k.values[bpf.VarLeftOut] = bpf.LeftOut{3, 5, 7, 9}
	got, err := tracer.Counters()
	if err != nil {
		t.Fatal(err)
	}
	if got[bpf.LeftFine] != 3 || got[bpf.LeftError] != 5 || got[bpf.LeftShort] != 7 || got[bpf.LeftUnmet] != 9 {
		t.Errorf("%v", got)
	}
	k.refuse = map[string]error{"get " + bpf.VarLeftOut: unix.EPERM}
	if _, err := tracer.Counters(); err == nil || err.Error() != "reading the counters: operation not permitted" {
		t.Error(err)
	}
}

// TestStop: what was stopped is not started again.
func TestStop(t *testing.T) {
	k := newFake(t)
	tracer := k.attached()
	for _, f := range []func() error{tracer.Start, tracer.Stop, tracer.Start} {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	if got := k.done(bpf.VarRunning); !slices.Equal(got, []string{bpf.VarRunning + " = 1", bpf.VarRunning + " = 0"}) {
		t.Errorf("%q", got)
	}
	tracer = newFake(t).attached()
	tracer.host.(*fakeKernel).refuse["set "+bpf.VarRunning] = unix.EPERM
	if err := tracer.Start(); err == nil || err.Error() != "switching the programs on or off: operation not permitted" {
		t.Error(err)
	}
}

// TestClosed: while a tracer is closed, and afterwards, whoever ends ksnoop at once may ask it for what that takes.
func TestClosed(t *testing.T) {
	k := newFake(t)
	tracer := k.attached()
	k.sent = [][]byte{{1}}
	if n := tracer.Pending(); n == 0 {
		t.Error("no record waits")
	}
	asking, asked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(asked)
		for i := 0; tracer.Pending() > 0; i++ {
			if i == 0 {
				close(asking)
			}
		}
	}()
	<-asking
	if err := tracer.Close(); err != nil {
		t.Fatal(err)
	}
	<-asked
	if n := tracer.Pending(); n != 0 {
		t.Errorf("%d bytes wait in a buffer that is gone", n)
	}
	if _, err := tracer.Counters(); !errors.Is(err, errDetached) {
		t.Errorf("counters: %v", err)
	}
	if err := errors.Join(tracer.Stop(), tracer.Detach()); err != nil || tracer.Uncounted() || tracer.Cut() != 0 {
		t.Errorf("%v; uncounted %v, %d cut", err, tracer.Uncounted(), tracer.Cut())
	}
}

// TestForks: new tasks are followed where no task is preempted, but for kernels whose maps must not take memory there.
func TestForks(t *testing.T) {
	for release, want := range map[string]string{"7.3.4": "sched_wakeup_new", "6.1.0": "sched_wakeup_new", "6.0.19": "sched_process_fork", "5.15.0": "sched_process_fork", "": "sched_process_fork"} {
		k := newFake(t)
		k.release = release
		k.attached(func(o *Options) { o.Settings.Filter.Family = true })
		for _, tp := range []string{"sched_wakeup_new", "sched_process_fork"} {
			if is := slices.Contains(k.log, "+raw_tp "+tp); is != (tp == want) {
				t.Errorf("%s: attached to %s: %v", release, tp, is)
			}
		}
	}
}

// TestAdopt: what has entered itself is left as it is, and what has ended is not in the family.
func TestAdopt(t *testing.T) {
	k := newFake(t)
	k.release = "7.3.4"
	tracer := k.attached(func(o *Options) { o.Settings.Filter.Family = true })
	k.tables[bpf.MapFamily] = map[any]any{uint32(4712): uint64(0xffff)}
	k.gone = []int{4713}
	for pid := 4711; pid <= 4713; pid++ {
		if err := tracer.Adopt(pid); err != nil {
			t.Fatal(err)
		}
	}
	if family := k.tables[bpf.MapFamily]; len(family) != 2 || family[uint32(4711)] != uint64(0) || family[uint32(4712)] != uint64(0xffff) {
		t.Errorf("%v", family)
	}
	for _, tp := range []string{"+raw_tp sched_wakeup_new", "+raw_tp sched_process_free"} {
		if !slices.Contains(k.log, tp) {
			t.Errorf("%s is not followed: %q", tp, k.log)
		}
	}
	for pid, want := range map[int]bool{4711: true, 4713: false} {
		if got, err := tracer.Follows(pid); got != want || err != nil {
			t.Errorf("process %d is followed: %v, %v", pid, got, err)
		}
	}
	k.refuse["put "+bpf.MapFamily] = unix.E2BIG
	if err := tracer.Adopt(1); err == nil || err.Error() != "following process 1: argument list too long" {
		t.Error(err)
	}
}

// TestRecords: all that was sent is read after the end, and an error ends it.
func TestRecords(t *testing.T) {
	for _, latency := range []time.Duration{0, time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			k := newFake(t)
			tracer := k.attached(func(o *Options) { o.Latency = latency })
			k.sent = [][]byte{{1}, {2}, {3}}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			var got []byte
			for raw, err := range tracer.Records(ctx) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, raw...)
			}
			if !bytes.Equal(got, []byte{1, 2, 3}) || tracer.Cut() != 0 {
				t.Errorf("%v, %d cut", got, tracer.Cut())
			}
			k.sent, k.refuse["read"] = [][]byte{{1}, {2}}, io.ErrUnexpectedEOF
			n := 0
			for _, err := range tracer.Records(t.Context()) {
				if n++; !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Error(err)
				}
			}
			if n != 1 {
				t.Errorf("%d errors", n)
			}
		})
	}
}

// TestRecordsLast: what is sent after the buffer was found empty, and before the end, is read.
// A command may do all that it does between the two, if we are not run for so long.
func TestRecordsLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t)
		tracer := k.attached(func(o *Options) { o.Latency = time.Millisecond })
		ctx, cancel := context.WithCancel(t.Context())
		k.emptied = func() {
			if ctx.Err() == nil {
				k.sent = [][]byte{{1}, {2}, {3}}
				cancel()
			}
		}
		var got []byte
		for raw, err := range tracer.Records(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, raw...)
		}
		if !bytes.Equal(got, []byte{1, 2, 3}) {
			t.Errorf("%v", got)
		}
	})
}

// TestRecordsHurry: with somebody waiting, what cannot be read in time is counted. Marks of losses
// are not: they tell what is counted elsewhere.
func TestRecordsHurry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t)
		hurry := make(chan struct{})
		tracer := k.attached(func(o *Options) { o.Hurry = hurry })
		close(hurry)
		const sent = 5000
		mark := binary.LittleEndian.AppendUint64(bpf.AppendEvent(nil, &bpf.Event{Kind: bpf.KindLost}), 7)
		k.sent, k.slow = slices.Repeat([][]byte{{1}, mark}, sent), time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begin, read := time.Now(), 0
		var took time.Duration
		for raw := range tracer.Records(ctx) {
			if !bpf.IsLost(raw) {
				read++
			}
			took = time.Since(begin)
		}
		if took > drainTime+50*time.Millisecond || took < drainTime || uint64(read)+tracer.Cut() != sent {
			t.Errorf("%v: %d read, %d cut, want %d", took, read, tracer.Cut(), sent)
		}
	})
}

// TestRecordsHurryBusy: the time counts from when somebody began to wait, whatever a record takes.
func TestRecordsHurryBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t)
		hurry := make(chan struct{})
		tracer := k.attached(func(o *Options) { o.Hurry = hurry })
		const sent = 100
		k.sent = slices.Repeat([][]byte{{1}}, sent)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, func() { close(hurry); cancel() })
		begin, read, asked := time.Now(), 0, make(chan uint64, sent)
		for range tracer.Records(ctx) {
			read++
			time.Sleep(3 * time.Second)
			go func() { asked <- tracer.Cut() }() // as after a second signal; the race detector tells whether it may
		}
		<-asked
		if took := time.Since(begin); took != 3*time.Second || read != 1 || tracer.Cut() != sent-1 {
			t.Errorf("%v: %d read, %d cut", took, read, tracer.Cut())
		}
	})
}

// TestLinger: records wait to be read together, and not while the buffer fills up.
func TestLinger(t *testing.T) {
	for _, c := range []struct {
		n    int // of 64 bytes, after 30 ms
		want time.Duration
	}{{1, 100 * time.Millisecond}, {17, 50 * time.Millisecond}} {
		synctest.Test(t, func(t *testing.T) {
			k := newFake(t)
			tracer := k.attached(func(o *Options) { o.Latency = 100 * time.Millisecond })
			begin := time.Now()
			time.AfterFunc(30*time.Millisecond, func() {
				k.mu.Lock()
				defer k.mu.Unlock()
				k.sent = slices.Repeat([][]byte{{1}}, c.n)
			})
			for range tracer.Records(t.Context()) {
				break
			}
			if took := time.Since(begin); took != c.want {
				t.Errorf("%d records are read after %v, want %v", c.n, took, c.want)
			}
		})
	}
}

// TestKeepWithin: what programs take is kept below the budget by pauses, without any where
// there is no need, and tracing ends where pauses do not help.
func TestKeepWithin(t *testing.T) {
	const limit, seconds = 0.25, 60
	for _, c := range []struct {
		what           string
		always, looked float64
		paused         bool
		hopeless       bool
	}{
		{"little", 0, 0.2, false, false},
		{"much", 0, 2, true, false},
		{"hopeless", 0.5, 0.1, true, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := newFake(t)
			tracer := k.attached()
			if err := tracer.Start(); err != nil {
				t.Fatal(err)
			}
			k.always, k.looked = c.always, c.looked
			ctx, cancel := context.WithTimeout(t.Context(), seconds*time.Second)
			defer cancel()
			said := 0
			err := tracer.KeepWithin(ctx, Budget{Share: limit, Say: func(_, part float64) { said++ }})
			if hopeless := errors.As(err, new(errTooMuch)); hopeless != c.hopeless || err != nil && !hopeless {
				t.Errorf("%s: %v", c.what, err)
			}
			if paused := tracer.pausedFor() > 0; paused != c.paused || said > 0 != c.paused {
				t.Errorf("%s: paused for %v, said %d times", c.what, tracer.pausedFor(), said)
			}
			k.always, k.looked = 0, 0
			takes := float64(k.runtime()) / float64(seconds*time.Second)
			if !c.hopeless && takes > limit*1.5 { // the first seconds are a burst
				t.Errorf("%s: took %.2f of a CPU", c.what, takes)
			}
			if slices.Contains(k.held, "statistics") {
				t.Errorf("%s: the kernel goes on measuring", c.what)
			}
		})
	}
}

// TestKeepWithinSlowly: what begins slowly never takes the whole machine, and what takes little soon
// runs always, without a word.
func TestKeepWithinSlowly(t *testing.T) {
	const limit = 0.25
	for _, c := range []struct {
		what   string
		looked float64
		most   float64       // that may be taken in the first second
		paused time.Duration // that it takes to see that there is no need to; 0: goes on
	}{
		{"little", 0.2, 0.2, 150 * time.Millisecond},
		{"a whole CPU", 1, limit, 0},
		{"more than there is", 8, limit, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := newFake(t)
			tracer := k.attached()
			k.looked = c.looked
			if err := tracer.StartPaused(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if took := k.runtime(); took != 0 {
				t.Errorf("%s: took %v before it was to run", c.what, took)
			}
			for _, seconds := range []time.Duration{1, 10} {
				ctx, cancel := context.WithTimeout(t.Context(), seconds*time.Second)
				before, paused, said := k.runtime(), tracer.pausedFor(), 0
				if err := tracer.KeepWithin(ctx, Budget{Share: limit, Slowly: true, Say: func(_, part float64) { said++ }}); err != nil {
					t.Errorf("%s: %v", c.what, err)
				}
				cancel()
				if takes := float64(k.runtime()-before) / float64(seconds*time.Second); takes > c.most {
					t.Errorf("%s: took %.2f of a CPU in %d s", c.what, takes, seconds)
				}
				if paused = tracer.pausedFor() - paused; c.paused != 0 && paused > c.paused || c.paused == 0 && paused < time.Second/2 || said > 0 != (c.paused == 0) {
					t.Errorf("%s: paused for %v in %d s, said %d times", c.what, paused, seconds, said)
				}
				if err := tracer.StartPaused(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestKeepWithinBlind: without the right to measure programs that is said once, and no more is tried.
func TestKeepWithinBlind(t *testing.T) {
	for _, asked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			k := newFake(t)
			k.refuse["statistics"] = unix.EPERM
			var log bytes.Buffer
			tracer := k.attached(func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			k.asked = 0
			if err := tracer.KeepWithin(ctx, Budget{Share: 0.1, Asked: asked}); err != nil {
				t.Fatal(err)
			}
			level := map[bool]string{false: "level=INFO", true: "level=WARN"}[asked]
			if text := log.String(); strings.Count(text, "CAP_SYS_ADMIN") != 1 || !strings.Contains(text, level) {
				t.Errorf("asked %v: %s", asked, text)
			}
			if n := len(k.done("+statistics")); n != 1 {
				t.Errorf("asked %v: tried %d times", asked, n)
			}
			if k.asked != 0 {
				t.Errorf("asked %v: read %d times what programs took", asked, k.asked)
			}
		})
	}
}

// TestKeepWithinOwn: what ksnoop itself takes is the reason of a pause also if its last second was quiet: the pause is told of, and its end.
func TestKeepWithinOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t)
		k.refuse["statistics"] = unix.EPERM
		tracer := k.attached()
		if err := tracer.Start(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		go func() {
			time.Sleep(time.Second / 2)
			for _, percent := range []time.Duration{60, 60, 10, 10} {
				k.own.Add(int64(percent * time.Second / 100))
				tracer.read.Add(1 << 20)
				time.Sleep(time.Second)
			}
		}()
		var parts []float64
		if err := tracer.KeepWithin(ctx, Budget{Share: 0.25, Say: func(_, part float64) { parts = append(parts, part) }}); err != nil {
			t.Fatal(err)
		}
		if len(parts) != 2 || parts[0] == 1 || parts[1] != 1 || tracer.pausedFor() == 0 {
			t.Errorf("paused for %v, said of parts %v", tracer.pausedFor(), parts)
		}
	})
}

// TestKeepWithinSlowlyBlind: what begins slowly does so also where the kernel does not measure programs, and goes on slowly
// where they keep ksnoop from its turn. That is a guess, and nothing is said of it, also while all calls come to be looked at.
func TestKeepWithinSlowlyBlind(t *testing.T) {
	for _, c := range []struct {
		refused     error
		late        time.Duration
		least, most time.Duration // of pauses in the first second
	}{
		{unix.EPERM, 0, 100 * time.Millisecond, 150 * time.Millisecond},
		{unix.EMFILE, 0, 100 * time.Millisecond, 150 * time.Millisecond},
		{unix.EPERM, 100 * time.Millisecond, 250 * time.Millisecond, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := newFake(t)
			k.refuse["statistics"], k.late = c.refused, c.late
			tracer := k.attached()
			if err := tracer.StartPaused(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			say := func(takes, part float64) { t.Errorf("%v, late by %v: said %v, %v", c.refused, c.late, takes, part) }
			b := Budget{Share: 0.25, Slowly: true, Say: say}
			if err := tracer.KeepWithin(ctx, b); err != nil {
				t.Fatal(err)
			}
			if paused := tracer.pausedFor(); paused < c.least || paused > c.most {
				t.Errorf("%v, late by %v: paused for %v, want %v to %v", c.refused, c.late, paused, c.least, c.most)
			}
			if err := tracer.StartPaused(); err != nil {
				t.Fatal(err)
			}
			again, stop := context.WithTimeout(t.Context(), 20*time.Second)
			defer stop()
			if err := tracer.KeepWithin(again, b); err != nil {
				t.Fatal(err)
			}
			if !k.on {
				t.Errorf("%v, late by %v: paused in the end", c.refused, c.late)
			}
		})
	}
}

// TestGuesses: what is measured is no guess, nor is what ksnoop itself takes much of.
func TestGuesses(t *testing.T) {
	for _, c := range []struct{ unmeasured, rising, much, want bool }{
		{false, true, true, false},
		{false, false, false, false},
		{true, true, true, true},
		{true, false, false, true},
		{true, false, true, false},
	} {
		s := sampler{unmeasured: c.unmeasured}
		if got := s.guesses(c.rising, c.much); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// sessions attaches a session of two functions.
func (k *fakeKernel) sessions(log io.Writer) *Tracer {
	k.t.Helper()
	view := k.view(2)
	entry, err := expr.Parse("f0")
	if err != nil {
		k.t.Fatal(err)
	}
	allow, err := expr.Parse("f1(count)")
	if err != nil {
		k.t.Fatal(err)
	}
	s, _, err := plan.ResolveSession(view, plan.SessionRequest{Entry: []*expr.Spec{entry}, Allow: []*expr.Spec{allow}}, plan.Options{Arch: "amd64"})
	if err != nil {
		k.t.Fatal(err)
	}
	o := Options{Settings: bpf.Settings{RingSize: 4096}, Kernel: view, Log: slog.New(slog.NewTextHandler(log, nil))}
	o.Code.Arch, o.Code.Subprograms = "amd64", []bpf.Subprogram{{Name: bpf.FuncPreemptCount, Insns: returning()}}
	if o, err = SessionOptions(s, o, bpf.SessionSettings{Hung: 1}); err != nil {
		k.t.Fatal(err)
	}
	tracer, err := attachTo(k, s, o)
	if err != nil {
		k.t.Fatal(err)
	}
	return tracer
}

// TestSessionsHung: the kernel is asked at intervals for sessions that hang, also when it has refused. That is said once a minute.
func TestSessionsHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t)
		var log bytes.Buffer
		tracer := k.sessions(&log)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		tracer.WatchHung(ctx, 300*time.Millisecond)
		if n := len(k.done("iterate")); n != 3 || log.Len() != 0 {
			t.Errorf("asked %d times; %s", n, log.String())
		}
		for _, c := range []struct {
			answers []error
			said    int
		}{
			{[]error{unix.ENOMEM, unix.ENOMEM, nil, unix.ENOMEM, unix.ENOMEM}, 1},
			{[]error{unix.ENOMEM, unix.EPERM, unix.ENOMEM}, 1},
			{slices.Repeat([]error{unix.ENOMEM, nil}, 205), 3}, // two minutes and three seconds
		} {
			log.Reset()
			k.log, k.iterations = nil, c.answers
			again, stop := context.WithTimeout(t.Context(), time.Duration(len(c.answers))*300*time.Millisecond+time.Millisecond)
			tracer.WatchHung(again, 300*time.Millisecond)
			stop()
			if n, said := len(k.done("iterate")), strings.Count(log.String(), "looking for sessions that hang: "); n != len(c.answers) || said != c.said {
				t.Errorf("%v: asked %d times, said %d times, want %d", c.answers, n, said, c.said)
			}
		}
	})
}

func TestOpenSessions(t *testing.T) {
	k := newFake(t)
	tracer := k.sessions(io.Discard)
	k.values[bpf.VarOpenSessions] = uint32(3)
	if n, err := tracer.OpenSessions(); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	k.refuse["get "+bpf.VarOpenSessions] = unix.EPERM
	if _, err := tracer.OpenSessions(); err == nil || err.Error() != "reading the number of open sessions: operation not permitted" {
		t.Error(err)
	}
	if err := newFake(t).attached().ReportHung(); err != nil {
		t.Errorf("without sessions: %v", err)
	}
}

// harmlessView is a kernel that has what trials call.
func harmlessView(t *testing.T) *kernel.View {
	t.Helper()
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	b, err := btf.NewBuilder([]btf.Type{&btf.Func{Name: harmless, Linkage: btf.StaticFunc,
		Type: &btf.FuncProto{Return: integer, Params: []btf.FuncParam{{Name: "a", Type: integer}}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return kernel.Open(fstest.MapFS{"sys/kernel/btf/vmlinux": {Data: raw},
		"proc/kallsyms": {Data: []byte("ffffffff81000000 T _stext\nffffffff81000040 T " + harmless + "\n")}})
}

// TestTrial: a trial is passed when a record of the call comes, leaves nothing behind, and says
// what it was that did not work.
func TestTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			what   string
			change func(*fakeKernel)
			want   string
		}{
			{"all is well", func(k *fakeKernel) {}, ""},
			{"no record", func(k *fakeKernel) { k.answer = false }, "all was attached and the function called, but no record came"},
			{"a loss", func(k *fakeKernel) {
				k.answer = false
				fakeTable{k, bpf.MapCounters}.Put(uint32(bpf.LostRingbuf), []uint64{1})
			}, "no record came; losses by cause"},
			{"no call", func(k *fakeKernel) { k.refuse["call"] = enotsupp }, "having the kernel call bpf_fentry_test1: "},
			{"no ring buffer", func(k *fakeKernel) { k.refuse["ring buffer"] = unix.EINVAL }, "opening the ring buffer: invalid argument"},
			{"no switch", func(k *fakeKernel) { k.refuse["set "+bpf.VarRunning] = unix.EPERM }, "switching the programs on or off"},
			{"notrace", func(k *fakeKernel) { k.traits[harmless] = notrace }, "device or resource busy"},
		} {
			k := newFake(t)
			k.answer = true
			c.change(k)
			err := Trial{Method: layout.MethodFentry}.run(t.Context(), k, harmlessView(t), "amd64")
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s: %v, want %s", c.what, err, c.want)
			}
			if len(k.held) != 0 {
				t.Errorf("%s: open are %q", c.what, k.held)
			}
		}
		k := newFake(t)
		k.lacks = []Capability{CapKprobeMulti}
		if err := (Trial{Method: layout.MethodKprobeMulti}).run(t.Context(), k, harmlessView(t), "amd64"); !errors.Is(err, ebpf.ErrNotSupported) || len(k.log) != 0 {
			t.Errorf("%v; done was %q", err, k.log)
		}
	})
	names := map[string]bool{}
	for _, trial := range Trials() {
		names[trial.String()] = true
	}
	if len(names) != 2*len(trialMethods) || !names["calls by fentry"] || !names["sessions by multi"] {
		t.Errorf("%v", names)
	}
}

// TestChooseUntyped: without the kernel's own BTF there are kprobes, and many of them by one link
// where the kernel has that; what needs BTF says so.
func TestChooseUntyped(t *testing.T) {
	const entry, both = "(count)", "(count, return)"
	for _, c := range []struct {
		n     int
		items string
		lacks []Capability
		calls bool
		want  layout.Method
	}{
		{2, entry, nil, true, layout.MethodKprobe}, {17, entry, nil, true, layout.MethodKprobeMulti}, {17, both, nil, true, layout.MethodKprobeMulti},
		{17, entry, []Capability{CapKprobeMulti}, true, layout.MethodKprobe}, {17, entry, nil, false, layout.MethodFentry},
		{17, entry, []Capability{CapKretprobeMulti}, true, layout.MethodKprobeMulti}, {17, both, []Capability{CapKretprobeMulti}, true, layout.MethodKprobe},
	} {
		k := newFake(t)
		k.lacks = c.lacks
		p, err := chooseUntyped(k, chosenPlan(t, c.n, c.items, false), c.calls)
		if err != nil {
			t.Fatal(err)
		}
		for _, probe := range p.Probes {
			if probe.Method != c.want {
				t.Errorf("%d without %v: %s, want %s", c.n, c.lacks, probe.Method, c.want)
			}
		}
	}
	for m, possible := range map[layout.Method]bool{layout.MethodKprobe: true, layout.MethodKprobeMulti: true, layout.MethodFentry: false, layout.MethodKprobeSession: false} {
		if err := NeedsBTF(m); (err == nil) != possible {
			t.Errorf("%s: %v", m, err)
		}
	}
}

// TestInOwnNamespace: where PIDs are not the kernel's, it is asked for them; without an answer nothing is attached.
func TestInOwnNamespace(t *testing.T) {
	k := newFake(t)
	k.contained = true
	k.refuse["iterator"] = unix.EPERM
	_, _, err := k.attach(1, "", layout.MethodFentry)
	if err == nil || err.Error() != "ksnoop is in a PID namespace of its own; asking the kernel for the processes in it: operation not permitted" {
		t.Error(err)
	}
	if len(k.held) != 0 {
		t.Errorf("open are %q", k.held)
	}
}
