// SPDX-License-Identifier: Apache-2.0

package main

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A bootClock tells when the clock of the kernel's time stamps was zero, by the time of day. That
// changes while ksnoop runs: the time of day may be set, and CLOCK_MONOTONIC stands still while the
// machine is suspended. So it reads the clocks again, once a second at most. It is safe for concurrent use.
type bootClock struct {
	read func() (boot time.Time, within time.Duration) // readBoot, but for tests

	mu     sync.Mutex
	boot   time.Time
	within time.Duration // boot is late by less than this
	next   time.Time     // when it is to be read again
}

// slack is more than clocks are apart in two readings that were not held up.
const slack = time.Millisecond

// Boot returns the time of day, as it is by now, at which the clock was zero. Readings differ a little:
// it stays the same unless the time of day was set or stood still.
func (c *bootClock) Boot() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); !now.Before(c.next) {
		c.next = now.Add(time.Second)
		if boot, within := c.read(); boot.Sub(c.boot).Abs() > max(within, c.within)+slack {
			c.boot, c.within = boot, within
		}
	}
	return c.boot
}

// readBoot reads both clocks. What it returns is late by less than within, for which the thread may have been held up. If it was, they
// are read again.
func readBoot() (boot time.Time, within time.Duration) {
	const tries = 10
	for n := range tries {
		before := time.Duration(monotonic())
		now := time.Now().Round(0)
		if took := time.Duration(monotonic()) - before; n == 0 || took < within {
			boot, within = now.Add(-before), took
		}
		if within < slack/10 {
			break
		}
	}
	return boot, within
}

// monotonic is the time that events have.
func monotonic() uint64 {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return 0
	}
	return uint64(now.Nano())
}
