// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/output"
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
		text = fmt.Appendf(text, "ksnoop: %d records printed or written\n", t.Records)
	}
	text = output.AppendLosses(text, &t.Lost, all)
	if t.Evicted > 0 || all {
		text = fmt.Appendf(text, "ksnoop: %d calls shown without their return because --join kept too many open\n", t.Evicted)
	}
	if t.Cut > 0 || all {
		text = fmt.Appendf(text, "ksnoop: %d records not shown because there was too much to print after the interrupt\n", t.Cut)
	}
	if t.Orphans > 0 {
		text = fmt.Appendf(text, "ksnoop: %d sessions given up: their ends were lost, or their parts took too much memory\n", t.Orphans)
	}
	if t.Left > 0 {
		text = fmt.Appendf(text, "ksnoop: %d calls and interim stacks left out of sessions that took more than %d MiB\n", t.Left, session.SessionLimit>>20)
	}
	if all && t.Uncounted {
		text = append(text, "ksnoop: this kernel does not count all kprobes that it skips\n"...)
	}
	_, err := notes.Write(text)
	return err
}

// Unknown is how many calls were not seen if that is not known.
const Unknown = 1 << 62

// unseen are the causes for which there may be more calls, or sessions, than were written.
var unseen = [...]bpf.Counter{bpf.LostRingbuf, bpf.LostDepth, bpf.LostStash, bpf.LostScratch, bpf.LostReturn, bpf.RateLimited, bpf.LostSession,
	bpf.LostNMI, bpf.Missed, bpf.MissedReturn, bpf.Overwritten, bpf.LostKey, bpf.LostRow}

// Unseen returns how many calls, or sessions, there were at most besides those that were
// written. It is Unknown if a time was not looked at, or a process not followed.
func (t *Tally) Unseen() uint64 {
	if t.Lost[bpf.PausedTime] > 0 || t.Lost[bpf.LostFamily] > 0 {
		return Unknown
	}
	n := min(t.Orphans, Unknown)
	n = min(n+min(t.Cut, Unknown), Unknown)
	for _, cause := range unseen { // a recording may say anything: the sum must not wrap
		n = min(n+min(t.Lost[cause], Unknown), Unknown)
	}
	return n
}
