// SPDX-License-Identifier: Apache-2.0

// Package regular opens files whose names are the choice of others: of who runs a traced process,
// or of who made a file that names further ones. The name may lead to a pipe or a device, and to
// open these can already do harm: a watchdog starts to run, a tape is rewound, whoever waits for a
// reader of a pipe goes on. Files of /proc and /sys are no better, although they are regular ones by their mode.
// So a file is looked at first, and only a regular one, or a directory, is opened. It may also lie on a file system that
// never answers: OpenIn, and what it returns, waits for that not for ever.
package regular

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrNot says that a file is not a regular one.
var ErrNot = errors.New("no regular file")

// errActs is why a file is not opened although its mode is that of a regular one.
var errActs = errors.New("a file that the kernel makes, as in /proc and /sys: to open or read it can act on the machine")

// Open opens a file to read, if it is a regular one. It waits for the file system: see Within.
func Open(name string) (*os.File, error) {
	return open(unix.AT_FDCWD, name, name, 0)
}

// OpenIn opens a file below root to read, if it is a regular one. flags may be O_NOFOLLOW: the file
// is not opened if the last part of its name is a link. It waits no longer than the file's methods do, which are those of a
// *File.
func OpenIn(root fs.FS, name string, flags int) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, pathError(name, fs.ErrInvalid)
	}
	file, err := below(root, name, func(dir int, whole string) (*os.File, error) { return open(dir, name, whole, flags) })
	switch {
	case errors.Is(err, errMade):
		return openMade(root, name, flags)
	case err != nil:
		return nil, err
	}
	return &File{file: file}, nil
}

// errMade says that a test has made a file system.
var errMade = fmt.Errorf("not a file system of the kernel: %w", errors.ErrUnsupported)

// below has open open a file below root, by the directory there. It gives up if that takes too long. whole is the file's name.
func below(root fs.FS, name string, open func(dir int, whole string) (*os.File, error)) (*os.File, error) {
	return Within(name, func() (*os.File, error) {
		top, err := root.Open(".")
		if err != nil {
			return nil, err
		}
		defer top.Close()
		dir, ok := top.(*os.File) // fs.FS has no flags, but gives the directory itself
		if !ok {
			return nil, errMade
		}
		return open(int(dir.Fd()), filepath.Join(dir.Name(), name))
	})
}

// openMade is OpenIn in a file system that a test has made.
func openMade(root fs.FS, name string, flags int) (fs.File, error) {
	look := fs.Stat
	if flags&unix.O_NOFOLLOW != 0 {
		look = fs.Lstat
	}
	info, err := look(root, name)
	if err != nil {
		return nil, err
	}
	if info.Mode().Type() == fs.ModeSymlink {
		return nil, pathError(name, unix.ELOOP)
	}
	if !info.Mode().IsRegular() {
		return nil, pathError(name, ErrNot)
	}
	return root.Open(name)
}

// OpenDirIn opens a directory below root, and no link to one: the kernel looks at what it is before it asks a driver.
// It fails below a root that a test has made, and gives up as OpenIn does.
func OpenDirIn(root fs.FS, name string) (*os.File, error) {
	return below(root, name, func(dir int, whole string) (*os.File, error) {
		fd, err := openat(dir, name, unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != nil {
			return nil, pathError(whole, err)
		}
		return os.NewFile(uintptr(fd), whole), nil
	})
}

// open opens a file relative to a directory. whole is its name in errors.
func open(dir int, name, whole string, flags int) (*os.File, error) {
	fd, err := openat(dir, name, unix.O_PATH|flags) // this does not call the driver
	if err != nil {
		return nil, pathError(whole, err)
	}
	defer unix.Close(fd)
	var found, opened unix.Stat_t
	if err := unix.Fstat(fd, &found); err != nil {
		return nil, pathError(whole, err)
	}
	switch found.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFLNK:
		return nil, pathError(whole, unix.ELOOP)
	default:
		return nil, pathError(whole, ErrNot)
	}
	if err := stored(fd); err != nil {
		return nil, pathError(whole, err)
	}
	// Another file may have the name by now. This is the one that was looked at.
	again, err := openat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, pathError(whole, withoutProc(err))
	}
	if err := unix.Fstat(again, &opened); err != nil || opened.Dev != found.Dev || opened.Ino != found.Ino {
		unix.Close(again)
		return nil, pathError(whole, errNoProc)
	}
	return os.NewFile(uintptr(again), whole), nil
}

// stored returns an error if a file does not only have data, but does something: free_buffer of tracefs gives buffers
// away when it is closed, a resource of a PCI device in sysfs is the device, and /proc/kmsg has no text twice.
func stored(fd int) error {
	var in unix.Statfs_t
	_, err := ignoringEINTR(func() (int, error) { return fd, unix.Fstatfs(fd, &in) })
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) { // a server of FUSE: those of the kernel can tell
		return nil
	}
	if err != nil {
		return err
	}
	if acts(in.Type) {
		return errActs
	}
	return nil
}

// acts reports whether files of a file system do something when they are opened or read.
func acts(magic int64) bool {
	switch magic {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.TRACEFS_MAGIC, unix.DEBUGFS_MAGIC, unix.SECURITYFS_MAGIC,
		unix.EFIVARFS_MAGIC, unix.PSTOREFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.BPF_FS_MAGIC,
		unix.SELINUX_MAGIC, unix.SMACK_MAGIC, unix.BINFMTFS_MAGIC, unix.RDTGROUP_SUPER_MAGIC, unix.XENFS_SUPER_MAGIC, unix.AAFS_MAGIC,
		configfsMagic, functionfsMagic, gadgetfsMagic, spufsMagic, dlmfsMagic:
		return true
	}
	return false
}

// MayNotAnswer reports whether a file lies where a user may have mounted a file system that never answers, and the kernel waits
// for it for ever: on FUSE itself, or on an overlay, which may have FUSE below it.
func MayNotAnswer(f *os.File) bool {
	var in unix.Statfs_t
	_, err := ignoringEINTR(func() (int, error) { return 0, unix.Fstatfs(int(f.Fd()), &in) })
	return err != nil || in.Type == unix.FUSE_SUPER_MAGIC || in.Type == unix.OVERLAYFS_SUPER_MAGIC
}

// Those of fs/configfs/mount.c, drivers/usb/gadget/function/f_fs.c, drivers/usb/gadget/legacy/inode.c,
// arch/powerpc/platforms/cell/spufs/spufs.h and fs/ocfs2/dlmfs/dlmfs.c.
const (
	configfsMagic   = 0x62656570
	functionfsMagic = 0xa647361
	gadgetfsMagic   = 0xaee71ee7
	spufsMagic      = 0x23c9b64e
	dlmfsMagic      = 0x76a9f425
)

// errNoProc is why even a regular file is not opened.
var errNoProc = errors.New("files that others choose are opened through /proc/self/fd: mount proc at /proc")

// withoutProc returns why a file was not opened again. A file system can also say that what was there is there no more.
func withoutProc(err error) error {
	if (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)) && unix.Access("/proc/self/fd", unix.F_OK) != nil {
		return errNoProc
	}
	return err
}

func openat(dir int, name string, flags int) (int, error) {
	return ignoringEINTR(func() (int, error) { return unix.Openat(dir, name, unix.O_CLOEXEC|flags, 0) })
}

func pathError(name string, err error) error {
	return &fs.PathError{Op: "open", Path: name, Err: err}
}
