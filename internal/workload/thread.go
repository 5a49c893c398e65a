// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

func threadCases() []workCase {
	return []workCase{
		{"threads", "read /dev/zero on several threads at once", threadsCase},
		{"sleepers", "block many threads in reads of a pipe, then let each have one byte", sleepersCase},
		{"exit-group", "exit while threads are in reads that never return", exitGroupCase},
	}
}

func threadsCase(f *flag.FlagSet) func(io.Writer) error {
	threads := f.Int("threads", 4, "`number` of threads")
	count := f.Int("count", 1, "reads of each")
	size := f.Int("size", 1, "`bytes` asked for by each read")
	return func(w io.Writer) error {
		fd, err := unix.Open("/dev/zero", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		var bytes, wrong atomic.Int64
		// All threads exist before the first read, so no two share a thread.
		var ready, done sync.WaitGroup
		ready.Add(*threads)
		for range *threads {
			done.Go(func() {
				runtime.LockOSThread() // and never unlock: the thread ends here
				buf := make([]byte, *size)
				ready.Done()
				ready.Wait()
				for range *count {
					if r := readInto(fd, buf); r.errno != 0 {
						wrong.Add(1)
					} else {
						bytes.Add(int64(r.n))
					}
				}
			})
		}
		done.Wait()
		fmt.Fprintf(w, "threads threads=%d count=%d size=%d bytes=%d\n", *threads, *count, *size, bytes.Load())
		if wrong.Load() > 0 {
			return fmt.Errorf("%d reads failed", wrong.Load())
		}
		return nil
	}
}

// blockedReaders starts threads that each read one byte from a pipe, and
// returns its other end when all are about to. A runtime that is told of the
// call gives the thread's turn to another, so any number can wait.
func blockedReaders(n int, done *sync.WaitGroup) (writeEnd int, failed *atomic.Int64, err error) {
	// The runtime's limit is a safeguard against leaks; here threads are the purpose.
	debug.SetMaxThreads(n + 1000)
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return 0, nil, err
	}
	failed = &atomic.Int64{}
	var ready sync.WaitGroup
	ready.Add(n)
	for range n {
		done.Go(func() {
			runtime.LockOSThread()
			buf := make([]byte, 1)
			ready.Done()
			if n, err := unix.Read(fds[0], buf); n != 1 || err != nil {
				failed.Add(1)
			}
		})
	}
	ready.Wait()
	return fds[1], failed, nil
}

func sleepersCase(f *flag.FlagSet) func(io.Writer) error {
	n := f.Int("n", 10, "`number` of threads")
	d := durationFlag(f)
	return func(w io.Writer) error {
		var done sync.WaitGroup
		end, failed, err := blockedReaders(*n, &done)
		if err != nil {
			return err
		}
		time.Sleep(*d)
		for left := *n; left > 0; {
			written, err := unix.Write(end, make([]byte, min(left, 4096)))
			if err != nil {
				return fmt.Errorf("wake threads: %w", err)
			}
			left -= written
		}
		done.Wait()
		fmt.Fprintf(w, "sleepers n=%d for=%v failed=%d\n", *n, *d, failed.Load())
		if failed.Load() > 0 {
			return fmt.Errorf("%d reads failed", failed.Load())
		}
		return nil
	}
}

func exitGroupCase(f *flag.FlagSet) func(io.Writer) error {
	n := f.Int("threads", 4, "`number` of threads")
	code := f.Int("code", 3, "exit `status`")
	d := durationFlag(f)
	return func(w io.Writer) error {
		var never sync.WaitGroup
		if _, _, err := blockedReaders(*n, &never); err != nil {
			return err
		}
		time.Sleep(*d) // by then they are in their reads
		fmt.Fprintf(w, "exit-group threads=%d code=%d\n", *n, *code)
		os.Exit(*code)
		return nil
	}
}
