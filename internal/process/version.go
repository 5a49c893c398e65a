// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/ksnoop/ksnoop/internal/regular"
)

// A Version is a file as it was when it was opened, in a mount. Users can forge all but the mount: with an overlay over FUSE they
// choose inode, size and time, and the kernel reuses the device number of a file system that is unmounted.
type Version struct {
	mount    uint64 // 0: unknown, as that of a test's file
	dev, ino uint64
	size     int64
	changed  syscall.Timespec
}

// VersionOf returns which file is open. The same file has another version in another mount.
func VersionOf(f fs.File) (Version, error) {
	info, err := f.Stat()
	if err != nil {
		return Version{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Version{}, errors.New("a file without a number")
	}
	v := Version{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, changed: st.Ctim}
	if own, ok := f.(*regular.File); ok {
		if v.mount, err = own.Mount(); err != nil {
			return Version{}, err
		}
	}
	return v, nil
}
