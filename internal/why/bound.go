// SPDX-License-Identifier: Apache-2.0

package why

import "fmt"

// A command may make any number of calls that fail. Of very many the last ones are kept, and before them the last ones that
// programs do not expect to fail, or that are asked for: the one that matters is among these. The others are counted, since
// a later run finds the Nth call again.

const (
	// mostLast is how many of the last calls are kept at least.
	mostLast = 50_000
	// mostOlder is how many are kept of those before.
	mostOlder = 50_000
)

// forgetMost forgets calls but for the last ones, and some before them. One that is asked for by its number is kept.
func (s *Seen) forgetMost(w Wish, last, older int) {
	old := max(len(s.Calls)-last, 0)
	surplus := -older
	for i := range old {
		if w.awaits(&s.Calls[i]) {
			surplus++
		}
	}
	kept, fit, gone := s.Calls[:0], s.passed, map[manner]int{}
	for i := range s.Calls {
		f := s.Calls[i]
		awaited := w.awaits(&f)
		keep := i >= old || awaited && surplus <= 0
		if awaited {
			surplus--
		}
		if w.Nth > 0 && w.fits(&f) {
			fit++
			keep = keep || fit == w.Nth
			if !keep && fit < w.Nth {
				s.passed++
			}
		}
		if !keep {
			gone[f.manner()]++
			continue
		}
		f.skipped += gone[f.manner()]
		kept = append(kept, f)
	}
	s.earlier += len(s.Calls) - len(kept)
	clear(s.Calls[len(kept):])
	s.Calls = kept
	if s.forgotten == nil {
		s.forgotten = map[manner]int{}
	}
	for m, n := range gone {
		s.forgotten[m] += n
	}
}

// onlyCounted says that calls of a command were forgotten; "" if none were.
func (s *Seen) onlyCounted() string {
	if s.forgotten == nil {
		return ""
	}
	return fmt.Sprintf("%d of the calls that failed early are only counted: the last %d are kept, and before them %d that programs do not expect to fail, or that are asked for", s.earlier, mostLast, mostOlder)
}
