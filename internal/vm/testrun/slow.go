// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/vm"
)

// A fixed loop in the guest's shell, and the time it takes in a guest that has a
// processor of a two-core cloud machine to itself.
const (
	loopRounds = 20000
	loopTime   = 500 * time.Millisecond
)

// slowness measures how many times slower than on a quiet machine the guest is,
// at least 1. What is timed is the host's clock: the guest's own may stand still.
func slowness(ctx context.Context, m *vm.Machine) (float64, error) {
	loop := fmt.Sprintf("i=0; while [ $i -lt %d ]; do i=$((i+1)); done", loopRounds)
	begin := time.Now()
	status, err := m.Run(ctx, vm.Command{Args: []string{"sh", "-c", loop}})
	if err == nil && status != (vm.Status{}) {
		err = fmt.Errorf("loop in guest: %v", status)
	}
	return max(1, float64(time.Since(begin))/float64(loopTime)), err
}

// contention is how many processes share one of the machine's processors now, at
// least 1: a loop's time over the processor's time that it was given.
func contention() float64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin, used := time.Now(), threadTime()
	for threadTime()-used < 50*time.Millisecond {
	}
	return max(1, float64(time.Since(begin))/float64(threadTime()-used))
}

func threadTime() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// A watch notices when a test program has been silent for too long. Its own
// time-out would count from the start, and a machine may get busy later.
type watch struct {
	limit time.Duration // on a quiet machine
	slow  float64       // measured before the program started
	last  atomic.Int64  // when it said something, as time.Time.UnixNano
}

func newWatch(limit time.Duration, slow float64) *watch {
	w := &watch{limit: limit, slow: slow}
	w.last.Store(time.Now().UnixNano())
	return w
}

// Write notes that the program is alive.
func (w *watch) Write(b []byte) (int, error) {
	w.last.Store(time.Now().UnixNano())
	return len(b), nil
}

// wait returns when the program has been silent for too long, or ctx ends.
func (w *watch) wait(ctx context.Context) (silent time.Duration) {
	for {
		silent = time.Since(time.Unix(0, w.last.Load()))
		if silent > w.limit && silent > time.Duration(float64(w.limit)*max(w.slow, contention())) {
			return silent
		}
		select {
		case <-ctx.Done():
			return 0
		case <-time.After(min(w.limit, 10*time.Second)):
		}
	}
}
