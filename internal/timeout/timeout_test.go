// SPDX-License-Identifier: Apache-2.0

package timeout

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

func newCalls() *Calls {
	return &Calls{Most: 16, Late: errors.New("late"), GoesOn: errors.New("goes on"), Many: errors.New("many")}
}

// TestDo: a call that never ends is left after its time, and so many of them that no more are begun.
func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, end := newCalls(), make(chan struct{})
		stuck := func() (int, error) { <-end; return 0, nil }
		answers := func() (int, error) { return 7, nil }
		for of := range calls.Most {
			if n, err := Do(t.Context(), calls, time.Second, of, answers); n != 7 || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
			begin := time.Now()
			if _, err := Do(t.Context(), calls, time.Second, of, stuck); !errors.Is(err, calls.Late) || !calls.GaveUp(err) || calls.Refused(err) || time.Since(begin) != time.Second {
				t.Fatalf("%v after %v", err, time.Since(begin))
			}
			if _, err := Do(t.Context(), calls, time.Second, of, answers); !errors.Is(err, calls.GoesOn) || !calls.GaveUp(err) || !calls.Refused(err) {
				t.Fatalf("again: %v", err)
			}
		}
		if _, err := Do(t.Context(), calls, time.Second, calls.Most, answers); !errors.Is(err, calls.Many) || !calls.GaveUp(err) || !calls.Refused(err) {
			t.Error(err)
		}
		close(end)
		synctest.Wait()
		for of := range calls.Most + 1 {
			if n, err := Do(t.Context(), calls, time.Second, of, answers); n != 7 || err != nil {
				t.Errorf("%d, %v, after all have ended", n, err)
			}
		}
		failed := errors.New("failed")
		if _, err := Do(t.Context(), calls, time.Second, 0, func() (int, error) { return 0, failed }); !errors.Is(err, failed) || calls.GaveUp(err) {
			t.Error(err)
		}
	})
}

// TestDoContext: a call is also left when its context ends, and goes on then.
func TestDoContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, end := newCalls(), make(chan struct{})
		ended, stop := context.WithCancel(t.Context())
		stop()
		if _, err := Do(ended, calls, time.Second, 0, func() (int, error) { <-end; return 0, nil }); !errors.Is(err, context.Canceled) || calls.GaveUp(err) {
			t.Error(err)
		}
		if _, err := Do(t.Context(), calls, time.Second, 0, func() (int, error) { return 0, nil }); !errors.Is(err, calls.GoesOn) {
			t.Error(err)
		}
		close(end)
		synctest.Wait()
	})
}

// TestDoCloses: what comes late is closed.
func TestDoCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		open := func() (*os.File, error) {
			time.Sleep(time.Minute)
			return file, nil
		}
		if f, err := Do(t.Context(), newCalls(), time.Second, 0, open); f != nil || err == nil {
			t.Errorf("%v, %v", f, err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := file.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("closed again: %v", err)
		}
	})
}

// TestPatience: calls that all end, late, are waited for so long in all, and then for a tenth of the time at most.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := newCalls()
		calls.Patience, calls.Slow = 10*time.Second, 100*time.Millisecond
		slow := func() (int, error) { time.Sleep(2 * time.Second); return 0, nil }
		soon := func() (int, error) { time.Sleep(calls.Slow - 1); return 0, nil }
		used := func(call func() (int, error)) (d time.Duration, err error) {
			begin := time.Now()
			_, err = Do(t.Context(), calls, 5*time.Second, new(int), call)
			return time.Since(begin), err
		}
		for range 100 { // these cost nothing
			if _, err := used(soon); err != nil {
				t.Fatal(err)
			}
		}
		waited, begin, refused := time.Duration(0), time.Now(), 0
		for time.Since(begin) < time.Hour {
			d, err := used(slow)
			if waited += d; d > calls.Slow && waited > 4*calls.Patience {
				t.Fatalf("a call was waited for %v after %v", d, waited)
			}
			if calls.Refused(err) {
				refused++
				time.Sleep(time.Second)
			}
		}
		if most := 2*calls.Patience + time.Hour/10 + 10*time.Second; waited > most || waited < most/2 || refused == 0 {
			t.Errorf("waited for %v in an hour, at most %v; %d refused", waited, most, refused)
		}
		time.Sleep(time.Hour)
		if d, err := used(slow); d != 2*time.Second || err != nil {
			t.Errorf("after a while: %v, %v", d, err)
		}
		calls.Hurry()
		if d, err := used(slow); d != calls.Slow || !errors.Is(err, calls.Late) {
			t.Errorf("in a hurry: %v, %v", d, err)
		}
		synctest.Wait()
		time.Sleep(time.Minute)
	})
}
