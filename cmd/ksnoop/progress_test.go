// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// A screen is a terminal of so many columns; 0: it is none.
type screen struct {
	bytes.Buffer
	columns int
}

func (s *screen) Columns() int { return s.columns }

// TestSlow: what takes long is said on a terminal, and nowhere else.
func TestSlow(t *testing.T) {
	for _, c := range []struct {
		columns int
		takes   time.Duration
		want    string
	}{
		{80, time.Second, "ksnoop: attaching to 1,234,567 functions...\n"},
		{80, patience / 2, ""},
		{0, time.Second, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := screen{columns: c.columns}
			done := slow(&s, attachingTo(1234567))
			time.Sleep(c.takes)
			done()
			time.Sleep(time.Hour)
			if s.String() != c.want {
				t.Errorf("%+v: %q", c, s.String())
			}
		})
	}
	slow(&bytes.Buffer{}, "nobody's")()
	for n, want := range map[int]string{1: "attaching to a function...", 999: "attaching to 999 functions...", 1204: "attaching to 1,204 functions..."} {
		if got := attachingTo(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
