// SPDX-License-Identifier: Apache-2.0

package record

import (
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
	dir    string
	limit  int64 // of a recording, in bytes
	keep   int   // recordings in the directory; 0: all
	file   *destination.File
	name   string // of file, without the directory
	counts ShelfCounts
}

// ShelfCounts are of a run: how many recordings it made, and how many, its own and older
// ones, it removed.
type ShelfCounts struct{ Made, Removed int }

// OpenShelf opens a directory for recordings of limit bytes each, of which the newest are
// kept; 0 keeps all. It makes the directory if there is none, for its owner alone, and
// those above it.
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
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	return &Shelf{dir: dir, limit: limit, keep: keep}, nil
}

// Counts returns what was done so far.
func (s *Shelf) Counts() ShelfCounts { return s.counts }

// Names of recordings on a shelf: when they began, in UTC.
const shelfName = "ksnoop-20060102T150405.000000000Z.ks"

var shelfNames = regexp.MustCompile(`^ksnoop-\d{8}T\d{6}\.\d{9}Z\.ks$`)

// next begins the next recording, and closes the one before. It removes the oldest ones if
// there are too many.
func (s *Shelf) next() (*destination.File, error) {
	if err := s.Close(); err != nil {
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
		file, err := destination.Create(filepath.Join(s.dir, name), false)
		if errors.Is(err, fs.ErrExist) {
			continue // another ksnoop has begun at the same nanosecond
		}
		if err != nil {
			return nil, err
		}
		lock(file.File)
		s.file = file
		s.counts.Made++
		return file, s.prune()
	}
}

// Close closes the newest recording.
func (s *Shelf) Close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

// discard removes the newest recording, which was not begun.
func (s *Shelf) discard() error {
	if s.file == nil {
		return nil
	}
	s.counts.Made--
	return s.file.Discard()
}

// prune removes the oldest recordings, so that the directory has as many as are to be kept.
func (s *Shelf) prune() error {
	if s.keep == 0 {
		return nil
	}
	entries, err := os.ReadDir(s.dir) // sorted by name, and so by time
	if err != nil {
		return err
	}
	var old []string
	for _, e := range entries {
		if name := filepath.Join(s.dir, e.Name()); shelfNames.MatchString(e.Name()) && e.Name() != s.name && isOwn(name) {
			old = append(old, name)
		}
	}
	for _, name := range old[:max(0, len(old)+1-s.keep)] {
		switch err := os.Remove(name); {
		case err == nil:
			s.counts.Removed++
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return nil
}

// isOwn reports whether a file is a recording that this user's ksnoop has made and is not
// writing any more. Nothing else is ever removed, whatever its name is.
func isOwn(name string) bool {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == os.Geteuid() && Is(file) && !isLocked(file)
}
