// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"iter"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/session"
)

// A Tally is what was counted of one run by the end.
type Tally struct {
	Records uint64 // written or recorded
	Orphans uint64 // sessions given up of which parts had come
	Left    uint64 // calls and interim stacks left out of sessions
	Evicted uint64 // entries whose return Join has not waited for
	// marked are the losses that a mark in the output shows.
	marked [bpf.Counters]uint64
	// What the kernel, and the reader of its records, have counted.
	event.Losses
}

// Report marks in the output what was lost after the last record, and says on notes what
// was lost in all, and with all everything that was counted.
func (t *Tally) Report(out, notes io.Writer, all bool) error {
	var text []byte
	for _, cause := range bpf.Marked {
		if n := t.Lost[cause]; n > t.marked[cause] {
			text = output.AppendLost(text, cause, n-t.marked[cause])
		}
	}
	if _, err := out.Write(text); err != nil {
		return err
	}
	text = text[:0]
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

// Drain takes all records, or count of them besides the marks of losses.
func Drain(records iter.Seq2[[]byte, error], count uint64) (*Tally, error) {
	t := &Tally{}
	for raw, err := range records {
		if err != nil {
			return t, err
		}
		if bpf.IsLost(raw) {
			continue
		}
		if t.Records++; t.Records == count {
			break
		}
	}
	return t, nil
}
