// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

var errNotRegular = errors.New("not a regular file")

// openRegular opens a file below root that is to be a regular one. Whoever runs a process
// chooses what is there. Opening a pipe waits for a writer, and only who has opened a file knows
// for sure what it is: so a file of the machine is opened without waiting, and looked at then.
// flags may be O_NOFOLLOW: the file is not opened if the last part of its name is a link.
func openRegular(root fs.FS, name string, flags int) (fs.File, error) {
	f, err := openNow(root, name, flags)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", name, errNotRegular)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openNow opens a file without waiting if root is a directory of the machine. fs.FS has no flags
// for that, but gives the directory itself.
func openNow(root fs.FS, name string, flags int) (fs.File, error) {
	top, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer top.Close()
	dir, ok := top.(*os.File)
	if !ok { // made by a test
		if info, err := fs.Lstat(root, name); err == nil && flags&unix.O_NOFOLLOW != 0 && info.Mode().Type() == fs.ModeSymlink {
			return nil, &fs.PathError{Op: "open", Path: name, Err: unix.ELOOP}
		}
		return root.Open(name)
	}
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	for {
		fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC|flags, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		return os.NewFile(uintptr(fd), filepath.Join(dir.Name(), name)), nil
	}
}
