// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestBootClock: the clocks are read once a second, and what they say is taken if they were set.
func TestBootClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := time.Date(2026, 11, 23, 7, 0, 0, 0, time.UTC)
		boot, within, reads := first, time.Duration(0), 0
		c := &bootClock{read: func() (time.Time, time.Duration) {
			reads++
			return boot, within
		}}
		for i, step := range []struct {
			by, within, wait time.Duration
			want             time.Duration // later than first
		}{
			{0, 0, 0, 0},
			{time.Hour, 0, 999 * time.Millisecond, 0}, // not yet
			{0, 0, time.Millisecond, time.Hour},
			{-2 * time.Hour, 0, time.Second, -time.Hour},
			{slack, 0, time.Second, -time.Hour},
			{time.Minute, time.Minute, time.Second, -time.Hour}, // held up
			{0, time.Second, time.Second, time.Minute + slack - time.Hour},
			{-time.Second, 0, time.Second, time.Minute + slack - time.Hour}, // the one before was held up
			{-2 * slack, 0, time.Second, time.Minute - slack - time.Second - time.Hour},
		} {
			boot, within = boot.Add(step.by), step.within
			time.Sleep(step.wait)
			for range 100 {
				if got := c.Boot().Sub(first); got != step.want {
					t.Fatalf("%d: boot is later by %v, want %v", i, got, step.want)
				}
			}
		}
		if reads != 8 {
			t.Errorf("read %d times", reads)
		}
	})
}

// TestBootClockRead: the time of the kernel's clock and that of boot are the time of day. Looking
// at it costs no memory.
func TestBootClockRead(t *testing.T) {
	c := &bootClock{read: readBoot}
	from := time.Now()
	now := c.Boot().Add(time.Duration(monotonic()))
	if to := time.Now(); now.Before(from.Add(-slack)) || now.Sub(to) > to.Sub(from)+slack {
		t.Errorf("%v is not from %v to %v", now, from, to)
	}
	if n := testing.AllocsPerRun(100, func() {
		c.next = time.Time{}
		c.Boot()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
