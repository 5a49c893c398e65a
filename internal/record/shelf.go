// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/ksnoop/ksnoop/internal/destination"
)

// A Shelf is a directory in which the recordings of a run follow each other. Each is whole by
// itself. Their names sort by the time at which they began.
type Shelf struct {
	dir    *os.Root // opened once: what takes its place later does not count
	limit  int64    // of a recording, in bytes
	keep   int      // how many full recordings the directory has room for; 0: any number
	file   *destination.File
	name   string     // the newest one, without the directory
	old    []finished // what may be removed, oldest first
	counts ShelfCounts
}

// A finished recording is one that nobody is writing.
type finished struct {
	name string
	fileState
}

// A fileState tells whether a file is as it was. It is another one if another file gets the name, and after a write
// or a change of the owner. Size and owner are part of it since times are as coarse as the kernel's tick.
type fileState struct {
	dev, ino uint64
	owner    uint32
	size     int64
	changed  syscall.Timespec
}

// stateOf returns false if the system does not tell.
func stateOf(info fs.FileInfo) (is fileState, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if ok {
		is = fileState{s.Dev, s.Ino, s.Uid, s.Size, s.Ctim}
	}
	return is, ok
}

// unchanged reports whether what has the recording's name now is as it was found. This opens no file.
func (f finished) unchanged(entry fs.DirEntry) bool {
	info, err := entry.Info()
	if err != nil {
		return false
	}
	now, ok := stateOf(info)
	return ok && now == f.fileState
}

// ShelfCounts are of a run: how many recordings it made, and how many, its own and older
// ones, it removed.
type ShelfCounts struct{ Made, Removed int }

// OpenShelf opens a directory for recordings of limit bytes each, of which the newest are
// kept: as many as have room in keep times limit; 0 keeps all. It makes the directory if
// there is none, for its owner alone, and those above it. The directory itself may be a symbolic link if that is root's or this user's.
//
// Recordings grow by blocks, and one has a block at least. It is larger than limit only if
// that is too small for this.
func OpenShelf(dir string, limit int64, keep int) (*Shelf, error) {
	dir = filepath.Clean(dir)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	root, err := os.OpenRoot(dir + "/") // which does not wait for the writer of a FIFO
	if err != nil {
		return nil, err
	}
	if err := rightful(dir, root); err != nil {
		return nil, errors.Join(&fs.PathError{Op: "open", Path: dir, Err: err}, root.Close())
	}
	return &Shelf{dir: root, limit: limit, keep: keep}, nil
}

// rightful is why a directory that was opened by a name is not to be used: another user's link has led to it, or may have, if the name
// is that of another directory by now.
func rightful(name string, dir *os.Root) error {
	info, err := os.Lstat(name)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		if is, ok := stateOf(info); !ok || is.owner != 0 && int(is.owner) != os.Geteuid() {
			return errors.New("a symbolic link of another user")
		}
		return nil
	}
	if opened, err := dir.Stat("."); err != nil || !os.SameFile(info, opened) {
		return cmp.Or(err, errors.New("has changed"))
	}
	return nil
}

// Counts returns what was done so far.
func (s *Shelf) Counts() ShelfCounts { return s.counts }

// Names of recordings on a shelf: when they began, in UTC.
const shelfName = "ksnoop-20060102T150405.000000000Z.ks"

var shelfNames = regexp.MustCompile(`^ksnoop-\d{8}T\d{6}\.\d{9}Z\.ks$`)

// next begins the next recording, and closes the one before.
func (s *Shelf) next() (*destination.File, error) {
	if err := s.finish(); err != nil {
		return nil, err
	}
	if err := s.look(); err != nil {
		return nil, err
	}
	for {
		name := time.Now().UTC().Format(shelfName)
		if name <= s.name { // the clock was set back
			last, err := time.Parse(shelfName, s.name)
			if err != nil {
				return nil, err
			}
			name = last.Add(1).Format(shelfName)
		}
		s.name = name
		file, err := destination.CreateIn(s.dir, name)
		if errors.Is(err, fs.ErrExist) {
			continue // another ksnoop has begun at the same nanosecond
		}
		if err != nil {
			return nil, err
		}
		lock(file.File)
		s.file = file
		s.counts.Made++
		return file, nil
	}
}

// look finds what may be removed, and the greatest name in the directory. The next name is to
// be greater: the clock may have been set back since an earlier run, and the newest recording
// would be taken for the oldest. It runs while records wait, so it opens no file again that is as it was when
// it was found finished.
func (s *Shelf) look() error {
	if s.keep == 0 && s.name != "" {
		return nil
	}
	entries, err := fs.ReadDir(s.dir.FS(), ".") // sorted by name, and so by time
	if err != nil {
		return err
	}
	return s.lookAt(entries)
}

// lookAt is look for what the directory has, in order of time.
func (s *Shelf) lookAt(entries []fs.DirEntry) error {
	known := map[string]finished{}
	for _, f := range s.old {
		known[f.name] = f
	}
	var old []finished
	for _, e := range entries {
		if _, err := time.Parse(shelfName, e.Name()); err != nil || !shelfNames.MatchString(e.Name()) {
			continue
		}
		if f, ok := known[e.Name()]; ok && f.unchanged(e) {
			old = append(old, f)
			continue
		}
		is, writing, own, err := inspect(s.dir, e.Name())
		if err != nil {
			return err
		}
		if own {
			s.name = max(s.name, e.Name())
		}
		if own && !writing {
			old = append(old, finished{e.Name(), is})
		}
	}
	s.old = old
	return nil
}

// Close closes the newest recording and the directory.
func (s *Shelf) Close() error { return errors.Join(s.finish(), s.dir.Close()) }

// finish closes the newest recording.
func (s *Shelf) finish() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

// discard removes the newest recording, which was not begun, and closes the directory.
func (s *Shelf) discard() error {
	if s.file == nil {
		return s.dir.Close()
	}
	s.counts.Made--
	return errors.Join(s.file.Discard(), s.dir.Close())
}

// mostSmall is how many recordings are kept in place of a full one, if they are small.
const mostSmall = 100

// prune removes the oldest recordings if there is no room for all of them and size bytes of
// the newest one. What counts is bytes that are written: a run that fails again and again leaves
// small recordings, which must not take the place of large ones. Since look has seen a file it may have become
// one that is to stay. Then it does not count any more.
func (s *Shelf) prune(size int64) error {
	if s == nil || s.keep == 0 {
		return nil
	}
	for _, f := range s.old {
		size += f.size
	}
	for len(s.old) > 0 && ((size-1)/s.limit >= int64(s.keep) || len(s.old)/mostSmall >= s.keep) {
		_, writing, own, err := inspect(s.dir, s.old[0].name)
		if err != nil {
			return err
		}
		if own && !writing {
			switch err := s.dir.Remove(s.old[0].name); {
			case err == nil:
				s.counts.Removed++
			case !errors.Is(err, fs.ErrNotExist):
				return err
			}
		}
		size -= s.old[0].size
		s.old = s.old[1:]
	}
	return nil
}

// inspect returns what a file is and whether somebody is writing it, if it is a recording
// that this user's ksnoop has made. Nothing else is ever removed, whatever its name is. An error says nothing of
// the file, which may be such a recording.
func inspect(dir *os.Root, name string) (is fileState, writing, own bool, err error) {
	file, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fileState{}, false, false, ofSystem(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return fileState{}, false, false, ofSystem(err)
	}
	if named, err := dir.Lstat(name); err != nil || !os.SameFile(named, info) { // a link was followed
		return fileState{}, false, false, ofSystem(err)
	}
	is, ok := stateOf(info)
	return is, isLocked(file), ok && int(is.owner) == os.Geteuid() && Is(file), nil
}

// ofSystem returns an error if the system, or this process, is short of something. Others say what a file is: a link, or gone.
func ofSystem(err error) error {
	for _, short := range [...]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, short) {
			return err
		}
	}
	return nil
}
