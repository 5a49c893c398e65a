// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"errors"
	"fmt"
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
	mapped [][]byte
	wasted uint64 // bytes that were decompressed of files that were closed again
}

// open maps an ELF file. It stays mapped until the loader is closed.
func (l *loader) open(path string) (*elfFile, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.openLocked(path)
}

func (l *loader) openLocked(path string) (*elfFile, error) {
	data, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	return l.keep(data)
}

// keep reads a mapped file as ELF. It stays mapped until the loader is closed.
func (l *loader) keep(data []byte) (*elfFile, error) {
	l.mapped = append(l.mapped, data)
	f, err := newFile(data, l.room)
	if err != nil {
		l.drop(data, 0)
	}
	return f, err
}

// drop unmaps the file that was mapped last, of which nothing is used, and gives back the room that its sections took.
func (l *loader) drop(data []byte, expanded uint64) {
	l.room.giveBack(expanded)
	l.wasted += expanded
	l.mapped = l.mapped[:len(l.mapped)-1]
	_ = unix.Munmap(data) // it is a whole mapping
}

func (l *loader) close() error {
	if l == nil {
		return nil
	}
	var errs []error
	for _, data := range l.mapped {
		errs = append(errs, unix.Munmap(data))
	}
	l.mapped = nil
	return errors.Join(errs...)
}

// mapFile maps a file into memory without reading it.
func mapFile(path string) ([]byte, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return mapOpened(f)
}

func mapOpened(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() == 0 {
		return nil, errors.New("no regular file with contents")
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map: %w", err)
	}
	// By default, the kernel reads 15 pages around each touched page.
	if err := unix.Madvise(data, unix.MADV_RANDOM); err != nil {
		return nil, errors.Join(fmt.Errorf("madvise: %w", err), unix.Munmap(data))
	}
	return data, nil
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
