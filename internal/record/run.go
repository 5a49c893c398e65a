// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/internal/event"
)

// A Run is what one run of ksnoop has recorded: one recording, or parts that follow each
// other. What begins in a part may end in the next, so their records are one stream.
type Run []*Reader

// Runs puts recordings together to runs. A part of which the one before is missing begins
// another run.
func Runs(recordings []*Reader) (runs []Run) {
	recordings = slices.Clone(recordings)
	slices.SortStableFunc(recordings, func(a, b *Reader) int {
		return cmp.Or(strings.Compare(a.info.Run, b.info.Run), cmp.Compare(a.info.Part, b.info.Part))
	})
	for _, r := range recordings {
		if n := len(runs); n > 0 && r.follows(runs[n-1][len(runs[n-1])-1]) {
			first := runs[n-1][0]
			r.view, r.cgroups, r.users = first.view, first.cgroups, first.users // which have the names of the whole run
			runs[n-1] = append(runs[n-1], r)
			continue
		}
		runs = append(runs, Run{r})
	}
	return runs
}

// follows reports whether r is the part after another one.
func (r *Reader) follows(before *Reader) bool {
	if r.info.Run == "" || r.info.Run != before.info.Run || r.info.Part != before.info.Part+1 || len(r.plan.Probes) != len(before.plan.Probes) {
		return false
	}
	for i, p := range r.plan.Probes { // a recording may claim anything
		if q := before.plan.Probes[i]; fingerprint(p) != fingerprint(q) || p.Func.Name != q.Func.Name {
			return false
		}
	}
	return true
}

// Losses returns what the run lacks; see [Reader.Losses]. They are in its last part.
func (run Run) Losses() event.Losses { return run[len(run)-1].Losses() }

// More reports whether the last part is missing.
func (run Run) More() bool { return run[len(run)-1].More() }
