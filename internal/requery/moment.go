// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Moment is a time in a recording. The zero value is none.
type Moment struct {
	form momentForm
	at   time.Duration
	wall time.Time
}

type momentForm uint8

const (
	noMoment    momentForm = iota
	afterFirst             // at later than the first record
	sinceBoot              // of CLOCK_MONOTONIC, as the column TIMESTAMP has it
	onTheDay               // at later than midnight, on the day of the first record
	wallClock              // wall
	dateAndTime            // wall, in the time zone of the recording
)

// dayForms are the forms of a time of day, dateForms those of a date without a zone. What is left
// out is zero, as journalctl has it.
var (
	dayForms  = [...]string{"15:04:05.999999999", "15:04"}
	dateForms = [...]string{"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"}
)

// ParseMoment parses a time: "+2s" after the first record, "251523.6" as the column TIMESTAMP has
// it, "10:57:13.5", or a date and a time.
func ParseMoment(text string) (m Moment, err error) {
	if after, ok := strings.CutPrefix(text, "+"); ok {
		m.form = afterFirst
		m.at, err = time.ParseDuration(after)
		if seconds, bad := strconv.ParseFloat(after, 64); bad == nil {
			m.at, err = inSeconds(seconds)
		}
		if err == nil && m.at >= 0 {
			return m, nil
		}
	} else if seconds, bad := strconv.ParseFloat(text, 64); bad == nil {
		m.form = sinceBoot
		if m.at, err = inSeconds(seconds); err == nil {
			return m, nil
		}
	}
	for _, form := range dayForms {
		if t, bad := time.Parse(form, text); bad == nil {
			midnight := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, t.Location())
			return Moment{form: onTheDay, at: t.Sub(midnight)}, nil
		}
	}
	if t, bad := time.Parse(time.RFC3339Nano, text); bad == nil {
		return Moment{form: wallClock, wall: t}, nil
	}
	for _, form := range dateForms {
		if t, bad := time.Parse(form, text); bad == nil {
			return Moment{form: dateAndTime, wall: t}, nil
		}
	}
	return Moment{}, fmt.Errorf("%q is no time: write +2s or +150ms after the first record, 251523.6 as in the column TIMESTAMP, 10:57:13.5, or 2026-01-31T10:57:13", text)
}

// inSeconds returns a number of seconds, which must be one that clocks have.
func inSeconds(s float64) (time.Duration, error) {
	if !(s >= 0 && s < 1<<33) {
		return 0, fmt.Errorf("no clock shows %g seconds", s)
	}
	return time.Duration(s * 1e9), nil
}

// A Range is a time of which records are shown. The zero value is all time.
type Range struct {
	Since, Until Moment
	// Boot is when the clock of the records was zero; the zero value: that is not known.
	Boot time.Time
	// Booted returns Boot as the part of a run has it that is being read: the time of day may
	// have been set between two. Nil: it does not change.
	Booted func() time.Time
}

// Check returns an error if the recording does not tell which time is meant.
func (r *Range) Check() error {
	for _, m := range [...]Moment{r.Since, r.Until} {
		if m.form >= onTheDay && r.Boot.IsZero() {
			return fmt.Errorf("the recording does not tell the time of day: write +2s after the first record, or 251523.6 as in the column TIMESTAMP")
		}
	}
	return nil
}

// A span is the time that is shown, in ns of CLOCK_MONOTONIC.
type span struct {
	known    bool
	first    uint64    // time of the first record
	boot     time.Time // by which it was fixed
	from, to uint64
}

// begin fixes the span when the time of a record is known, and again if the time of day was set.
func (s *span) begin(r *Range, at uint64) {
	boot := r.Boot
	if r.Booted != nil {
		boot = r.Booted()
	}
	if s.known && boot.Equal(s.boot) {
		return
	}
	if !s.known {
		s.first = at
	}
	*s = span{known: true, first: s.first, boot: boot, to: ^uint64(0)}
	if r.Since.form != noMoment {
		s.from = r.Since.in(boot, s.first)
	}
	if r.Until.form != noMoment {
		s.to = r.Until.in(boot, s.first)
	}
}

// in returns a moment as a time of CLOCK_MONOTONIC.
func (m Moment) in(boot time.Time, first uint64) uint64 {
	at := m.wall.Sub(boot)
	switch m.form {
	case afterFirst:
		return first + uint64(m.at)
	case sinceBoot:
		at = m.at
	case onTheDay:
		y, month, day := boot.Add(time.Duration(first)).Date()
		at = time.Date(y, month, day, 0, 0, 0, 0, boot.Location()).Add(m.at).Sub(boot)
	case dateAndTime:
		w := m.wall
		at = time.Date(w.Year(), w.Month(), w.Day(), w.Hour(), w.Minute(), w.Second(), w.Nanosecond(), boot.Location()).Sub(boot)
	}
	return uint64(max(at, 0))
}

func (s span) has(t uint64) bool { return t >= s.from && t <= s.to }
