// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/session"
)

// A Tally is what was counted of one run by the end.
type Tally struct {
	output.Totals
	// marked are the losses that a mark in the output shows.
	marked [bpf.Counters]uint64
}

// Report says on notes what was lost in all, and with all everything that was counted.
func (t *Tally) Report(notes io.Writer, all bool) error {
	var text []byte
	if all {
		text = appendCount(text, t.Records, "record{s} printed or written")
	}
	text = AppendLosses(text, &t.Losses, all)
	if t.Evicted > 0 || all {
		text = appendCount(text, t.Evicted, "call{s} shown without {its|their} return because too many were open, or records were lost meanwhile")
	}
	if t.Orphans > 0 {
		text = appendCount(text, t.Orphans, "session{s} given up: {its end was|their ends were} lost, or {its|their} parts took too much memory")
	}
	if t.Left > 0 {
		text = appendCount(text, t.Left, fmt.Sprintf("{call or interim stack|calls and interim stacks} left out of sessions that took more than %d MiB", session.SessionLimit>>20))
	}
	_, err := notes.Write(text)
	return err
}

// AppendLosses appends lines that say what was lost, and with all everything that was counted.
func AppendLosses(dst []byte, l *event.Losses, all bool) []byte {
	if l.Unread != nil {
		dst = fmt.Appendf(dst, "ksnoop: what was lost is not known: %v\n", l.Unread)
	} else {
		dst = output.AppendLosses(dst, &l.Lost, all)
	}
	if l.Cut > 0 || all {
		dst = appendCount(dst, l.Cut, "record{s} not shown because there was too much to print after the interrupt")
	}
	if all && l.Uncounted {
		dst = append(dst, "ksnoop: this kernel does not count all kprobes that it skips\n"...)
	}
	return dst
}

// appendCount appends a line that says how much there was of something.
func appendCount(dst []byte, n uint64, what string) []byte {
	return fmt.Appendf(dst, "ksnoop: %s\n", plural.Of(n, what))
}

// Unknown is how many calls were not seen if that is not known.
const Unknown = 1 << 62

// unseen are the causes for which there may be more calls, or sessions, than were written.
var unseen = [...]bpf.Counter{bpf.LostRingbuf, bpf.LostDepth, bpf.LostStash, bpf.LostScratch, bpf.LostReturn, bpf.RateLimited, bpf.LostSession,
	bpf.LostNMI, bpf.LostInner, bpf.Missed, bpf.MissedReturn, bpf.UnseenReturn, bpf.Overwritten, bpf.LostKey, bpf.LostRow}

// Unseen returns how many calls, or sessions, there were at most besides those that were
// written. It is Unknown if a time was not looked at, ftrace or kprobes were switched off, a process perhaps not followed, or the end of
// a thread not seen, in whose session those of a later thread can hide.
func (t *Tally) Unseen() uint64 {
	if t.Lost[bpf.PausedTime] > 0 || t.Lost[bpf.LostFamily] > 0 || t.Lost[bpf.MissedTask] > 0 || t.Lost[bpf.SwitchedOff] > 0 {
		return Unknown
	}
	n := min(t.Orphans, Unknown)
	n = min(n+min(t.Cut, Unknown), Unknown)
	for _, cause := range unseen { // a recording may say anything: the sum must not wrap
		n = min(n+min(t.Lost[cause], Unknown), Unknown)
	}
	return n
}
