// SPDX-License-Identifier: Apache-2.0

package regular

import (
	"cmp"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// mountOf returns the number of a file's mount. A kernel that knows both numbers gives the unique one.
func mountOf(f *os.File) (uint64, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var in unix.Statx_t
	var failed error
	err = conn.Control(func(fd uintptr) {
		_, failed = ignoringEINTR(func() (int, error) {
			return 0, unix.Statx(int(fd), "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID|unix.STATX_MNT_ID_UNIQUE, &in)
		})
	})
	if err = cmp.Or(err, failed); err != nil {
		return 0, &fs.PathError{Op: "statx", Path: f.Name(), Err: err}
	}
	if in.Mask&(unix.STATX_MNT_ID|unix.STATX_MNT_ID_UNIQUE) == 0 { // before Linux 5.8
		return 0, nil
	}
	return in.Mnt_id, nil
}
