// SPDX-License-Identifier: Apache-2.0

package output_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/summary"
)

// printed prints a summary of one SPEC for a terminal of 60 columns, without its losses.
func printed(t *testing.T, spec string, fill func(s *formattest.Summed)) string {
	t.Helper()
	k := formattest.New(t, "t_")
	k.Calls(spec)
	s := k.Summed()
	fill(s)
	k.Run.User = func(e *bpf.Event, comm string) output.Process { return process(strconv.Itoa(int(e.PID)) + comm) }
	x := s.Summary()
	x.Lost = nil
	text, err := output.NewSummaries(k.Run, func() int { return 60 }, false).AppendSummary(nil, x)
	if err != nil {
		t.Fatal(err)
	}
	return "\n" + string(text)
}

// A process names its addresses.
type process string

func (p process) AppendFrame(dst []byte, addr uint64, returns bool) []byte {
	return append(strconv.AppendUint(append(dst, p...), addr, 16), strconv.FormatBool(returns)...)
}
func (process) Missing() string { return "no symbols" }

// TestSummaries has tables of all kinds. What they must say was worked out by hand.
func TestSummaries(t *testing.T) {
	for _, c := range []struct {
		name, spec string
		fill       func(s *formattest.Summed)
		want       string
	}{
		{"no calls", "t_read(sum(count)[$comm])", func(s *formattest.Summed) {}, `
t_read: sum(count)[$comm]
    no calls

`},
		{"only some calls", "t_read(count > 3, quick == 1, count())", func(s *formattest.Summed) {}, `
t_read(count > 3, quick == 1): count()
    no calls

`},
		{"no keys", "t_read(count())", func(s *formattest.Summed) { s.Add(0, nil, make([]uint64, 1234)...) }, `
t_read: count()
    1,234

`},
		{"no calls, with a row of each CPU", "t_read(sum(count))", func(s *formattest.Summed) { s.Add(0, nil) }, `
t_read: sum(count)
    no calls

`},
		{"strings that may be cut", "t_read(count()[path])", func(s *formattest.Summed) {
			s.Add(0, []any{strings.Repeat("b", 62)}, 0)
			s.Add(0, []any{strings.Repeat("b", 63)}, 0, 0)
		}, `
t_read: count()[path]
    path                                                                  count()
    "` + strings.Repeat("b", 63) + `"...        2
    "` + strings.Repeat("b", 62) + `"            1

`},
		{"results and names", "t_read(count()[return, $comm])", func(s *formattest.Summed) {
			s.Add(0, []any{-2, "cat"}, 0, 0)
			s.Add(0, []any{4096, "a\n\"b\""}, make([]uint64, 1000)...)
			s.Add(0, []any{512, "cat"}, 0, 0)
			s.Add(0, []any{formattest.Unread{}, "cat"}, 0, 0)
		}, `
t_read: count()[return, $comm]
    return          $comm       count()
    4096            "a\n\"b\""    1,000
    -ENOENT         "cat"             2
    512             "cat"             2
    ? (unreadable)  "cat"             2

`},
		{"functions", "t_*(count()[$func])", func(s *formattest.Summed) {
			s.Add(0, []any{1}, 0)
			s.Add(0, []any{2}, 0, 0)
		}, `
t_*: count()[$func]
    $func   count()
    t_read        2
    t_open        1

`},
		{"mean", "t_open(avg(flags)[$pid])", func(s *formattest.Summed) {
			s.Add(0, []any{8}, 1, 2, 2)
			s.Add(0, []any{9}, formattest.Errno(3), formattest.Errno(2))
			s.Add(0, []any{10}, 5000000)
		}, `
t_open: avg(flags)[$pid]
    $pid  avg(flags)
      10   5,000,000
       8        1.67
       9       -2.50

`},
		{"smallest", "t_open(min(return)[$comm])", func(s *formattest.Summed) {
			s.Add(0, []any{"b"}, 3, 9)
			s.Add(0, []any{"a"}, 3, formattest.Errno(13))
		}, `
t_open: min(return)[$comm]
    $comm  min(return)
    "a"        -EACCES
    "b"              3

`},
		{"largest", "t_read(max(count)[quick])", func(s *formattest.Summed) {
			s.Add(0, []any{0}, 3, 9)
			s.Add(0, []any{1}, 1<<32-1)
		}, `
t_read: max(count)[quick]
    quick     max(count)
        1  4,294,967,295
        0              9

`},
		{"stats of times", "t_open(stats($duration)[$comm])", func(s *formattest.Summed) {
			s.Add(0, []any{"cat"}, 900, 1100, 4000)
			s.Add(0, []any{"dog"}, 2_000_000_000)
		}, `
t_open: stats($duration)[$comm]
    $comm  calls     min      avg      max      sum
    "dog"      1  2.000s   2.000s   2.000s   2.000s
    "cat"      3   900ns  2.000us  4.000us  6.000us

`},
		{"most frequent", "t_read(top(2, count)[$comm])", func(s *formattest.Summed) {
			s.Add(0, []any{"cat"}, 7, 7, 9, 9, 9, 4)
		}, `
t_read: top(2, count)[$comm]
    $comm  count  calls
    "cat"  9          3
    "cat"  7          2

`},
		{"stacks", "t_read(sum(count)[$stack, $ustack])", func(s *formattest.Summed) {
			s.Add(0, []any{1, 1}, 5)
			s.Add(0, []any{0, 0}, 4)
		}, `
t_read: sum(count)[$stack, $ustack]
    5
        t_read
        t_open+0x50            (fs/open.c:1400)
        . do_syscall           (entry/common.c:81)
        entry_SYSCALL_64+0x60  (entry/entry.S:121)
        ... and more, which were not taken
        7cat401000false
        7cat402000true
        /* no symbols */
    4
        no stack
        no user stack

`},
		{"powers of two", "t_read(hist(count)[$comm, quick])", func(s *formattest.Summed) {
			s.Add(0, []any{"cat", 1}, 0, 1, 5, 5, 5, 5, 7, 16)
			s.Add(0, []any{"dog", 0}, 4096)
		}, `
t_read: hist(count)[$comm, quick]
    $comm = "cat", quick = 1
        [0]       1  |@@@@@@@                              |
        [1]       1  |@@@@@@@                              |
        [2, 4)    0  |                                     |
        [4, 8)    5  |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
        [8, 16)   0  |                                     |
        [16, 32)  1  |@@@@@@@                              |

    $comm = "dog", quick = 0
        [4K, 8K)  1  |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|

`},
		{"times, finer", "t_open(hist($duration, 2))", func(s *formattest.Summed) {
			s.Add(0, nil, 1535, 1536, 1537)
		}, `
t_open: hist($duration, 2)
        [1.024us, 1.536us)  1  |@@@@@@@@@@@@@@             |
        [1.536us, 2.048us)  2  |@@@@@@@@@@@@@@@@@@@@@@@@@@@|

`},
		{"negative", "t_open(hist(return))", func(s *formattest.Summed) {
			s.Add(0, nil, formattest.Errno(1), 1<<63-1)
		}, ""},
		{"steps", "t_open(lhist(flags, -10, 2000, 1005))", func(s *formattest.Summed) {
			s.Add(0, nil, formattest.Errno(11), formattest.Errno(10), 994, 995, 1999, 2000)
		}, `
t_open: lhist(flags, -10, 2000, 1005)
        (..., -10)   1  |@@@@@@@@@@@@@@@@@                 |
        [-10, 995)   2  |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
        [995, 2000)  2  |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
        [2000, ...)  1  |@@@@@@@@@@@@@@@@@                 |

`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := printed(t, c.spec, c.fill)
			if c.name == "negative" {
				c.want = "(..., 0)"
				if !strings.Contains(got, "(..., 0)  ") || !strings.Contains(got, "[4E, 8E)  ") {
					t.Error(got)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSummaryTimes: only several summaries say which time they are of.
func TestSummaryTimes(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_read(count())")
	s := k.Summed()
	p := output.NewSummaries(k.Run, nil, false)
	var text []byte
	for i := range 2 {
		s.Add(0, nil, 0)
		x := s.Summary()
		x.Last = i == 1
		var err error
		if text, err = p.AppendSummary(text, x); err != nil {
			t.Fatal(err)
		}
	}
	from, to := formattest.Boot.Add(time.Second).Local().Format("15:04:05.000"), formattest.Boot.Add(2*time.Second).Local().Format("15:04:05.000")
	one := from + " to " + to + "\nt_read: count()\n    1\n\n--- 2 calls left out because a predicate, or what is added up, met unreadable memory or divided by zero ---\n"
	if diff := cmp.Diff(one+one, string(text)); diff != "" {
		t.Error(diff)
	}
	k.Run.Booted = func() time.Time { return formattest.Boot.Add(time.Minute) } // the clock was set
	text, err := output.NewSummaries(k.Run, nil, false).AppendSummary(nil, &summary.Summary{End: 1})
	if want := formattest.Boot.Add(time.Minute).Local().Format("15:04:05.000"); err != nil || string(text) != want+" to "+want+"\n" {
		t.Errorf("%q, %v, want %s", text, err, want)
	}
	text, err = output.NewSummaries(k.Run, nil, false).AppendSummary(nil, &summary.Summary{Last: true})
	if len(text) > 0 || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
