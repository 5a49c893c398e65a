// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"io/fs"
	"syscall"
)

// A Version is a file as it was when it was opened.
type Version struct {
	dev, ino uint64
	size     int64
	changed  syscall.Timespec
}

// VersionOf returns which file is open.
func VersionOf(f fs.File) (Version, error) {
	info, err := f.Stat()
	if err != nil {
		return Version{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Version{}, errors.New("a file without a number")
	}
	return Version{uint64(st.Dev), st.Ino, st.Size, st.Ctim}, nil
}
