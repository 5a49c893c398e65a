// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"testing"
)

// A load is what tracing takes: something for each call, and more for those that are looked at.
type load struct{ always, looked float64 }

func (l load) takes(part float64) float64 { return l.always + l.looked*part }

// TestThrottle: for any load a budget is kept that can be, without a longer pause than it takes, and
// one that cannot be kept ends the tracing.
func TestThrottle(t *testing.T) {
	const limit, seconds = 0.25, 60
	for _, c := range []struct {
		load     load
		most     float64 // of the part in the end
		hopeless bool
	}{
		{load{0, 0.2}, 1, false},
		{load{0.2, 0.04}, 1, false},
		{load{0, 0.5}, 0.5, false},
		{load{0.1, 1}, 0.15, false},
		{load{0, 8}, 0.25 / 8, false},
		{load{0.24, 0.5}, 0.02, false},
		{load{0.26, 0}, 0, true},
		{load{0, 100}, 0, true},
	} {
		th := throttle{limit: limit, part: 1}
		var err error
		for range seconds {
			if err = th.next(c.load.takes(th.part)); err != nil {
				break
			}
		}
		if hopeless := err != nil; hopeless != c.hopeless {
			t.Errorf("%+v: error %v", c.load, err)
		}
		if c.hopeless {
			continue
		}
		if takes := c.load.takes(th.part); takes > limit {
			t.Errorf("%+v: takes %.2f with a part of %.2f, more than %.2f", c.load, takes, th.part, limit)
		}
		if th.part > c.most || th.part < c.most/2 {
			t.Errorf("%+v: a part of %.3f, want at most %.3f and at least half of that", c.load, th.part, c.most)
		}
	}
}

// TestThrottleRising: what begins with the least part runs always after a few samples if it takes
// little, and stays below the limit on its way if it takes much.
func TestThrottleRising(t *testing.T) {
	const limit = 0.25
	for _, c := range []struct {
		load    load
		samples int     // after which the part no longer rises fast
		part    float64 // that there is then, about
	}{
		{load{0, 0}, 3, 1},
		{load{0, 0.1}, 3, 1},
		{load{0.05, 0.1}, 4, 1},
		{load{0, 0.5}, 3, 0.4},
		{load{0, 8}, 1, 0.025},
		{load{0, 100}, 1, leastPart},
		{load{0.3, 0}, 1, leastPart},
	} {
		th := throttle{limit: limit, part: leastPart, rising: true}
		n := 0
		for ; th.rising; n++ {
			if n > 10 {
				t.Fatalf("%+v: rises for ever", c.load)
			}
			if err := th.next(c.load.takes(th.part)); err != nil {
				t.Fatalf("%+v: %v", c.load, err)
			}
			if takes := c.load.takes(th.part); takes > limit && th.part != leastPart {
				t.Errorf("%+v: takes %.2f with a part of %.2f, more than %.2f", c.load, takes, th.part, limit)
			}
		}
		if n != c.samples || th.part > c.part*1.01 || th.part < c.part*0.99 {
			t.Errorf("%+v: a part of %.3f after %d samples, want %.3f after %d", c.load, th.part, n, c.part, c.samples)
		}
	}
}

// TestThrottleBurst: a burst changes nothing, and when a load has gone, all calls are looked at again.
func TestThrottleBurst(t *testing.T) {
	th := throttle{limit: 0.25, part: 1}
	feed := func(takes float64, times int) {
		t.Helper()
		for range times {
			if err := th.next(takes); err != nil {
				t.Fatal(err)
			}
		}
	}
	feed(0.9, patience-1)
	feed(0, 1)
	feed(0.1, 5)
	feed(0.6, 1)
	if th.part != 1 {
		t.Errorf("a burst has led to pauses: part %.2f", th.part)
	}
	feed(0.9, patience)
	if th.part == 1 {
		t.Error("a lasting load has not")
	}
	feed(0.01, 20)
	if th.part != 1 {
		t.Errorf("the load has gone, and the part is %.2f", th.part)
	}
}
