// SPDX-License-Identifier: Apache-2.0

package output

import (
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
)

// Every counter has words, and no two the same.
func TestLossWords(t *testing.T) {
	seen := map[string]bool{}
	for i, l := range losses {
		if l.what == "" || seen[l.what] {
			t.Errorf("counter %d is called %q", i, l.what)
		}
		seen[l.what] = true
	}
}

func TestAppendLosses(t *testing.T) {
	var counts [bpf.Counters]uint64
	if got := AppendLosses(nil, &counts, false); len(got) != 0 {
		t.Errorf("nothing was lost: %s", got)
	}
	counts[bpf.LostRingbuf], counts[bpf.Unreadable] = 12, 3
	want := "ksnoop: 12 records lost because the ring buffer was full; try a larger --ringbuf, a narrower SPEC or --rate\n"
	if got := AppendLosses(nil, &counts, false); string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	counts[bpf.LostRingbuf], counts[bpf.Fault] = 0, 1
	want = "ksnoop: 1 call left out because a predicate, or what is added up, met unreadable memory or divided by zero; " +
		"if a function of the kernel is passed a pointer p to user space, what is there is read by user(p), a string by ustr(p)\n"
	if got := AppendLosses(nil, &counts, false); string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	all := string(AppendLosses(nil, &counts, true))
	if n := strings.Count(all, "\n"); n != len(losses) || !strings.Contains(all, "ksnoop: 3 records with values that could not be read\n") ||
		!strings.Contains(all, "ksnoop: 0 calls left out by --rate\n") {
		t.Errorf("%d lines of %d:\n%s", n, len(losses), all)
	}
	if !strings.Contains(all, "ksnoop: 0 returns of calls in a session not seen: the kernel did not run the program there, or the call never returned\n") {
		t.Errorf("what is counted follows its number:\n%s", all)
	}
	for cause, want := range map[bpf.Counter]string{ // one of them is one
		bpf.LostRingbuf: "1 record lost because the ring buffer was full", bpf.LostReturn: "1 return of calls in a session not seen: the kernel did not run the program there, or the call never returned",
		bpf.LostBranches: "1 record without its branches, which others overwrote too soon", bpf.Truncated: "1 string or buffer of which only the beginning was captured",
		bpf.SwitchedOff: "1 switch of the kernel's, for ftrace or kprobes, was off at the end: calls that need it were not seen since",
		bpf.ShortStack:  "1 user stack that is deeper than what was copied of it", bpf.LeftError: "1 session not shown because of the error that it failed with",
	} {
		if got := LossCount(cause, 1); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if many := LossText(cause); strings.ContainsAny(many, "{|}") || strings.HasPrefix(want, "1 "+many) {
			t.Errorf("%q names what is counted", many)
		}
	}
	if got := string(appendMark(nil, bpf.RateLimited, 312, false)); got != "--- 312 calls left out by --rate ---\n" {
		t.Errorf("mark %q", got)
	}
}
