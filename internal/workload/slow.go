// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

func slowCases() []workCase {
	return []workCase{
		{"sleep", "sleep in nanosleep(2)", sleepCase},
		{"pipe-wait", "wait in a read of a pipe until another thread writes one byte", pipeWaitCase},
	}
}

func durationFlag(f *flag.FlagSet) *time.Duration {
	return f.Duration("for", 50*time.Millisecond, "how `long` each call takes at least")
}

func sleepCase(f *flag.FlagSet) func(io.Writer) error {
	d := durationFlag(f)
	count := f.Int("count", 1, "how `often`")
	return func(w io.Writer) error {
		// An interrupted sleep would make two calls of one.
		runtime.LockOSThread()
		interrupted := 0
		begin := time.Now()
		for range *count {
			left := unix.NsecToTimespec(int64(*d))
			for unix.Nanosleep(&left, &left) == unix.EINTR {
				interrupted++
			}
		}
		took := time.Since(begin)
		fmt.Fprintf(w, "sleep count=%d for=%v tid=%d interrupted=%d took=%v\n", *count, *d, unix.Gettid(), interrupted, took)
		if took < *d*time.Duration(*count) {
			return fmt.Errorf("slept for %v only", took)
		}
		return nil
	}
}

func pipeWaitCase(f *flag.FlagSet) func(io.Writer) error {
	d := durationFlag(f)
	count := f.Int("count", 1, "how `often`")
	return func(w io.Writer) error {
		var fds [2]int
		if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		runtime.LockOSThread()
		buf := make([]byte, 1)
		begin := time.Now()
		for range *count {
			go func() {
				time.Sleep(*d)
				_, _ = unix.Write(fds[1], []byte{1}) // a failure leaves the reader waiting, which shows
			}()
			if n, err := unix.Read(fds[0], buf); n != 1 {
				return fmt.Errorf("read %d bytes from pipe: %w", n, err)
			}
		}
		took := time.Since(begin)
		fmt.Fprintf(w, "pipe-wait count=%d for=%v tid=%d took=%v\n", *count, *d, unix.Gettid(), took)
		if took < *d*time.Duration(*count) {
			return fmt.Errorf("waited for %v only", took)
		}
		return nil
	}
}
