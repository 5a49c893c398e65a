// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/regular"
)

// A loader opens the files over which debug info is spread.
type loader struct {
	path string // of the file that names the others
	room *room

	mu     sync.Mutex
	mapped []mapped
	wasted uint64 // bytes that were decompressed or copied of files that were closed again
}

// open maps an ELF file. It stays mapped until the loader is closed.
func (l *loader) open(path string) (*elfFile, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.openLocked(path)
}

func (l *loader) openLocked(path string) (*elfFile, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return l.read(f)
}

// read maps a file and reads it as ELF. It stays mapped until the loader is closed.
func (l *loader) read(f *os.File) (*elfFile, error) {
	m, err := l.bytes(f)
	if err != nil {
		return nil, err
	}
	l.mapped = append(l.mapped, m)
	opened, err := newFile(m.data, l.room)
	if err != nil {
		l.drop(0)
	}
	return opened, err
}

// drop unmaps the file that was mapped last, of which nothing is used, and gives back the room that it and its sections took.
func (l *loader) drop(expanded uint64) {
	last := len(l.mapped) - 1
	taken := expanded + l.mapped[last].copied
	l.room.giveBack(taken)
	l.wasted += taken
	_ = unix.Munmap(l.mapped[last].data) // it is a whole mapping
	l.mapped = l.mapped[:last]
}

func (l *loader) close() error {
	if l == nil {
		return nil
	}
	var errs []error
	for _, m := range l.mapped {
		errs = append(errs, unix.Munmap(m.data))
	}
	l.mapped = nil
	return errors.Join(errs...)
}

// bytes maps a file into memory without reading it. What may not answer is copied: Go's runtime would wait for a thread
// that waits for a page, and with it the whole program.
func (l *loader) bytes(f *os.File) (m mapped, err error) {
	if regular.MayNotAnswer(f) {
		return copyELF(f, l.room)
	}
	m.data, err = mapFile(f)
	return m, err
}

// touch maps all pages of a part that will be read from start to end. This costs a tenth of
// the page faults that it saves. It is only a hint.
func touch(data, part []byte) {
	const few, most = 1 << 16, 1 << 30
	off := cap(data) - cap(part)
	if len(part) < few || len(part) > most || off < 0 || off+len(part) > len(data) || &data[off] != &part[0] {
		return // it was decompressed, so it is not part of the file
	}
	const page = 4096
	pages := data[off&^(page-1) : off+len(part)]
	_ = unix.Madvise(pages, unix.MADV_WILLNEED)
	_ = unix.Madvise(pages, unix.MADV_POPULATE_READ)
}
