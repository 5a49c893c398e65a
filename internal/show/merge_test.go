// SPDX-License-Identifier: Apache-2.0

package show

import (
	"encoding/binary"
	"errors"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// sentAt yields a record of the plan of sent for each time, which is its value as well, and
// then an error, if there is one. The memory of a record is used again, as a Reader's is.
func sentAt(failed error, times ...uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		raw := make([]byte, 256)
		for _, at := range times {
			e := bpf.Event{PID: 7, TID: 7, Time: at}
			raw = binary.LittleEndian.AppendUint64(bpf.AppendEvent(raw[:0], &e), at)
			if !yield(raw, nil) {
				return
			}
			clear(raw)
		}
		if failed != nil {
			yield(nil, failed)
		}
	}
}

// mergedLines are the values of the calls that Merge writes, and the marks of hosts.
func mergedLines(t *testing.T, out string) (lines []string) {
	if n := strings.Count(out, "TIMESTAMP"); n != 1 || !strings.Contains(strings.SplitN(out, "\n", 2)[0], "TIMESTAMP") {
		t.Errorf("%d headers:\n%s", n, out)
	}
	for line := range strings.Lines(out) {
		if _, n, ok := strings.Cut(strings.TrimSuffix(line, ")\n"), "count = "); ok {
			lines = append(lines, n)
		} else if strings.HasPrefix(line, "--- ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func TestMerge(t *testing.T) {
	defer func(local *time.Location) { time.Local = local }(time.Local)
	time.Local = time.UTC
	k := testKernel(t)
	p, _ := sent(t, k, 0)
	boot := time.Date(2026, 11, 23, 6, 0, 0, 0, time.UTC)
	broken := errors.New("broken")
	run := func(host string, boot time.Time, failed error, times ...uint64) *Merged {
		return &Merged{View: &Calls{Plan: p, Printer: lines(k)}, Records: sentAt(failed, times...), Boot: boot, Host: host}
	}
	for _, c := range []struct {
		name  string
		runs  []*Merged
		count uint64
		want  string
	}{
		{"one clock", []*Merged{run("", boot, nil, 1, 4, 5, 9), run("", boot, nil, 2, 3, 6), run("", boot, nil)}, 0, "1 2 3 4 5 6 9"},
		{"order of each is kept", []*Merged{run("", boot, nil, 1, 7, 2, 8), run("", boot, nil, 5)}, 0, "1 5 7 2 8"},
		{"as many as wanted", []*Merged{run("", boot, nil, 1, 4), run("", boot, nil, 2, 3, 6)}, 3, "1 2 3"},
		{"one is cut off", []*Merged{run("", boot, broken, 1, 4), run("", boot, nil, 2, 6)}, 0, "1 2 4 6"},
		{"hosts", []*Merged{run("a", boot, nil, 1000, 2000, 9000), run("b", boot.Add(5*time.Microsecond), nil, 1001, 3000)}, 0,
			"--- on a, 2026-11-23 06:00:00.000001 ---|1000|2000|--- on b, 2026-11-23 06:00:00.000006 ---|1001|3000|--- on a, 2026-11-23 06:00:00.000009 ---|9000"},
		{"a host that a terminal would act on", []*Merged{run("\x1b[2J\n", boot, nil, 1)}, 0, `--- on \x1b[2J\n, 2026-11-23 06:00:00.000000 ---|1`},
	} {
		var out strings.Builder
		Merge(&out, c.runs, c.count)
		want := strings.Split(c.want, "|")
		if len(want) == 1 {
			want = strings.Fields(c.want)
		}
		if got := mergedLines(t, out.String()); !slices.Equal(got, want) {
			t.Errorf("%s: got\n%q\nwant\n%q", c.name, got, want)
		}
		for i, r := range c.runs {
			if wantErr := c.name == "one is cut off" && i == 0; errors.Is(r.Err, broken) != wantErr || !wantErr && r.Err != nil {
				t.Errorf("%s: %d: %v", c.name, i, r.Err)
			}
			if err := r.View.End(&out, event.Losses{}, r.Err); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestMergeJoined: with a count, calls that had not returned when enough was written are not shown,
// neither at the end of a run that is stopped nor beyond the count at the end of one that is over.
func TestMergeJoined(t *testing.T) {
	k := testKernel(t)
	spec, err := expr.Parse("send(count, return)")
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := plan.Resolve(k, []*expr.Spec{spec}, plan.Options{Arch: runtime.GOARCH})
	if err != nil {
		t.Fatal(err)
	}
	// A run has an entry at each time and, of a negative one, the return of the last entry.
	run := func(times ...int) *Merged {
		return &Merged{View: &Calls{Plan: p, Printer: lines(k), Join: true}, Records: func(yield func([]byte, error) bool) {
			for _, at := range times {
				e := bpf.Event{Kind: bpf.KindEntry, PID: 7, TID: 7, Time: uint64(max(at, -at))}
				if at < 0 {
					e.Kind = bpf.KindReturn
				}
				if !yield(binary.LittleEndian.AppendUint64(bpf.AppendEvent(nil, &e), e.Time), nil) {
					return
				}
			}
		}}
	}
	for _, c := range []struct {
		runs  []*Merged
		count uint64
		want  string
	}{
		{[]*Merged{run(1, 2, -3, -9), run(2, -8)}, 1, "2, return = 3"},
		{[]*Merged{run(1, 2, -3, -9), run(2, -8)}, 2, "2, return = 3|2, return = 8"},
		{[]*Merged{run(1, 2, -3, 4, 5), run(2, -8, 9)}, 2, "2, return = 3|1 /* had not returned by the end */"},
		{[]*Merged{run(1, 2, -3, 4, 5), run(2, -8, 9)}, 0,
			"2, return = 3|1 /* had not returned by the end */|4 /* had not returned by the end */|5 /* had not returned by the end */|2, return = 8|9 /* had not returned by the end */"},
		{[]*Merged{{View: &Summaries{Records: run().View, Printer: nil}, Records: run(1, 2, -3).Records}, run(2, -8)}, 1, "2, return = 3"},
	} {
		var out strings.Builder
		Merge(&out, c.runs, c.count)
		var got []string
		for line := range strings.Lines(out.String()) {
			if _, call, ok := strings.Cut(strings.ReplaceAll(line, ")", ""), "count = "); ok {
				got = append(got, strings.TrimSpace(call))
			}
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("of %d runs, %d: got\n%q\nwant\n%q", len(c.runs), c.count, strings.Join(got, "|"), c.want)
		}
		for i, r := range c.runs {
			if r.Err != nil {
				t.Errorf("%d: %v", i, r.Err)
			}
		}
	}
}

// TestMergeRandom: whatever the times are, all is written once, in order.
func TestMergeRandom(t *testing.T) {
	k := testKernel(t)
	p, _ := sent(t, k, 0)
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		var runs []*Merged
		var all []uint64
		for range 1 + r.IntN(5) {
			var times []uint64
			for range r.IntN(50) {
				times = append(times, 1+r.Uint64N(200))
			}
			slices.Sort(times)
			all = append(all, times...)
			runs = append(runs, &Merged{View: &Calls{Plan: p, Printer: lines(k)}, Records: sentAt(nil, times...)})
		}
		slices.Sort(all)
		var out strings.Builder
		Merge(&out, runs, 0)
		var want []string
		for _, at := range all {
			want = append(want, strconv.FormatUint(at, 10))
		}
		if got := mergedLines(t, out.String()); !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}
