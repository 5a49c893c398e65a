// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// A result is what a system call returned: n, or when errno is not 0 its negative.
type result struct {
	n     int
	errno unix.Errno
}

func (r result) String() string {
	if r.errno != 0 {
		return errnoText(r.errno)
	}
	return strconv.Itoa(r.n)
}

func errnoText(e unix.Errno) string {
	if name := unix.ErrnoName(e); name != "" {
		return "-" + name
	}
	return "-" + strconv.Itoa(int(e))
}

// call makes a system call without the runtime's help: the thread is blocked
// as long as the call, so it is for calls that do not wait.
func call(nr uintptr, args ...uintptr) result {
	var a [6]uintptr
	copy(a[:], args)
	n, _, errno := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	return result{int(n), errno}
}

// resultOf is the result of a call made through package unix.
func resultOf(n int, err error) result {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return result{errno: errno}
	}
	return result{n: n}
}

// err is the error that it stands for, if any.
func (r result) err() error {
	if r.errno != 0 {
		return r.errno
	}
	return nil
}

// expect is an error unless the call failed in one of the ways given, or
// succeeded when there are none.
func (r result) expect(wanted ...unix.Errno) error {
	switch {
	case len(wanted) == 0 && r.errno != 0:
		return fmt.Errorf("result is %v, want success", r)
	case len(wanted) > 0 && !slices.Contains(wanted, r.errno):
		return fmt.Errorf("result is %v, want %s", r, errnoText(wanted[0]))
	}
	return nil
}
