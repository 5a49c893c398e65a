// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A File is what a recording, or what is printed, goes to.
type File struct {
	*os.File
	name    string                      // Replace gives it to another file
	remove  func() error                // removes what has the file's name, if Create made it; else nil
	look    func() (fs.FileInfo, error) // at what has that name
	before  string                      // the name that the replaced file has until something is written; "": none is replaced
	failed  bool                        // something could not be written
	watched Watched
}

func newFile(f *os.File, remove func() error) *File {
	return &File{File: f, name: f.Name(), remove: remove, watched: Watched{Writer: f}}
}

// Write implements io.Writer.
func (f *File) Write(p []byte) (int, error) {
	if !f.Made() {
		return f.watched.Write(p)
	}
	n, err := f.File.Write(p) // for a disk nobody is waited
	f.failed = f.failed || err != nil
	if n > 0 {
		_ = f.removeBefore() // or Close does it, and says why not
	}
	return n, err
}

// WriteString implements io.StringWriter.
func (f *File) WriteString(s string) (int, error) { return f.Write([]byte(s)) }

// removeBefore removes what had the file's name before.
func (f *File) removeBefore() error {
	if f.before == "" {
		return nil
	}
	err := os.Remove(f.before)
	if err == nil {
		f.before = ""
	}
	return err
}

// Blocked returns for how long it has been waiting for somebody to read, as that of a Watched;
// of no file that is 0.
func (f *File) Blocked() time.Duration {
	if f == nil {
		return 0
	}
	return f.watched.Blocked()
}

// Create opens the destination of what a run writes. That is kernel memory, so a new file is
// readable for its owner only, and Create neither follows a symbolic link nor overwrites a
// file that somebody else may have put there. With replace, an existing file or link makes room: it
// is removed as soon as something is written, and is there again if nothing is.
//
// It writes to FIFOs and devices as they are. /dev/stdout and the like mean the descriptors
// of this process.
func Create(name string, replace bool) (*File, error) {
	if f, ok, err := openDescriptor(name); ok || err != nil {
		return f, err
	}
	f, err := makeFile(name)
	if !errors.Is(err, fs.ErrExist) {
		return f, err
	}
	info, statErr := os.Lstat(name)
	if statErr != nil {
		return nil, statErr
	}
	switch mode := info.Mode(); {
	case mode&fs.ModeNamedPipe != 0:
		// Opening it waits for a reader, who may never come.
		if err := trusted(name, info); err != nil {
			return nil, err
		}
		return openSpecial(name)
	case mode&fs.ModeCharDevice != 0:
		return openSpecial(name)
	case !mode.IsRegular() && mode.Type() != fs.ModeSymlink:
		return nil, pathError("open", name, errors.New("not a file, FIFO or character device"))
	case !replace && mode.Type() == fs.ModeSymlink:
		return nil, pathError("open", name, fmt.Errorf("%w, as a symbolic link", fs.ErrExist))
	case !replace:
		return nil, err
	}
	before, err := setAside(name)
	if err != nil {
		return nil, err
	}
	f, err = makeFile(name)
	switch {
	case err == nil:
		f.before = before
	case before != "":
		err = errors.Join(err, restore(before, name))
	}
	return f, err
}

// setAside gives what has a name another one in the same directory. Where file systems cannot do that, it is removed.
func setAside(name string) (string, error) {
	for {
		other := filepath.Join(filepath.Dir(name), fmt.Sprintf(".%s.%08x", filepath.Base(name), rand.Uint32()))
		err := unix.Renameat2(unix.AT_FDCWD, name, unix.AT_FDCWD, other, unix.RENAME_NOREPLACE)
		switch {
		case err == nil:
			return other, nil
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENAMETOOLONG):
			return "", os.Remove(name)
		case !errors.Is(err, fs.ErrExist):
			return "", pathError("rename", name, err)
		}
	}
}

// restore gives what was set aside its name again, unless something else has it.
func restore(before, name string) error {
	if err := unix.Renameat2(unix.AT_FDCWD, before, unix.AT_FDCWD, name, unix.RENAME_NOREPLACE); err != nil {
		return pathError("rename", before, err)
	}
	return nil
}

// Close closes the file. One that has nothing since it could not be written is discarded: it would be in the way of another try.
func (f *File) Close() error {
	if f.failed && f.empty() {
		return f.Discard()
	}
	return errors.Join(f.removeBefore(), f.File.Close())
}

// Discard closes a file to which nothing was written. If Create made it, it removes it, and what had the name before is there again.
// Another file that has its name by then stays.
func (f *File) Discard() error {
	if !f.Made() {
		return f.File.Close()
	}
	own, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.File.Close())
	}
	there, err := f.look()
	switch {
	case errors.Is(err, fs.ErrNotExist) && f.before != "":
		return errors.Join(restore(f.before, f.name), f.File.Close())
	case err != nil: // nobody knows what has the name
		return errors.Join(err, f.File.Close())
	case !os.SameFile(own, there):
		return errors.Join(f.removeBefore(), f.File.Close())
	}
	if f.before != "" {
		return errors.Join(os.Rename(f.before, f.name), f.File.Close())
	}
	return errors.Join(f.remove(), f.File.Close())
}

// makeFlags make a file that is new.
const makeFlags = os.O_WRONLY | os.O_CREATE | os.O_EXCL | unix.O_NOFOLLOW

// makeFile makes a file that must not exist yet, for its owner alone.
func makeFile(name string) (*File, error) {
	f, err := os.OpenFile(name, makeFlags, 0o600)
	if err != nil {
		return nil, err
	}
	made := newFile(f, func() error { return os.Remove(name) })
	made.look = func() (fs.FileInfo, error) { return os.Lstat(name) }
	return made, nil
}

// CreateIn makes a file in a directory, as Create does, that must not exist yet. Whatever has the name of the directory by then, Discard
// removes the file there.
func CreateIn(dir *os.Root, name string) (*File, error) {
	f, err := dir.OpenFile(name, makeFlags, 0o600)
	if err != nil {
		return nil, pathError("open", filepath.Join(dir.Name(), name), errors.Unwrap(err)) // which does not name the directory
	}
	made := newFile(f, func() error { return dir.Remove(name) })
	made.look = func() (fs.FileInfo, error) { return dir.Lstat(name) }
	return made, nil
}

// descriptor matches the names of a process's own descriptors.
var descriptor = regexp.MustCompile(`^(?:/dev/fd|/proc/self/fd)/(\d{1,9})$`)

// openDescriptor duplicates a descriptor of this process. Opening its name instead would
// truncate a file that is already being written.
func openDescriptor(name string) (*File, bool, error) {
	fd := -1
	switch clean := filepath.Clean(name); clean {
	case "/dev/stdout":
		fd = 1
	case "/dev/stderr":
		fd = 2
	default:
		m := descriptor.FindStringSubmatch(clean)
		if m == nil {
			return nil, false, nil
		}
		fd, _ = strconv.Atoi(m[1])
	}
	fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, false, pathError("open", name, err)
	}
	f := newFile(os.NewFile(uintptr(fd), name), nil)
	if isTerminal(f.File) {
		return nil, false, errors.Join(pathError("open", name, errTerminal), f.Close())
	}
	return f, true, nil
}

var errTerminal = errors.New("a terminal: give a file, or redirect it")

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// openSpecial opens a FIFO or a character device. It checks again after opening, as the
// file may have been exchanged.
func openSpecial(name string) (*File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.Mode()&(fs.ModeNamedPipe|fs.ModeCharDevice) == 0:
		err = pathError("open", name, errors.New("has changed"))
	case isTerminal(f):
		err = pathError("open", name, errTerminal)
	case info.Mode()&fs.ModeNamedPipe != 0:
		err = trusted(name, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return newFile(f, nil), nil
}

// trusted refuses another user's FIFO in a sticky directory that everybody can write to,
// unless the directory's owner owns it too. Linux has the same rule for opening with
// O_CREAT (fs.protected_fifos).
func trusted(name string, fifo fs.FileInfo) error {
	dir, err := os.Stat(filepath.Dir(name))
	if err != nil {
		return err
	}
	const shared = fs.ModeSticky | 0o002
	owner, dirOwner := ownerOf(fifo), ownerOf(dir)
	if dir.Mode()&shared == shared && owner != uint32(os.Geteuid()) && owner != dirOwner {
		return pathError("open", name, errors.New("this FIFO is another user's, in a directory that all can write to"))
	}
	return nil
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func ownerOf(info fs.FileInfo) uint32 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Uid
	}
	return ^uint32(0)
}
