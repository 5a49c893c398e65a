// SPDX-License-Identifier: Apache-2.0

package userfunc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/ksnoop/ksnoop/internal/regular"
)

// An Identity tells whether a path still leads to the file that was read. Functions, places and
// types are those of one file: a probe at one of its places in another file could hit the middle
// of an instruction there. The zero value means that nothing is known, as in recordings.
type Identity struct {
	dev, ino  uint64
	size      int64
	sec, nsec int64 // of its last change, which nobody can set back
}

// errReplaced is why a file is not read again.
var errReplaced = errors.New("the file has been replaced or written to since it was read")

// Inode returns what tells the file from all others that are there at the same time. The kernel puts probes into this.
func (i Identity) Inode() (device, number uint64) { return i.dev, i.ino }

func identify(info fs.FileInfo) Identity {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Identity{}
	}
	return Identity{dev: stat.Dev, ino: stat.Ino, size: stat.Size, sec: stat.Ctim.Sec, nsec: stat.Ctim.Nsec}
}

// Reopen opens the file at a path if it is still the one that has the identity.
func (id Identity) Reopen(path string) (*os.File, error) {
	f, info, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	if id != (Identity{}) && identify(info) != id {
		f.Close()
		return nil, errReplaced
	}
	return f, nil
}

// openRegular opens a file, and looks at what it has opened.
func openRegular(path string) (*os.File, fs.FileInfo, error) {
	f, err := regular.Open(path)
	if errors.Is(err, regular.ErrNot) {
		return nil, nil, errors.New("it is not a regular file")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w", errors.Unwrap(err)) // the path is known
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}
