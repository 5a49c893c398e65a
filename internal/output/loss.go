// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// A loss explains one of the engine's counters to people.
type loss struct {
	what, hint string
	// known says that the summary can skip it: the output shows it where it happens, or the
	// user asked for it.
	known bool
}

var losses = [bpf.Counters]loss{
	bpf.LostRingbuf:   {what: "records lost because the ring buffer was full", hint: "try a larger --ringbuf, a narrower SPEC or --rate"},
	bpf.LostDepth:     {what: "calls not seen because too many calls of one thread were open"},
	bpf.LostStash:     {what: "calls not seen because too many were in flight", hint: "make room for more with --in-flight"},
	bpf.LostFamily:    {what: "processes not followed because there are too many"},
	bpf.LostScratch:   {what: "records lost because too many with a stack or branches were under way on one CPU"},
	bpf.LostBranches:  {what: "records without their branches, which others overwrote too soon"},
	bpf.LostValues:    {what: "calls of sessions without their values, for which there was no room"},
	bpf.LostReturn:    {what: "returns of calls in a session not seen because the kernel did not run the program there"},
	bpf.LostChain:     {what: "failures in sessions that gave way to later ones before it was known whether they were the reason"},
	bpf.LostRecursion: {what: "calls left out because tracing itself has made them"},
	bpf.Fault: {what: "calls left out because a predicate, or what is added up, met unreadable memory or divided by zero",
		hint: "a string in user space is read by ustr(p)"},
	bpf.RateLimited: {what: "calls left out by --rate"},
	bpf.Unreadable:  {what: "records with values that could not be read", known: true},
	bpf.Truncated:   {what: "strings and buffers of which only the beginning was captured", known: true},
	bpf.LostSession: {what: "sessions not recorded because too many were open at once", hint: "make room for more with --sessions"},
	bpf.LostNMI:     {what: "sessions not recorded because a non-maskable interrupt began them"},
	bpf.MissedReturn: {what: "calls or returns not seen because the kernel has no room to wait for more returns at once",
		hint: "functions that sleep or call themselves are better traced with --attach=fentry or --attach=kprobe"},
	bpf.PausedTime: {what: "milliseconds in which no calls were looked at, so that tracing takes no more than --max-cpu", hint: "allow more of it, or trace less"},
	bpf.Missed: {what: "calls or returns not seen because the kernel skips tracing programs on a CPU where another runs, or where a task was preempted inside one",
		hint: "the latter does not happen with --attach=session, multi and kprobe"},
	bpf.Overwritten:   {what: "records that made room for newer ones", hint: "a larger --flight keeps more"},
	bpf.LostKey:       {what: "times a call was not added to a table because it had no room for another key", hint: "make room for more with --keys"},
	bpf.LostRow:       {what: "times a call was not added to a table because its row was being changed on the same CPU"},
	bpf.LostPath:      {what: "calls without their path, for which there was no room"},
	bpf.ShortStack:    {what: "user stacks that are deeper than what was copied of them", hint: "copy more with --ustack=dwarf,SIZE"},
	bpf.LostInner:     {what: "sessions not recorded because their calls were taken for calls within an earlier one, whose return was not seen"},
	bpf.LostKeptStack: {what: "calls added up without their stack, for which there was no room"},
	bpf.LeftFine:      {what: "sessions not shown because they did not fail", known: true},
	bpf.LeftError:     {what: "sessions not shown because of the errors that they failed with", known: true},
	bpf.LeftShort:     {what: "sessions not shown because they did not take long enough", known: true},
	bpf.LeftUnmet:     {what: "sessions not shown because no call met the predicates", known: true},
}

// LossText says what a counter of the engine counts, as in "5 calls left out by --rate".
func LossText(cause bpf.Counter) string { return losses[cause].what }

// IsLoss reports whether a counter counts what is missing, and not what was left out as the user asked, or what the
// output shows where it is missing.
func IsLoss(cause bpf.Counter) bool { return !losses[cause].known }

// appendMark appends the mark that stands where n records are missing.
func appendMark(dst []byte, cause bpf.Counter, n uint64, colour bool) []byte {
	return appendMissing(dst, n, losses[cause].what, colour)
}

// appendMissing appends a line that says that something is missing.
func appendMissing(dst []byte, n uint64, what string, colour bool) []byte {
	var s terminal.Style
	if colour {
		s = terminal.Note
	}
	return append(appendPainted(dst, fmt.Appendf(nil, "--- %d %s ---", n, what), s), '\n')
}

// AppendLosses appends a line for each cause of loss: for all causes, or only for those
// that occurred and are not known already.
func AppendLosses(dst []byte, counts *[bpf.Counters]uint64, all bool) []byte {
	for i, n := range counts {
		l := &losses[i]
		if !all && (n == 0 || l.known) {
			continue
		}
		dst = fmt.Appendf(dst, "ksnoop: %d %s", n, l.what)
		if n > 0 && l.hint != "" {
			dst = append(append(dst, "; "...), l.hint...)
		}
		dst = append(dst, '\n')
	}
	return dst
}
