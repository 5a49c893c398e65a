// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// A loss explains one of the engine's counters to people.
type loss struct {
	what, hint string // what is as plural.Text takes it
	// known says that the summary can skip it: the output shows it where it happens, or the
	// user asked for it.
	known bool
}

var losses = [bpf.Counters]loss{
	bpf.LostRingbuf:   {what: "record{s} lost because the ring buffer was full", hint: "try a larger --ringbuf, a narrower SPEC or --rate"},
	bpf.LostDepth:     {what: "call{s} left out because too many calls of one thread were within each other"},
	bpf.LostStash:     {what: "call{s} not seen because too many were in flight", hint: "make room for more with --in-flight"},
	bpf.LostFamily:    {what: "process{es} not followed because there are too many"},
	bpf.LostScratch:   {what: "record{s} lost because too many with a stack or branches were under way on one CPU"},
	bpf.LostBranches:  {what: "record{s} without {its|their} branches, which others overwrote too soon"},
	bpf.LostValues:    {what: "call{s} of sessions without {its|their} values, for which there was no room"},
	bpf.LostReturn:    {what: "return{s} of calls in a session not seen: the kernel did not run the program there, or the call never returned"},
	bpf.LostChain:     {what: "failure{s} in sessions that gave way to later ones before it was known whether {it was|they were} the reason"},
	bpf.LostRecursion: {what: "call{s} left out because tracing itself has made {it|them}"},
	bpf.Fault: {what: "call{s} left out because a predicate, or what is added up, met unreadable memory or divided by zero",
		hint: "if a function of the kernel is passed a pointer p to user space, what is there is read by user(p), a string by ustr(p)"},
	bpf.RateLimited: {what: "call{s} left out by --rate"},
	bpf.Unreadable:  {what: "record{s} with values that could not be read", known: true},
	bpf.Truncated:   {what: "{string or buffer|strings and buffers} of which only the beginning was captured", known: true},
	bpf.LostSession: {what: "session{s} not recorded because too many were open at once", hint: "make room for more with --sessions"},
	bpf.LostNMI:     {what: "session{s} not recorded because a non-maskable interrupt began {it|them}"},
	bpf.MissedReturn: {what: "call{s} or return{s} not seen because the kernel has no room to wait for more returns at once",
		hint: "functions that sleep or call themselves are better traced with --attach=fentry, or a few of them with --attach=kprobe"},
	bpf.PausedTime: {what: "millisecond{s} in which no calls were looked at, so that tracing takes no more than --max-cpu", hint: "allow more of it, or trace less"},
	bpf.Missed: {what: "call{s} or return{s} not seen because the kernel skips tracing programs on a CPU where another runs, or where a task was preempted inside one",
		hint: "the latter does not happen with --attach=session, multi and kprobe"},
	bpf.Overwritten:   {what: "record{s} that made room for newer ones", hint: "a larger --flight keeps more"},
	bpf.LostKey:       {what: "time{s} a call was not added to a table because it had no room for another key", hint: "make room for more with --keys"},
	bpf.LostRow:       {what: "time{s} a call was not added to a table because its row was being changed on the same CPU"},
	bpf.LostPath:      {what: "call{s} without {its|their} path, for which there was no room"},
	bpf.ShortStack:    {what: "user stack{s} that {is|are} deeper than what was copied of {it|them}", hint: "copy more with --ustack=dwarf,SIZE"},
	bpf.LostInner:     {what: "session{s} not recorded because {its|their} calls were taken for calls within an earlier one, whose return was not seen"},
	bpf.LostKeptStack: {what: "call{s} added up without {its|their} stack, for which there was no room"},
	bpf.UnseenReturn:  {what: "return{s} of functions of the process not seen because the kernel waits for no more than 64 of a thread"},
	bpf.MissedTask: {what: "start{s}, exec{s} or end{s} of tasks not seen because the kernel skips a program on a CPU where a task was preempted inside it",
		hint: "sessions may be wrong"},
	bpf.UnseenCode: {what: "time{s} something that processes mapped, executed or forked was not seen: the buffer for that was full, processes mapped more than is read or kept, one kept its mappings locked, or a CPU was off",
		hint: "user stacks may lack frames or names"},
	bpf.SwitchedOff: {what: "switch{es} of the kernel's, for ftrace or kprobes, {was|were} off at the end: calls that need {it|them} were not seen since", hint: "on that machine, ksnoop doctor says more"},
	bpf.LeftFine:    {what: "session{s} not shown because {it|they} did not fail", known: true},
	bpf.LeftError:   {what: "session{s} not shown because of the error{s} that {it|they} failed with", known: true},
	bpf.LeftShort:   {what: "session{s} not shown because {it|they} did not take long enough", known: true},
	bpf.LeftUnmet:   {what: "session{s} not shown because no call met the predicates", known: true},
}

// LossText names what a counter of the engine counts: "calls left out by --rate". It does not depend on
// how many there were.
func LossText(cause bpf.Counter) string { return plural.Text(0, losses[cause].what) }

// LossCount says how much a counter of the engine has counted: "1 call left out by --rate".
func LossCount(cause bpf.Counter, n uint64) string { return plural.Of(n, losses[cause].what) }

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
	return append(appendPainted(dst, fmt.Appendf(nil, "--- %s ---", plural.Of(n, what)), s), '\n')
}

// AppendLosses appends a line for each cause of loss: for all causes, or only for those
// that occurred and are not known already.
func AppendLosses(dst []byte, counts *[bpf.Counters]uint64, all bool) []byte {
	for i, n := range counts {
		l := &losses[i]
		if !all && (n == 0 || l.known) {
			continue
		}
		dst = append(append(dst, "ksnoop: "...), LossCount(bpf.Counter(i), n)...)
		if n > 0 && l.hint != "" {
			dst = append(append(dst, "; "...), l.hint...)
		}
		dst = append(dst, '\n')
	}
	return dst
}
