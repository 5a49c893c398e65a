// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock marks a file as being written, until it is closed. File systems without locks have no
// such mark; a follower then takes the writer as gone at the end of the file.
func lock(file *os.File) {
	conn, err := file.SyscallConn()
	if err == nil {
		_ = conn.Control(func(fd uintptr) {
			_ = unix.FcntlFlock(fd, unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
		})
	}
}

// isLocked reports whether somebody has the mark of lock.
func isLocked(file *os.File) (locked bool) {
	conn, err := file.SyscallConn()
	if err != nil {
		return false
	}
	_ = conn.Control(func(fd uintptr) {
		l := unix.Flock_t{Type: unix.F_RDLCK}
		locked = unix.FcntlFlock(fd, unix.F_OFD_GETLK, &l) == nil && l.Type != unix.F_UNLCK
	})
	return locked
}

// Growing reports whether reading a file ended with err since somebody is still writing it.
func Growing(file *os.File, err error) bool { return errors.Is(err, errCut) && isLocked(file) }
