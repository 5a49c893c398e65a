// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

func offCPUCases() []workCase {
	return []workCase{
		{"off-cpu", "wait in reads of a pipe, then be busy in reads of /dev/urandom beside another thread on the same CPU; say what the kernel has accounted", offCPUCase},
	}
}

// Sizes of the reads, by which a tracer tells them apart from others. A busy read is long: where the
// kernel is preempted lazily, a short one gives way when it returns to user space.
const (
	waitingRead = 48
	busyRead    = 4 << 20
)

func offCPUCase(f *flag.FlagSet) func(io.Writer) error {
	d := durationFlag(f)
	count := f.Int("count", 4, "how `often` it waits")
	return func(w io.Writer) error {
		runtime.LockOSThread()
		debug.SetGCPercent(-1)
		runtime.GOMAXPROCS(4) // the threads take turns as the kernel says, however few CPUs there are
		waited, err := accounted(func() error { return waitInReads(*count, *d) })
		if err != nil {
			return err
		}
		beside, err := hog()
		if err != nil {
			return err
		}
		busy, err := accounted(func() error { return burnInReads(*d * time.Duration(*count)) })
		beside.Store(false)
		fmt.Fprintf(w, "off-cpu count=%d for=%v waited=%d waited-cpu=%d busy=%d busy-cpu=%d busy-delay=%d\n", *count, *d, waited.wall, waited.cpu, busy.wall, busy.cpu, busy.delay)
		if err == nil && waited.wall < int64(*d)*int64(*count) {
			err = fmt.Errorf("waited for %d ns only", waited.wall)
		}
		return err
	}
}

// A spent is what the kernel accounts to a thread, in ns: time that passed, time on a CPU, and
// time in which it would have run if there had been a CPU for it.
type spent struct{ wall, cpu, delay int64 }

// accounted returns what this thread spends in do.
func accounted(do func() error) (spent, error) {
	before, err := spentSoFar()
	if err != nil {
		return spent{}, err
	}
	if err := do(); err != nil {
		return spent{}, err
	}
	after, err := spentSoFar()
	return spent{after.wall - before.wall, after.cpu - before.cpu, after.delay - before.delay}, err
}

func spentSoFar() (s spent, err error) {
	var cpu unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &cpu); err != nil {
		return s, err
	}
	text, err := os.ReadFile("/proc/thread-self/schedstat")
	if err != nil {
		return s, err
	}
	var ran, slices int64
	_, err = fmt.Sscan(string(text), &ran, &s.delay, &slices)
	s.wall, s.cpu = monotonic(), cpu.Nano()
	return s, err
}

// waitInReads reads from a pipe into which another thread writes when this one has slept in the read
// for a while, each time.
func waitInReads(count int, d time.Duration) error {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	buf, self := make([]byte, waitingRead), unix.Gettid()
	for range count {
		begun := make(chan bool)
		go func() {
			<-begun
			for !inRead(self, fds[0]) {
			}
			time.Sleep(d)
			_, _ = unix.Write(fds[1], []byte{1}) // a failure leaves the reader waiting, which shows
		}()
		begun <- true
		if r := readInto(fds[0], buf); r.errno != 0 {
			return fmt.Errorf("reading from the pipe: %w", r.errno)
		}
	}
	return nil
}

// inRead reports whether a thread of this process sleeps in a read of a file.
func inRead(tid, fd int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", tid))
	return err != nil || bytes.HasPrefix(text, fmt.Appendf(nil, "%d %#x ", unix.SYS_READ, fd))
}

// burnInReads reads random bytes until the thread was on a CPU for some time.
func burnInReads(d time.Duration) error {
	fd, err := unix.Open("/dev/urandom", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	buf := make([]byte, busyRead)
	begin, err := spentSoFar()
	if err != nil {
		return err
	}
	for now := begin; now.cpu-begin.cpu < int64(d); {
		if r := readInto(fd, buf); r.errno != 0 {
			return fmt.Errorf("reading random bytes: %w", r.errno)
		}
		if now, err = spentSoFar(); err != nil {
			return err
		}
	}
	return nil
}

// hog binds this thread to the first CPU, and has another one run there as long as the result is
// true.
func hog() (*atomic.Bool, error) {
	var one unix.CPUSet
	one.Set(0)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return nil, err
	}
	on := &atomic.Bool{}
	on.Store(true)
	bound := make(chan error)
	go func() {
		runtime.LockOSThread()
		bound <- unix.SchedSetaffinity(0, &one)
		for on.Load() {
		}
	}()
	return on, <-bound
}
