// SPDX-License-Identifier: Apache-2.0

package livetest

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Opens returns a function that tells whether anybody has opened a file since Opens was called. To look at
// what a file is (O_PATH) does not open it.
func Opens(t *testing.T, file string) (opened func() bool) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if _, err := unix.InotifyAddWatch(fd, file, unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	return func() bool {
		n, _ := unix.Read(fd, make([]byte, 4096)) // an error if there is nothing to tell
		return n > 0
	}
}
