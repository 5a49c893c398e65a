// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

func loopCases() []workCase {
	return []workCase{
		{"loop", "measure a system call: nanoseconds each; in a guest with an instruction clock, instructions", loopCase},
	}
}

func loopCase(f *flag.FlagSet) func(io.Writer) error {
	calls := f.Int("calls", 1000, "`number` of calls in a batch")
	batches := f.Int("batches", 21, "`number` of batches")
	kind := f.String("call", "read", "the `call`: read (one byte from /dev/zero) or getppid")
	return func(w io.Writer) error {
		if *calls < 1 || *batches < 1 {
			return usageError("-calls and -batches must be positive")
		}
		batch, err := loopBatch(*kind)
		if err != nil {
			return err
		}
		runtime.LockOSThread()
		debug.SetGCPercent(-1) // nothing may run beside the loop
		if r := batch(*calls); r.errno != 0 {
			return fmt.Errorf("%s: %w", *kind, r.errno)
		}
		var took []int64
		for range *batches {
			begin := monotonic()
			batch(*calls)
			took = append(took, monotonic()-begin)
		}
		slices.Sort(took)
		per := func(ns int64) float64 { return float64(ns) / float64(*calls) }
		fmt.Fprintf(w, "loop call=%s calls=%d batches=%d min=%.1f median=%.1f\n", *kind, *calls, *batches, per(took[0]), per(took[len(took)/2]))
		return nil
	}
}

// loopBatch returns a function that makes n calls and returns the last result.
// The loops are written out: a call through a variable would be measured too.
func loopBatch(kind string) (func(n int) result, error) {
	switch kind {
	case "read":
		fd, err := unix.Open("/dev/zero", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		buf := make([]byte, 1)
		return func(n int) result {
			var got uintptr
			var errno unix.Errno
			for range n {
				got, _, errno = unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(buf))), 1)
			}
			return result{int(got), errno}
		}, nil
	case "getppid":
		return func(n int) result {
			var got uintptr
			var errno unix.Errno
			for range n {
				got, _, errno = unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
			}
			return result{int(got), errno}
		}, nil
	}
	return nil, usageError("unknown -call " + kind)
}

func monotonic() int64 {
	var ts unix.Timespec
	// It cannot fail for this clock and a valid address.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}
